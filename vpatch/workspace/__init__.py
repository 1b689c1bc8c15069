"""What all commands share: the context, which patches for which trees, and plans for them.

It prints nothing and knows nothing of click. It may import `engine`, `checkout` and what lies below
them.
"""
