"""How deep Python may recurse while vpatch reads syntax trees."""

from __future__ import annotations

import sys

# Enough for `vpatch.codemods.nesting.DEEPEST` levels, and too few to reach the end of the stack.
RECURSION_LIMIT = 5000


def allow_deep_syntax() -> None:
    """Raise Python's limit, unless it is higher already.

    libcst and the edits recurse: each level of a file's syntax takes a dozen calls.
    """
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
