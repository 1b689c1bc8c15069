"""Numbers and their nouns."""

from __future__ import annotations

import pytest

from vpatch.util.plural import holding


@pytest.mark.parametrize(
    ("number", "total", "said"),
    [
        (0, 1, "0 of 1 test holds"),
        (1, 1, "1 of 1 test holds"),
        (1, 2, "1 of 2 tests holds"),
        (0, 2, "0 of 2 tests hold"),
        (2, 2, "2 of 2 tests hold"),
    ],
)
def test_the_verb_goes_with_the_number(number, total, said):
    assert holding(number, total, "test") == said
