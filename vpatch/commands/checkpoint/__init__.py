"""`vpatch checkpoint`: what keeps MTP out of a checkpoint, and how to repair it."""
