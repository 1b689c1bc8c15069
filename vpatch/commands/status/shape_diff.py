"""How the code of a new shape differs from that of the nearest known one."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.planning.names import plain_name
from vpatch.planning.view import View
from vpatch.source.spec import parse_vllm

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


def shape_diff(context: Context, decision: Decision, tree: Tree) -> Iterator[str]:
    """Yield the lines of unified diffs, from the nearest known release to `tree`.

    Where the code around a known shape changed, it is that code. Yields nothing for a state that is
    sure. If the release cannot be read, the one line says why.
    """
    shape = decision.shape
    nearest = shape.nearest or shape.compared_with if shape else None
    if shape is None or nearest is None or tree.pin.tree != "vllm":
        return
    try:
        with context.tree(parse_vllm(nearest)) as other:
            own, theirs = View(tree), View(other)
            for one in shape.differing or shape.around:
                path = one.name.partition("::")[0]
                before = [] if one.kind == "added" else _code(theirs, path, one.name)
                after = [] if one.kind == "removed" else _code(own, path, one.name)
                yield from difflib.unified_diff(
                    before, after, f"{nearest} {one.name}", one.name, lineterm=""
                )
    except VpatchError as error:
        yield f"the code of {nearest} cannot be shown: {error.what}"


def _code(view: View, path: str, key: str) -> list[str]:
    """The lines of a definition: of the first of its name, in this file."""
    lines = (view.pristine(path) or b"").decode(errors="replace").splitlines()
    name = plain_name(key)
    for one in view.outline(path):
        if one.name == name:
            return lines[one.first - 1 : one.last]
    return []
