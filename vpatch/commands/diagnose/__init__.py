"""`vpatch diagnose`: which patches a log asks for."""
