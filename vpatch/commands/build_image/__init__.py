"""`vpatch build-image` and `verify-image`: a lock becomes an image."""
