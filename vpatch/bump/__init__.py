"""What a new release means for each patch of a recipe: a verdict, and the upstream code behind it.

It may import `upstream` and what lies below it.
"""
