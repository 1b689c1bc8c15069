"""What a diff, a commit or a changed tree changes, file by file.

It may import `planning` and what lies below it.
"""
