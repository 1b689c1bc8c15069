"""What `smoke`, `bench` and `test` share: points of a matrix, targets, jobs on a cluster.

It may import `workspace`, `harness`, `image`, `evidence` and what lies below them.
"""
