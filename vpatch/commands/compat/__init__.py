"""`vpatch compat`: which of what code outside vLLM takes from it holds in which release."""
