"""Versions, numbers and times that somebody else wrote, read within limits."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from packaging.version import Version

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

LONGEST_VERSION = 100


def read_version(text: object) -> Version | None:
    """Return a version of PEP 440; None if it is not one, or has more than 100 characters.

    Python reads no number of thousands of digits, and packaging may complain of one only when two
    versions are compared.
    """
    if not isinstance(text, str) or len(text) > LONGEST_VERSION:
        return None
    try:
        return Version(text)
    except ValueError:
        return None


def utc_time(text: str) -> datetime:
    """Read a time of ISO 8601; one without a zone is of this machine's.

    Raises:
        ValueError: it is not a time, or UTC does not have it: the year 1 east of Greenwich.
    """
    try:
        return datetime.fromisoformat(text).astimezone(UTC)
    except OverflowError as error:
        raise ValueError("is not a time") from error


def is_number(text: str, *, digits: int = 15) -> bool:
    """Whether `int` reads this text: a few ASCII digits, and not ² or a thousand of them."""
    return text.isascii() and text.isdigit() and len(text) <= digits


def ranges_of(versions: Collection[str], among: Sequence[str]) -> list[tuple[str, str]]:
    """Return the first and the last version of each run of neighbours, in order.

    Args:
        versions: the versions; those that are not in `among` are left out.
        among: all versions that there are, in order.
    """
    ranges: list[tuple[str, str]] = []
    for there, run in groupby(among, key=lambda version: version in versions):
        if there:
            first, *rest = run
            ranges.append((first, rest[-1] if rest else first))
    return ranges


def describe_ranges(versions: Collection[str], among: Sequence[str]) -> str:
    """Return the same as words, such as `0.20.0 to 0.22.1, 0.24.0`; empty for none."""
    return ", ".join(describe_range(first, last) for first, last in ranges_of(versions, among))


def describe_range(first: str, last: str) -> str:
    """Return a range as words, such as `0.20.0 to 0.22.1`; a single version as it is."""
    return first if first == last else f"{first} to {last}"
