"""Where the part of a definition went that a patch edits and upstream split off."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

from vpatch.planning.code_place import place_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.planning.view import View

_NAME = re.compile(r"(?<!def )\b\w+")
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def split_off(changed: Iterable[ChangedCode], old: View, new: View) -> dict[str, str]:
    """Return where the edited part of a definition went that upstream split, by qualified names.

    Exactly one function is new in the file and has the lines that the patch edits. The definition
    itself lost some of them, and names that function.
    """
    successors: dict[str, str] = {}
    for one in changed:
        lines, enough = _edited_lines(one.ours)
        if one.before is None or one.after is None or one.kind != "changed" or not lines:
            continue
        if lines <= _strip(one.after.lines):
            continue
        text, path = new.pristine(one.after.path) or b"", one.after.path
        known = {o.name for o in old.outline(one.before.path)}
        fresh = [
            o for o in new.outline(path) if o.name not in known and isinstance(o.node, _FUNCTION)
        ]
        places = [place_of(path, text, o) for o in fresh]
        names = set(_NAME.findall("\n".join(one.after.lines)))
        heirs = [p.name for p in places if len(lines & _strip(p.lines)) >= enough]
        if len(heirs) == 1 and heirs[0].rpartition(".")[2] in names:
            successors[one.before.name] = heirs[0]
    return successors


def _edited_lines(ours: Sequence[str]) -> tuple[set[str], int]:
    """The lines that a patch takes away, and how many of them tell where they went: all.

    Of a patch that only adds lines, it is those before and behind them, and one is enough.
    """
    body = [line for line in ours if line[:3] not in {"---", "+++", "@@ "}]
    removed = {line[1:].strip() for line in body if line[0] == "-"}
    if removed:
        return removed, len(removed)
    beside = {
        one[1:].strip()
        for pair in pairwise(body)
        if {line[0] for line in pair} == {" ", "+"}
        for one in pair
        if one[0] == " "
    }
    return beside - {""}, 1


def _strip(lines: Iterable[str]) -> set[str]:
    return {line.strip() for line in lines}
