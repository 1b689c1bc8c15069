"""Mutants of real releases, and oracles that judge vpatch's decisions by their effect."""
