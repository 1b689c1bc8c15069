"""A patched vLLM without an image: `vpatch install`, `uninstall`, `verify-env` and `wheel`."""
