"""How much a text repeats itself: what a degenerate loop shows, and acceptance does not."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True)
class Repeats:
    """Of the n-grams of a text of tokens, the share that was there before, from 0 to 1.

    `most` is how often the most repeated 4-gram is there, and `which` it is.
    """

    bigram: float
    trigram: float
    fourgram: float
    most: int
    which: tuple[int, ...]


def repeats(tokens: Sequence[int]) -> Repeats:
    grams = {size: _grams(tokens, size) for size in (2, 3, 4)}
    shares = {size: 1 - len(g) / g.total() if g else 0.0 for size, g in grams.items()}
    ((which, most),) = grams[4].most_common(1) or [((), 0)]
    return Repeats(shares[2], shares[3], shares[4], most, which)


def _grams(tokens: Sequence[int], size: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(tokens[i : i + size]) for i in range(len(tokens) - size + 1))
