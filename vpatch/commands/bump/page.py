"""The report of a bump as a page of its own: one file, which asks nobody for anything."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.bump import report as words
from vpatch.util.html_page import render_page

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.commands.bump.report import BumpReport
    from vpatch.planning.code_place import CodePlace

_TEMPLATE = Path(__file__).parent / "page.html"
# A line of code, and how it differs from the pristine code of the old release.
_Marked = tuple[str, str]


def page(report: BumpReport, date: datetime) -> str:
    """Return the report as a whole HTML page, with the day on which it was asked for."""
    return render_page(
        _TEMPLATE,
        report=report,
        date=date,
        version=__version__,
        words=words,
        columns=columns,
        sentence=sentence,
    )


def sentence(text: str) -> str:
    """A text of a list as a sentence."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith(('.', ':')) else '.'}"


def columns(one: ChangedCode) -> tuple[list[_Marked], list[_Marked], list[_Marked]]:
    """Return the three editions of a definition: as patched, pristine, and in the new release.

    A mark is `same`, `added` or `removed`.
    """
    return (
        list(_mark_lines(one.before, one.patched or one.before, "added")),
        list(_mark_lines(one.after, one.before, "removed")),
        list(_mark_lines(one.before, one.after, "added")),
    )


def _mark_lines(base: CodePlace | None, shown: CodePlace | None, mark: str) -> Iterator[_Marked]:
    """The lines of a definition; those that another edition lacks have the mark."""
    old, new = base.lines if base else (), shown.lines if shown else ()
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for step, _, _, first, last in matcher.get_opcodes():
        yield from ((line, "same" if step == "equal" else mark) for line in new[first:last])
