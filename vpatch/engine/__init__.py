"""A real vLLM: the environments that hold one, and patches laid over it for a run."""
