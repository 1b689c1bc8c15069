"""What `--json` prints: one envelope, and a pydantic model for the result of each command.

Its functions make a model from what `app` returns. It may import `app` and what lies below it.
"""
