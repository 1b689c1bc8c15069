"""`vpatch tiny-model`: models of a few megabytes, for servers and scripts that run no real one."""
