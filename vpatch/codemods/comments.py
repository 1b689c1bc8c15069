"""Comments that an edit would drop."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

if TYPE_CHECKING:
    from collections.abc import Sequence


def lost_comment(before: cst.CSTNode, after: Sequence[cst.CSTNode]) -> str | None:
    """Say which comment a rewrite would drop, if it would."""
    lost = _comments(before) - sum(map(_comments, after), Counter[str]())
    return f"the rewrite would drop the comment {min(lost)!r}" if lost else None


def _comments(node: cst.CSTNode) -> Counter[str]:
    counts: Counter[str] = Counter()

    class CollectComments(cst.CSTVisitor):
        def visit_Comment(self, node: cst.Comment) -> None:
            counts[node.value] += 1

    node.visit(CollectComments())
    return counts
