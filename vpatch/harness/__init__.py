"""What runs a vLLM for a test: sandboxes, containers, servers, models, measurements.

`smoke`, `bench` and the behaviour tests of patches share it. It may import `engine`, `docker`
and what lies below them.
"""
