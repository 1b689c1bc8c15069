"""Changes that people already carry become declared patches.

`reading` turns a source into files before and after, `differences` says what differs between them,
`strategies` propose edits for a difference, and `deriving` keeps those that give the same bytes.
It may import `planning`, `library` and what lies below them.
"""
