"""`vpatch trust`: which projects may run their code."""
