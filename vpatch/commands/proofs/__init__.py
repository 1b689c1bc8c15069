"""`vpatch test`: a patch's examples and style, and its behaviour in a real vLLM."""
