"""Numbers and their nouns."""

from __future__ import annotations

import pytest

from vpatch.util.plural import holding, listed, shortened


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


def test_lists_are_cut_off_with_a_number():
    names = ["a", "b", "c", "d"]
    assert listed(names, 2) == "a, b and 2 more"
    assert listed(names, 4) == "a, b, c, d"
    assert listed([], 2) == ""
    assert shortened(names, 3) == ["a", "b", "c", "and 1 more"]
    assert shortened(names, 4) == names
