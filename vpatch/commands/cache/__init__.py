"""`vpatch cache` and `engine`: what vpatch keeps on this machine."""
