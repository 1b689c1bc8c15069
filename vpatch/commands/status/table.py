"""What many patches mean for many trees: a table with a row a patch and a column a version."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from rich.text import Text

from vpatch.commands.status.usecase import remarks
from vpatch.console.render import COLOURS
from vpatch.console.table import Column, legend_lines, reading_lines, table_lines
from vpatch.planning.code_shape import Sureness
from vpatch.planning.state import State
from vpatch.util.wrapping import wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.commands.status.usecase import StatusRow
    from vpatch.planning.state import Decision

# In the order of the states: needed, applied, upstreamed, absent, not declared, blocked, conflict,
# untrusted.
SYMBOLS = dict(zip(State, "NAU.DBCT", strict=True))
MARKS = {
    "!": "! the code contradicts what the patch declares",
    "*": "* is unsure, and the code contradicts what the patch declares",
    "?": "? is a new shape: the record of the patch lacks this code, or is of another edition of "
    "the patch; --why PATCH shows more",
    "a": "a is changed around: the code of a recorded release, with other code around it",
    "k": "k is a known shape: the code of a recorded release, and what is around it is the same",
    "~": "~ upstream changed code of the patch since {since}; vpatch bump --diff shows it",
}


def matrix_lines(rows: Sequence[StatusRow], width: int) -> Iterator[str]:
    """The lines of the tables of patches, the legend and the remarks; see `table_lines`."""
    columns = [Column(row.plan.pin, _cells(row)) for row in rows]
    yield from table_lines(columns, width)
    yield from reading_lines(columns, width)
    decisions = [d for row in rows for d in row.plan.decisions]
    counts = Counter(d.state for d in decisions)
    present = [(state, symbol) for state, symbol in SYMBOLS.items() if counts[state]]
    legend = [
        Text.assemble((s, COLOURS[state]), f" {state} {counts[state]}") for state, s in present
    ]
    yield from legend_lines(legend, width)
    for remark in remarks(rows):
        yield from wrapped(remark, width)
    marks = {_mark(d, row) for row in rows for d in row.plan.decisions}
    since = next((row.since for row in rows if row.since), "")
    for mark, meaning in MARKS.items():
        if mark in marks:
            yield from wrapped(meaning.format(since=since), width)


def _cells(row: StatusRow) -> dict[str, Text]:
    """The cells of a tree, by the ids of the patches, in their order."""
    return {
        d.patch.id: Text(SYMBOLS[d.state] + _mark(d, row), style=COLOURS[d.state])
        for d in sorted(row.plan.decisions, key=lambda decision: decision.patch.id)
    }


def _mark(decision: Decision, row: StatusRow) -> str:
    """The most pressing remark on a cell."""
    if decision.disagreement:
        return "*" if decision.may_be_wrong else "!"
    if decision.may_be_wrong:
        return "?" if decision.new_shape else "a"
    if row.changed and decision.patch.id in row.changed:
        return "~"
    return "k" if decision.sureness is Sureness.KNOWN else ""
