"""Where a tree has the code that a patch would change."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.planning.lines import changed_lines
from vpatch.planning.state import Finding

if TYPE_CHECKING:
    from vpatch.planning.state import Decision


_PYTHON = (".py", ".pyi")


def changed_places(decision: Decision) -> list[Finding]:
    """Return the first line in each definition that a patch changes, in the tree as it is.

    What lies in no function and no class comes last: mostly that is an import for the rest.
    """
    found: dict[tuple[str, str | None], Finding] = {}
    for path, change in sorted(decision.changes.items()):
        if change.before is None:
            found[path, None] = Finding("a new file", path)
            continue
        lines = changed_lines(change.before, change.after)
        around = _definitions(change.before) if path.endswith(_PYTHON) else []
        for line in lines:
            name = _at(around, line)
            what = f"in {name}" if name else "at the top level"
            found.setdefault((path, name), Finding(what, path, line))
    return [found[key] for key in sorted(found, key=lambda key: key[1] is None)]


def _definitions(source: bytes) -> list[tuple[str, int, int]]:
    """Functions and classes by qualified names, with their first and last lines."""
    found: list[tuple[str, int, int]] = []

    def visit(body: list[ast.stmt], prefix: str) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                found.append((prefix + node.name, first, node.end_lineno or first))
            if isinstance(node, ast.ClassDef):
                visit(node.body, f"{prefix}{node.name}.")
            elif isinstance(node, ast.If | ast.Try):
                visit([*node.body, *node.orelse], prefix)

    visit(ast.parse(source).body, "")
    return found


def _at(definitions: list[tuple[str, int, int]], line: int) -> str | None:
    around = [one for one in definitions if one[1] <= line <= one[2]]
    return min(around, key=lambda one: one[2] - one[1])[0] if around else None
