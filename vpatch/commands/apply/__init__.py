"""`vpatch apply`, `check` and `diff`: a checkout with patches, and what differs from it."""
