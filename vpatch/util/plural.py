"""A number and its noun, and lists that are cut off with a number."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def counted(number: int, noun: str) -> str:
    """Return for instance "1 patch", "2 patches" or "2 advisories"."""
    if noun.endswith("ch"):
        plural = f"{noun}es"
    elif noun.endswith("ry"):
        plural = f"{noun[:-1]}ies"
    else:
        plural = f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def shortened(lines: Sequence[str], most: int) -> list[str]:
    """Return at most so many lines, and then for instance "and 3 more"."""
    return [*lines[:most], *([f"and {len(lines) - most} more"] if len(lines) > most else [])]


def listed(names: Sequence[str], most: int = 10) -> str:
    """Return for instance "a, b and 3 more"."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def holding(number: int, total: int, noun: str) -> str:
    """Return for instance "1 of 2 tests holds" or "0 of 2 tests hold"."""
    verb = "holds" if 1 in {number, total} else "hold"
    return f"{number} of {counted(total, noun)} {verb}"


def age_in_words(seconds: float) -> str:
    """Return for instance "2 days old" or "less than a minute old"."""
    for size, noun in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            return f"{counted(int(seconds // size), noun)} old"
    return "less than a minute old"
