"""`vpatch schema`: the JSON Schemas of declarations and results."""
