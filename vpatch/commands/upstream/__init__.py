"""`vpatch upstream-pr` and `upstream-status`: gates, body, branch, pull request, and threads."""
