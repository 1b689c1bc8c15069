"""Whether what was merged is code."""

from __future__ import annotations

import ast


def parses(code: str | bytes) -> bool:
    """Whether Python reads it."""
    try:
        ast.parse(code)
    except (SyntaxError, ValueError):
        return False
    return True
