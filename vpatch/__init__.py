"""Declarative patches for upstream vLLM."""

__version__ = "0.1.0"
