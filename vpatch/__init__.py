"""Declarative patches for upstream vLLM."""

import logging

__version__ = "0.1.0"

# As libraries do it: without a handler, Python would print vpatch's own warnings.
logging.getLogger(__name__).addHandler(logging.NullHandler())
