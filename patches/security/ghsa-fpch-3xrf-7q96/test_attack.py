"""Thinking budgets of requests whose rows in the batch swap."""

from __future__ import annotations

import pytest

from vllm.v1.sample.logits_processor.interface import BatchUpdate, MoveDirectionality
from vllm.v1.sample.thinking_budget_state import ThinkingBudgetStateHolder

MINE = {"thinking_token_budget": 0}
YOURS = {"thinking_token_budget": 9}


def after(states, *moves):
    """Return the states of the rows after the moves, as the holder keeps them."""
    holder = object.__new__(ThinkingBudgetStateHolder)
    holder.is_enabled = True
    holder._state = dict(states)
    holder.sync_batch(BatchUpdate(batch_size=3, removed=[], added=[], moved=moves))
    return holder._state


@pytest.mark.parametrize(
    ("before", "wanted"), [({0: MINE}, {1: MINE}), ({1: MINE}, {0: MINE})]
)
def test_a_request_does_not_get_the_budget_of_another(before, wanted):
    assert after(before, (0, 1, MoveDirectionality.SWAP)) == wanted


def test_two_budgets_swap():
    found = after({0: MINE, 1: YOURS}, (0, 1, MoveDirectionality.SWAP))
    assert found == {0: YOURS, 1: MINE}


def test_a_budget_moves_to_a_free_row():
    found = after({0: MINE, 2: YOURS}, (0, 1, MoveDirectionality.UNIDIRECTIONAL))
    assert found == {1: MINE, 2: YOURS}
