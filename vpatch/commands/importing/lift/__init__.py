"""`vpatch import --lift`: edits by text become edits by meaning."""
