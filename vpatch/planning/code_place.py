"""The code of a definition, as people read it: where it is, its lines, and how two differ."""

from __future__ import annotations

import ast
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.planning.names import STATEMENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.planning.outline import Definition


@dataclass(frozen=True)
class CodePlace:
    """A definition in a release: where it is, from line 1, and its lines."""

    path: str
    name: str
    first: int
    lines: tuple[str, ...]
    is_class: bool = False

    @property
    def where(self) -> str:
        return f"{self.path}:{self.first}" if self.path else "in any module"

    @property
    def said(self) -> str:
        """Its name for people; that of its file where it has no other."""
        return self.name.replace(STATEMENT, "a statement") or self.path


def place_of(path: str, text: bytes, one: Definition) -> CodePlace:
    """Return the code of a definition of a file."""
    lines = text.decode(errors="replace").splitlines()
    own = tuple(lines[one.first - 1 : _last(one, lines)])
    return CodePlace(path, one.name, one.first, own, isinstance(one.node, ast.ClassDef))


def difference_of(before: CodePlace | None, after: CodePlace | None) -> list[str]:
    """Return the lines of a unified diff; without one of the two, all of the other is in it."""
    old, new = before.lines if before else (), after.lines if after else ()
    names = before.where if before else "/dev/null", after.where if after else "/dev/null"
    return list(difflib.unified_diff(old, new, *names, lineterm=""))


def alike(one: CodePlace, other: CodePlace) -> float:
    """How much of two definitions is the same, from 0 to 1, whatever they are called."""
    old, new = _without_name(one), _without_name(other)
    return difflib.SequenceMatcher(None, old, new, autojunk=False).ratio()


def _without_name(place: CodePlace) -> list[str]:
    name = re.compile(rf"\b{re.escape(place.name.rpartition('.')[2])}\b")
    return [name.sub("_", line.strip()) for line in place.lines]


def _last(one: Definition, lines: Sequence[str]) -> int:
    """The last line of a definition; of a class, that of its head."""
    if not isinstance(one.node, ast.ClassDef):
        return one.last
    decorated = [node.end_lineno or 0 for node in one.node.decorator_list]
    named = [base.end_lineno or 0 for base in one.node.bases]
    named += [keyword.value.end_lineno or 0 for keyword in one.node.keywords]
    at = max([one.first, *named, *(last + 1 for last in decorated)])
    while at < one.last and not lines[at - 1].rstrip().endswith(":"):
        at += 1
    return at
