"""The only package that speaks to Docker: its engine's API, and its command line for BuildKit.

The API builds without BuildKit. What needs BuildKit, vLLM's own Dockerfile and build secrets, goes
through `docker build`.
"""
