"""`vpatch completion`: the script by which a shell completes command lines."""
