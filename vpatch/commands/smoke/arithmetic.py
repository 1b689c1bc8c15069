"""What a synthetic checkpoint says and what vLLM counts, compared with what arithmetic predicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.engine.payload.tiny_tokens import word
from vpatch.harness.predict import Counters, counters_of, last_token, tokens_after

if TYPE_CHECKING:
    from vpatch.commands.smoke.cells import Cell
    from vpatch.harness.measured import Pass


def other_tokens(cell: Cell, one: Pass) -> int | None:
    """Return the number of a prompt whose answer has other tokens than predicted, if any."""
    for number, output in zip(one.asked, one.outputs, strict=True):
        wanted = tokens_after(last_token(cell.prompts[number]), output.count)
        if output.tokens is None:
            same = output.text == "".join(map(word, wanted))
        else:
            same = list(output.tokens) == wanted
        if not same:
            return number
    return None


def other_counters(cell: Cell, one: Pass, acceptance: str) -> Counters | None:
    """Return what should have been counted; None if vLLM counts that.

    Where steps may draft less, the counters may differ by as many steps.
    """
    expected = Counters()
    for number, output in zip(one.asked, one.outputs, strict=True):
        last = last_token(cell.prompts[number])
        expected += counters_of(acceptance, last, output.count, cell.k)
    difference, steps = one.counters - expected, tolerated_steps(cell, one)
    numbers = (
        difference.drafts,
        *difference.per_position,
        difference.draft_tokens / max(cell.k, 1),
        difference.accepted / max(cell.k, 1),
    )
    return None if all(abs(number) <= steps for number in numbers) else expected


def tolerated_steps(cell: Cell, one: Pass) -> int:
    """Return how many steps of a pass may draft less than k tokens.

    A request that is preempted, or that reaches the longest length, has a step with fewer drafts or
    none. Where the engine schedules one step ahead, it has two such steps.
    """
    at_the_limit = sum(
        _reaches_limit(cell, number, output.count)
        for number, output in zip(one.asked, one.outputs, strict=True)
    )
    return 2 * (one.preemptions + at_the_limit)


def _reaches_limit(cell: Cell, number: int, count: int) -> bool:
    limit = cell.flags.get("max-model-len")
    prompt = cell.prompts[number]
    # A text has no more tokens than bytes.
    length = len(prompt.encode()) if isinstance(prompt, str) else len(prompt)
    return isinstance(limit, int) and length + count + cell.k + 1 > limit
