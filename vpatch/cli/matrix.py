"""What many patches mean for many trees: a table with a row a patch and a column a version."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vpatch.app.status import remarks
from vpatch.cli.output import style
from vpatch.cli.render import COLOURS
from vpatch.planning.state import State
from vpatch.util.wrapping import NO_LIMIT, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.segment import Segment

    from vpatch.app.status import StatusRow
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin

# In the order of the states: needed, applied, upstreamed, absent, blocked, conflict, untrusted.
SYMBOLS = dict(zip(State, "NAU.BCT", strict=True))
MARKS = {
    "!": "! the code contradicts what the patch declares",
    "*": "* is a new shape, and the code contradicts what the patch declares",
    "?": "? is a new shape: not the code of a recorded release; --why PATCH shows more",
    "~": "~ upstream changed code of the patch since {since}; vpatch bump --diff shows it",
}
# A symbol and a mark.
_CELL = 2
# A terminal keeps these free for cells, however long the names are.
_FOR_CELLS = 20


@dataclass(frozen=True)
class Column:
    """A version of a tree, and a cell for each row that it has, by the row's name."""

    pin: Pin
    cells: Mapping[str, Text]


def matrix_lines(rows: Sequence[StatusRow], width: int) -> Iterator[str]:
    """The lines of the tables of patches, the legend and the remarks; see `table_lines`."""
    columns = [
        Column(row.plan.pin, {d.patch.id: _cell(d, row) for d in _by_id(row)}) for row in rows
    ]
    yield from table_lines(columns, width)
    decisions = [d for row in rows for d in row.plan.decisions]
    counts = Counter(d.state for d in decisions)
    found = [(state, symbol) for state, symbol in SYMBOLS.items() if counts[state]]
    legend = [Text.assemble((s, COLOURS[state]), f" {state} {counts[state]}") for state, s in found]
    yield from legend_lines(legend, width)
    for remark in remarks(rows):
        yield from wrapped(remark, width)
    marks = {_mark(d, row) for row in rows for d in row.plan.decisions}
    since = next((row.since for row in rows if row.since), "")
    for mark, said in MARKS.items():
        if mark in marks:
            yield from wrapped(said.format(since=since), width)


def _by_id(row: StatusRow) -> list[Decision]:
    return sorted(row.plan.decisions, key=lambda decision: decision.patch.id)


def legend_lines(legend: Sequence[Text], width: int) -> Iterator[str]:
    yield from _rendered(Columns(legend, padding=(0, 3)), width)


def table_lines(columns: Sequence[Column], width: int) -> Iterator[str]:
    """The lines of tables with a row a name and a column a version, by the columns' trees.

    If a table would be wider than `width` characters, several tables share the versions.
    """
    trees: dict[str, list[Column]] = {}
    for column in columns:
        trees.setdefault(column.pin.tree, []).append(column)
    for tree, of_tree in trees.items():
        for block in _blocks(of_tree, width):
            yield from _rendered(_table(tree, block, width), NO_LIMIT)
            yield ""


def _blocks(columns: Sequence[Column], width: int) -> Iterator[list[Column]]:
    """Share the versions of a tree among tables that are no wider than `width`."""
    names = _name_width(columns, width)
    block: list[Column] = []
    used = names
    for column in columns:
        needed = 1 + max(_CELL, *map(len, _heading(column.pin)))
        if block and used + needed > width:
            yield block
            block, used = [], names
        block.append(column)
        used += needed
    yield block


def _name_width(columns: Sequence[Column], width: int) -> int:
    names = [columns[0].pin.tree, *(name for column in columns for name in column.cells)]
    return min(max(map(len, names)), max(width - _FOR_CELLS, _FOR_CELLS))


def _heading(pin: Pin) -> list[str]:
    """`0.23.0` in three lines, to keep the column narrow."""
    return pin.version.split(".", 2) if pin.version else [pin.label.removeprefix(f"{pin.tree}-")]


def _table(tree: str, columns: Sequence[Column], width: int) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    names = _name_width(columns, width)
    table.add_column(Text(tree), no_wrap=True, overflow="ellipsis", max_width=names)
    for column in columns:
        table.add_column(Text("\n".join(_heading(column.pin))), no_wrap=True, min_width=_CELL)
    for name in dict.fromkeys(name for column in columns for name in column.cells):
        cells = (column.cells.get(name, Text("-")) for column in columns)
        table.add_row(Text(name), *cells)
    return table


def _cell(decision: Decision, row: StatusRow) -> Text:
    return Text(SYMBOLS[decision.state] + _mark(decision, row), style=COLOURS[decision.state])


def _mark(decision: Decision, row: StatusRow) -> str:
    """The most pressing remark on a cell."""
    if decision.disagreement:
        return "*" if decision.differs_from_record else "!"
    if decision.differs_from_record:
        return "?"
    return "~" if row.changed and decision.patch.id in row.changed else ""


def _rendered(what: RenderableType, width: int) -> Iterator[str]:
    """Lines as rich lays them out, in vpatch's own styles: a terminal gets no others."""
    console = Console(width=width, color_system=None, highlight=False)
    for line in console.render_lines(what, pad=False):
        yield "".join(map(_styled, line)).rstrip()


def _styled(segment: Segment) -> str:
    text = segment.text.rstrip()
    if not text or segment.style is None or segment.style.color is None:
        return segment.text
    return style(text, fg=segment.style.color.name) + segment.text[len(text) :]
