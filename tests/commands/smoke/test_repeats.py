from __future__ import annotations

import pytest

from vpatch.commands.smoke.repeats import repeats


@pytest.mark.parametrize(
    ("tokens", "bigram", "trigram", "fourgram", "most"),
    [
        (range(20), 0, 0, 0, 1),
        ([1, 2, 3, 4, 1, 2, 3, 4], 3 / 7, 2 / 6, 1 / 5, 2),
        ([1, 1, 1, 1, 1, 1], 4 / 5, 3 / 4, 2 / 3, 3),
        ([1, 2, 1, 2, 1], 2 / 4, 1 / 3, 0, 1),
        ([1, 2, 3], 0, 0, 0, 0),
        ([], 0, 0, 0, 0),
    ],
)
def test_shares(tokens, bigram, trigram, fourgram, most):
    found = repeats(tokens)
    assert (found.bigram, found.trigram, found.fourgram) == pytest.approx(
        (bigram, trigram, fourgram)
    )
    assert found.most == most


def test_which():
    assert repeats([9, 1, 2, 3, 4, 8, 1, 2, 3, 4, 7]).which == (1, 2, 3, 4)
    assert repeats([1, 2]).which == ()
