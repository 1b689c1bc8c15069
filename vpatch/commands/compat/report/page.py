"""The result as a page of its own: one file, which asks nobody for anything."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.compat.judgement.verdict import STATES
from vpatch.commands.compat.report.text import commit_lines, head_lines, kind_rows, listed_items
from vpatch.util.html_page import render_page

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vpatch.commands.compat.difference import DefinitionDifference
    from vpatch.commands.compat.judgement.verdict import State
    from vpatch.commands.compat.result import CompatItem, CompatResult

_TEMPLATE = Path(__file__).parent / "page.html"


def page(
    result: CompatResult,
    states: Sequence[State],
    differences: Sequence[DefinitionDifference] | None,
    date: datetime,
) -> str:
    """Return the result as a whole HTML page, with the day on which it was asked for."""
    listed: dict[str, list[tuple[CompatItem, DefinitionDifference | None]]] = {}
    if differences is None:
        for label, items in listed_items(result, states):
            listed[label] = [(one, None) for one in items]
    else:
        after = result.releases[-1].label
        shown = [one for one in differences if one.item.verdicts[after].state in states]
        listed[after] = [(one.item, one) for one in shown]
    return render_page(
        _TEMPLATE,
        result=result,
        date=date,
        version=__version__,
        states=STATES,
        heads=list(head_lines(result)),
        kinds=kind_rows(result),
        listed=listed,
        commits=commit_lines,
    )
