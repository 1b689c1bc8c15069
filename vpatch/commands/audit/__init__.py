"""`vpatch audit`: what advisories mean for a tree, and the documents that say so.

`judge` reads decisions; one module for each format writes a document.
"""
