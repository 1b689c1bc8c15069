"""`vpatch import` and `new`: changes that people already carry become declared patches.

`sources` turns what people bring into files before and after. `draft` makes a patch of them by the
edits that `vpatch.deriving` finds, and `proof` tries it. Only then is anything written.
"""
