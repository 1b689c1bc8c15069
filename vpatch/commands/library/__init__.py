"""`vpatch list` and `show`: the patches and recipes that are there."""
