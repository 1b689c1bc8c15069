"""A change of one release is laid into another one, by three sides of each file.

It may import planning, git and util.
"""
