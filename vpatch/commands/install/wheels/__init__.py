"""A published wheel of vLLM becomes one with the patched files."""
