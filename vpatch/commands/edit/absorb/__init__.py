"""vpatch refresh without a patch: each change goes to the patch of a series that it belongs to."""
