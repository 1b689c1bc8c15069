"""A checkpoint on disk: what its headers tell, and what can be put right without loading it."""
