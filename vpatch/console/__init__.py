"""What commands share towards the terminal: options, tables, progress, and what `--json` prints.

It may import `workspace` and what lies below it.
"""
