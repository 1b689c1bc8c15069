"""What a target takes from vLLM: each item, with its place."""
