"""`vpatch refresh --into`: what a work tree has more becomes a patch of its own."""
