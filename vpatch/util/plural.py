"""A number and its noun."""

from __future__ import annotations


def counted(number: int, noun: str) -> str:
    """Return for instance "1 patch", or "2 patches"."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
