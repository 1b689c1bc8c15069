"""`vpatch evidence`: list, show and verify what runs left."""
