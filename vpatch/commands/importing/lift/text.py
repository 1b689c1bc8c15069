"""How `vpatch import --lift` shows what became of a patch."""

from __future__ import annotations

import os.path
from typing import TYPE_CHECKING

from vpatch.console.output import style
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.importing.lift.usecase import LiftedPatch


def lifted_lines(one: LiftedPatch) -> Iterator[str]:
    """Show each edit by text, and what is in its place."""
    if not one.edits:
        yield f"{style(one.id, bold=True)}  has no edit by text or diff: nothing is left to lift"
        return
    yield f"{style(one.id, bold=True)}  gives the same bytes of vllm {one.version} as before"
    for edit in one.edits:
        place = f"{edit.kind}  {edit.path}:{edit.line}"
        if edit.assembled is None:
            yield f"  stays   {place}  {edit.why}"
            continue
        becomes = ", ".join(f"{number} {kind}" for kind, number in edit.becomes.most_common())
        yield f"  lifted  {place}  becomes {becomes}"
        for each in edit.derived:
            if each.why is not None:
                yield f"          {each.kind}  {each.path}:{each.lines[0]}  {each.why}"
    for name in one.removed:
        yield f"  removed {name}: no edit uses it any more"
    share = f"{one.count} of {counted(len(one.edits), 'edit')} by text lifted"
    yield f"{share} in {os.path.relpath(one.folder)}"
