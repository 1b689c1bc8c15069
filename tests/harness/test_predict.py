from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vpatch.engine.payload.tiny_tokens import ACCEPTANCES, drafted, runner_up, successor, word
from vpatch.harness.measured import counters_from
from vpatch.harness.predict import Counters, counters_of, last_token, tokens_after


# 32 tokens: the prompt makes the first, and 31 are left, of which a step makes up to k + 1.
# `most` after token 0, in the tokens modulo 8: 7 6 5 4 3 2 1 0 7 6. Drafts after 7 and 6 are wrong.
@pytest.mark.parametrize(
    ("acceptance", "count", "k", "expected"),
    [
        ("all", 32, 0, Counters(0, 0, 0, ())),
        ("all", 32, 1, Counters(16, 16, 16, (16,))),
        ("all", 32, 2, Counters(11, 22, 22, (11, 11))),
        ("all", 32, 3, Counters(8, 24, 24, (8, 8, 8))),
        ("none", 32, 1, Counters(31, 31, 0, (0,))),
        ("none", 32, 2, Counters(31, 62, 0, (0, 0))),
        ("first", 32, 1, Counters(16, 16, 16, (16,))),
        ("first", 32, 2, Counters(16, 32, 16, (16, 0))),
        ("first", 32, 3, Counters(16, 48, 16, (16, 0, 0))),
        # 7 | 14 | 21 | 28 35 42 | 49 56 63 | 70
        ("most", 10, 2, Counters(5, 10, 4, (2, 2))),
        # 7 | 14 | 21 | 28 35 42 49 | 56 63 70
        ("most", 10, 3, Counters(4, 12, 5, (2, 2, 1))),
        ("all", 1, 3, Counters(0, 0, 0, (0, 0, 0))),
        # The last step counts in full, although one token of it is asked for.
        ("all", 2, 3, Counters(1, 3, 3, (1, 1, 1))),
    ],
)
def test_counters(acceptance, count, k, expected):
    assert counters_of(acceptance, 0, count, k) == expected


@given(
    acceptance=st.sampled_from(ACCEPTANCES),
    last=st.integers(0, 511),
    count=st.integers(1, 300),
    k=st.integers(1, 6),
)
def test_counters_agree_with_one_another(acceptance, last, count, k):
    found = counters_of(acceptance, last, count, k)
    assert found.accepted == sum(found.per_position)
    assert found.drafts * k == found.draft_tokens
    assert len(found.per_position) == k
    assert list(found.per_position) == sorted(found.per_position, reverse=True)
    assert found.per_position[0] <= found.drafts
    made = 1 + found.drafts + found.accepted
    assert count <= made <= count + k


def test_tokens():
    assert tokens_after(17, 4) == [24, 31, 38, 45]
    assert tokens_after(246, 3) == [3, 10, 17]
    assert tokens_after(252, 5) == [251, 250, 253, 252, 251]
    # A byte, which is never said, is followed by a word.
    assert tokens_after(376, 2) == [133, 140]
    assert tokens_after(1, 0) == []


def test_no_token_of_the_cycle_comes_twice():
    assert sorted(tokens_after(0, 250)) == list(range(250))


@pytest.mark.parametrize("token", [0, 7, 14, 249, 250, 253, 255, 511])
def test_drafts(token):
    right, wrong = successor(token), runner_up(token)
    assert right != wrong
    assert {drafted("all", token, position) for position in range(3)} == {right}
    assert {drafted("none", token, position) for position in range(3)} == {wrong}
    assert [drafted("first", token, position) for position in range(3)] == [right, wrong, wrong]
    expected = wrong if token % 8 in {6, 7} else right
    assert {drafted("most", token, position) for position in range(3)} == {expected}


@pytest.mark.parametrize(
    ("prompt", "token"),
    [
        ((5, 17, 40), 40),
        ("Say <003><009>", 9),
        ("<255>", 255),
        (word(7), 7),
        ("<003> ", 256 + 32),
        ("a", 256 + 97),
        ("<256>", 256 + 62),
        ("<abc>", 256 + 62),
        (">", 256 + 62),
        ("é", 256 + 0xA9),
        ("<9>", 256 + 62),
        ("<0003>", 256 + 62),
        ("<٠٠٣>", 256 + 62),
    ],
)
def test_last_token(prompt, token):
    assert last_token(prompt) == token


def test_arithmetic_of_counters():
    one, two = Counters(2, 4, 3, (2, 1)), Counters(1, 3, 3, (1, 1, 1))
    assert one + two == Counters(3, 7, 6, (3, 2, 1))
    assert one + two - two == Counters(2, 4, 3, (2, 1, 0))
    assert Counters() + one == one


def test_rate_and_length():
    found = Counters(8, 24, 18, (8, 6, 4))
    assert (found.rate, found.length) == (0.75, 3.25)
    assert (Counters().rate, Counters().length) == (None, None)


def test_counters_by_vllms_names():
    name = "vllm:spec_decode_num_"
    found = {f"{name}drafts": 2.0, f"{name}draft_tokens": 4.0, f"{name}accepted_tokens": 3.0}
    found[f"{name}accepted_tokens_per_pos"] = [2.0, 1.0]
    assert counters_from(found) == Counters(2, 4, 3, (2, 1))
    assert counters_from({"vllm:other": 1}) == Counters()
