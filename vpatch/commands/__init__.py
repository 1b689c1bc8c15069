"""The commands: a folder for each feature, with all that only it needs.

`command.py` parses, calls and renders. `output.py` has the models of `--json`. A folder may import
what lies below `commands`, and only those other folders that the contract in pyproject.toml names.
"""
