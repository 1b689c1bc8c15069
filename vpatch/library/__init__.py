"""Where patches, recipes and targets are found, and a patch as it is loaded.

It may import `codemods`, `declare` and what lies below them.
"""
