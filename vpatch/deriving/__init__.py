"""From a file before and after to the edits that make the one of the other.

It may import `changes`, `planning`, `codemods` and what lies below them.
"""
