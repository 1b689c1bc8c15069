"""Tree -> evidence: whether a patched vLLM works on a real engine, in numbers."""
