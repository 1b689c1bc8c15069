"""The only package that speaks to Docker: the engine's API, and the command line for BuildKit.

BuildKit is needed for vLLM's own Dockerfile and for build secrets. It may import `logs` and what
lies below it.
"""
