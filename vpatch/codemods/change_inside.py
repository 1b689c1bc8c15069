"""A change of new lines alone, at the start or at the end of a block that has `...` alone.

There the place is clear: `...` is all of the block. So the change is an insert. Between other
statements, `...` may end at several places.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.insert import Insert
from vpatch.codemods.nodes import is_gap, statements_of
from vpatch.codemods.pattern import PatternError, parse_code, parse_pattern

if TYPE_CHECKING:
    from vpatch.codemods.insert import Position
    from vpatch.codemods.scope import Scope


def insert_inside(text: str, place: Scope) -> tuple[Insert, str] | None:
    """The insert that a change says, and the pattern of the block; None for other changes.

    Raises:
        PatternError: its code is not Python.
    """
    lines = text.splitlines()
    there = [n for n, line in enumerate(lines) if line[:1] == " " and line.strip()]
    new = [n for n, line in enumerate(lines) if line[:1] == "+"]
    if len(there) + len(new) < len([line for line in lines if line.strip()]) or len(there) < 2:  # noqa: PLR2004 - a header and a gap
        return None
    *header, gap = there
    block = "".join(f"{lines[n][2:]}\n" for n in there)
    indent = lines[gap][2:].removesuffix("...")
    code = [lines[n][2:].removeprefix(indent) for n in new]
    position = _position(header, gap, new)
    is_whole = lines[gap].strip() == "..." and _is_one_block(block)
    starts = [lines[n][2:].startswith(indent) for n in new if lines[n][1:].strip()]
    if position is None or not is_whole or not starts or not all(starts):
        return None
    below = len(code) - len("\n".join(code).rstrip("\n").split("\n"))
    statements = parse_code("\n".join(code))
    return Insert(parse_pattern(block), place, statements, position, below), block


def _position(header: list[int], gap: int, new: list[int]) -> Position | None:
    if new and new[0] > gap:
        return "end"
    return "start" if new and header[-1] < new[0] and new[-1] < gap else None


def _is_one_block(pattern: str) -> bool:
    """Whether a pattern is one statement with one block, and nothing but a gap in it."""
    try:
        node = parse_pattern(pattern).node
    except PatternError:
        return False  # several statements, or no Python: whoever reads it as those says so
    body = getattr(node, "body", None)
    if not isinstance(node, cst.BaseCompoundStatement) or not isinstance(body, cst.BaseSuite):
        return False
    statements = statements_of(body)
    others = (getattr(node, name, None) for name in ("orelse", "finalbody", "handlers"))
    return len(statements) == 1 and is_gap(statements[0]) and not any(others)
