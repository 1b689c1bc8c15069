"""`vpatch run`: a command with patched files laid over its vLLM."""
