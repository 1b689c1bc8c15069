"""Small helpers that know nothing of patches: files, locks, digests, URLs, environments.

It may import nothing of vpatch but `errors` and `progress`.
"""
