"""The bytes that an edit changed in a file, as JSON can have them."""

from __future__ import annotations

from typing import AnyStr

# How many bytes two files share at the top and at the bottom, and what the second has between.
Difference = tuple[int, int, str]


def difference(before: bytes, after: bytes) -> Difference:
    """Return how `after` differs from `before`; each byte of it is a character."""
    top = shared_start(before, after)
    bottom = shared_start(before[top:][::-1], after[top:][::-1])
    return top, bottom, after[top : len(after) - bottom].decode("latin-1")


def with_difference(before: bytes, change: Difference) -> bytes:
    """Return the file that `difference` was asked about."""
    top, bottom, middle = change
    return before[:top] + middle.encode("latin-1") + before[len(before) - bottom :]


def shared_start(one: AnyStr, other: AnyStr) -> int:
    """Return how many bytes or characters two texts have in common at their beginning."""
    least, most = 0, min(len(one), len(other))
    while least < most:
        middle = (least + most + 1) // 2
        if one[least:middle] == other[least:middle]:
            least = middle
        else:
            most = middle - 1
    return least
