"""The use cases: what each command does, without a command line.

It prints nothing and knows nothing of click. It may import every package but `cli`.
"""
