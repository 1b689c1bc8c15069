"""Where a tree has the code that a patch would change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.planning.lines import changed_lines
from vpatch.planning.state import Finding

if TYPE_CHECKING:
    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Decision


_PYTHON = (".py", ".pyi")
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def changed_places(decision: Decision) -> list[Finding]:
    """Return the first line in each definition that a patch changes, in the tree as it is.

    What lies in no function and no class comes last: mostly that is an import for the rest.
    """
    places: dict[tuple[str, str | None], Finding] = {}
    for path, change in sorted(decision.changes.items()):
        if change.before is None:
            places[path, None] = Finding("a new file", path)
            continue
        lines = changed_lines(change.before, change.after)
        around = _definitions(change.before) if path.endswith(_PYTHON) else []
        for line in lines:
            name = _at(around, line)
            what = f"in {name}" if name else "at the top level"
            places.setdefault((path, name), Finding(what, path, line))
    return [places[key] for key in sorted(places, key=lambda key: key[1] is None)]


def _definitions(source: bytes) -> list[Definition]:
    """The functions and classes of a file."""
    # It needs libcst, which takes 0.3 s to import, and few audits show places.
    from vpatch.planning.outline import outline  # noqa: PLC0415

    return [one for one in outline(source) if isinstance(one.node, _NAMED)]


def _at(definitions: list[Definition], line: int) -> str | None:
    around = [one for one in definitions if one.first <= line <= one.last]
    return min(around, key=lambda one: one.last - one.first).name if around else None
