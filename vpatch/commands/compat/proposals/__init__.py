"""Patches of a target's own tree, for what a release took away."""
