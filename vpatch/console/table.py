"""Tables with a row a name and a column a version of a tree, as wide as the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich import box
from rich.columns import Columns
from rich.console import Console
from rich.table import Table
from rich.text import Text

from vpatch.console.output import style
from vpatch.util.wrapping import NO_LIMIT, wrapped

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from rich.console import RenderableType
    from rich.segment import Segment

    from vpatch.source.tree import Pin

# A symbol and a mark.
_CELL = 2
# A terminal keeps these free for cells, however long the names are.
_FOR_CELLS = 20


@dataclass(frozen=True)
class Column:
    """A version of a tree, and a cell for each row that it has, by the row's name."""

    pin: Pin
    cells: Mapping[str, Text]


def legend_lines(legend: Sequence[Text], width: int) -> Iterator[str]:
    yield from _rendered(Columns(legend, padding=(0, 3)), width)


def reading_lines(columns: Sequence[Column], width: int) -> Iterator[str]:
    """Say on a terminal how the headings are read; a pipe gets the tables alone."""
    pin = next((column.pin for column in columns if column.pin.version), None)
    if pin is not None and width < NO_LIMIT:
        text = f"versions are read downwards: {', '.join(_heading(pin))} is {pin.version}"
        yield from wrapped(text, width)


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
