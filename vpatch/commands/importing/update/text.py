"""How `vpatch import --update` shows what became of a patch."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from vpatch.commands.edit.refresh_text import refreshed_lines
from vpatch.commands.importing.draft_text import lines_of_left_out

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.importing.update.usecase import UpdatedPatch


def updated_lines(one: UpdatedPatch) -> Iterator[str]:
    """Say what became of the patch, and what of the source is not in it."""
    change = one.imported.draft.change
    yield from refreshed_lines(one.patch, f"an import of {change.origin}")
    yield from lines_of_left_out(one.imported.draft)
    for file in change.aside:
        yield f"  left aside  {file.path}  {file.why}"
    for doubt in change.doubts:
        yield f"  look at  {doubt}"
    for note in one.imported.notes:
        yield f"  note  {note}"
    if one.why_untrusted is not None and one.patch.written:
        yield (
            f"not trusted, as {one.why_untrusted}: read every file there, then: vpatch trust "
            f"{shlex.quote(str(one.patch.folder))}"
        )
