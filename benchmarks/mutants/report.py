"""Tables of verdicts."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from mutants.judge import VERDICTS, Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

HEAD = [*VERDICTS, "silent, no mark", "wrong, no mark"]


def table(results: Sequence[Result], by: Callable[[Result], str], title: str) -> list[str]:
    """One row for each group and one for all."""
    rows = [[title, "mutants", *HEAD, "needless of harmless"]]
    names = [*sorted({by(r) for r in results}), "all"]
    rows += [[n, *_cells([r for r in results if n in {by(r), "all"}])] for n in names]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _cells(results: Sequence[Result]) -> list[str]:
    counts = Counter(result.verdict for result in results)
    plain = Counter(result.verdict for result in results if not result.new_shape)
    numbers = [*(counts[v] for v in VERDICTS), plain["silent"], plain["wrong edit"]]
    harmless = [r for r in results if r.mark == "harmless" and r.kind != "patched"]
    needless = sum(r.verdict == "needless conflict" for r in harmless)
    share = f"{100 * needless / len(harmless):.1f} %" if harmless else "-"
    shares = [f"{n} ({100 * n / len(results):.1f} %)" if n else "0" for n in numbers]
    return [str(len(results)), *shares, share]


def tables(results: Iterable[Result]) -> list[str]:
    """By patch, by family and by mark, and what was left out."""
    judged = [result for result in results if result.verdict is not None]
    if not judged:
        return ["no mutant was valid"]
    lines: list[str] = []
    for title, by in (
        ("patch", lambda r: r.patch),
        ("family", lambda r: r.family),
        ("mark", lambda r: r.mark),
        ("release", lambda r: r.release),
    ):
        lines += [*table(judged, by, title), ""]
    return lines


def discards(results: Iterable[Result]) -> str:
    """What was tried and is no mutant."""
    total: Counter[str] = Counter()
    for result in results:
        total += result.discarded
        total["no mutant after all attempts"] += result.verdict is None
    return "left out: " + ", ".join(f"{what} {n}" for what, n in total.most_common())


def shown(result: Result) -> str:
    """One mutant for a developer."""
    head = (
        f"== {result.verdict}: {result.patch} in {result.release}, number {result.number}, "
        f"{result.kind}, {result.family} ({result.mark}): {result.state}"
    )
    mark = "\n   marked as new shape" if result.new_shape else ""
    return f"{head}{mark}\n   {result.detail}\n   {result.reason}\n{result.diff}\n"
