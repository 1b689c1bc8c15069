"""Comments that an edit would drop."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.nodes import all_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence


def lost_comment(before: cst.CSTNode, after: Sequence[cst.CSTNode]) -> str | None:
    """Say which comment a rewrite would drop, if it would."""
    lost = comments_of(before) - sum(map(comments_of, after), Counter[str]())
    return f"the rewrite would drop the comment {min(lost)!r}" if lost else None


def comments_of(node: cst.CSTNode) -> Counter[str]:
    """All comments in a piece of code."""
    return Counter(
        each.value for each in all_nodes(node, formatting=True) if isinstance(each, cst.Comment)
    )
