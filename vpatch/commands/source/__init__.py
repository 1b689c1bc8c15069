"""`vpatch source`: the plain source of a vLLM, as a git checkout to edit."""
