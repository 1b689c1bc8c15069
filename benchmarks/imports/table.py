"""The rows of benchmarks/import.py, and the table that it prints of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from survival import TOOLS

_SITUATIONS = ("open", "unclear", "present", "gone")


@dataclass
class Row:
    """A change, and what became of it.

    `releases` counts those that were tried by what they are for the change, `tools` by what a tool
    made: `right`, `wrong`, `nothing` to be done or done, or `failed`.
    """

    group: str
    name: str
    hunks: int = 0
    by_meaning: int = 0
    gives: str = ""
    kinds: Counter[str] = field(default_factory=Counter)
    why: Counter[str] = field(default_factory=Counter)
    failure: str = ""
    releases: Counter[str] = field(default_factory=Counter)
    tools: dict[str, Counter[str]] = field(default_factory=dict)

    def count(self, tool: str, result: str) -> None:
        self.tools.setdefault(tool, Counter())[result] += 1


def show(rows: list[Row]) -> None:
    tools = ["vpatch", *TOOLS]
    table = [["change", "hunks", "by meaning", "gives", *_SITUATIONS, *tools]]
    for group in dict.fromkeys(row.group for row in rows):
        mine = [row for row in rows if row.group == group]
        table += [cells(row, tools) for row in mine]
        table.append(cells(total(group, mine), tools))
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    for line in table:
        print("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip())
    for row in rows:
        if row.failure:
            print(f"{row.name}: not imported: {row.failure}")


def cells(row: Row, tools: list[str]) -> list[str]:
    releases = [str(row.releases[each]) if row.releases else "" for each in _SITUATIONS]
    counted = [row.tools.get(tool, Counter()) for tool in tools]
    counts = [str(row.hunks), str(row.by_meaning)]
    return [row.name, *counts, row.gives, *releases, *map(cell, counted)]


def cell(results: Counter[str]) -> str:
    if not results:
        return ""
    return f"{results['right']}" + (f" ({results['wrong']} wrong)" if results["wrong"] else "")


def total(group: str, rows: list[Row]) -> Row:
    exact = sum(row.gives == "exact" for row in rows)
    whole = Row(group, f"all of {group}", gives=f"{exact} of {len(rows)} exact")
    for row in rows:
        whole.hunks += row.hunks
        whole.by_meaning += row.by_meaning
        whole.releases.update(row.releases)
        for tool, results in row.tools.items():
            whole.tools.setdefault(tool, Counter()).update(results)
    return whole
