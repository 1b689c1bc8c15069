"""The only package that speaks to Ray: jobs become tasks of a cluster, and their files come back.

A job is a command of vpatch's own code in a process of its own. It may import `declare`, `util`
and what lies below them. `on_node` runs in the workers of Ray, where vpatch is not installed.
"""
