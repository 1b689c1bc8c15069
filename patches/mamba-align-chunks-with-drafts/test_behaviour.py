"""Where the scheduler ends the chunks of a prompt, for budgets of every size."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace

import pytest

from vllm.v1.core.sched.scheduler import Scheduler

BLOCK = 1600
LIMIT = 8192


def split(tokens, start, wanted, *, drafts=True):
    """Ask the scheduler how many of the wanted tokens it takes, from `start` on."""
    scheduler = SimpleNamespace(
        cache_config=SimpleNamespace(block_size=BLOCK),
        use_eagle=drafts,
        max_num_scheduled_tokens=LIMIT,
        scheduler_config=SimpleNamespace(long_prefill_token_threshold=0),
        mamba_partial_cache_hit=False,
        hash_block_size=16,
    )
    request = SimpleNamespace(
        num_computed_tokens=start,
        num_prompt_tokens=tokens,
        num_tokens=tokens,
        shared_prefix_boundary=0,
    )
    return Scheduler._mamba_block_aligned_split(scheduler, request, wanted)


def ends(tokens, budgets, *, drafts=True):
    """Prefill a prompt with a budget for each step; return where its chunks end."""
    start, reached = 0, []
    for budget in budgets:
        taken = split(tokens, start, min(tokens - start, budget), drafts=drafts)
        assert 0 <= taken <= budget
        start += taken
        reached += [start] if taken else []
        if start == tokens:
            return reached
    raise AssertionError(f"{tokens} tokens do not end with {budgets}")


def budgets(seed):
    """What others leave of a step, for a while; then the prompt is alone."""
    random = Random(seed)  # noqa: S311
    return [random.randrange(1, LIMIT) for _ in range(5)] + [LIMIT] * 20


def assert_aligned(tokens, steps):
    *earlier, last = ends(tokens, steps)
    assert [end % BLOCK for end in earlier] == [0] * len(earlier)
    assert last == tokens


# A prompt, and what the others leave of its first steps.
SHARED = [(2002, [364]), (2002, [1599]), (3602, [1600, 1000]), (8001, [6400, 1000])]


@pytest.mark.parametrize(("tokens", "steps"), SHARED)
def test_only_the_last_chunk_ends_within_a_block(tokens, steps):
    assert_aligned(tokens, steps + [LIMIT] * 20)


def test_the_same_for_random_steps():
    for tokens in (1, 364, 1600, 2002, 3199, 3602, 8001):
        for seed in range(20):
            assert_aligned(tokens, budgets(seed))


@pytest.mark.parametrize("start", [1601, 2531, 3011])
def test_a_chunk_does_not_cross_the_block_in_which_it_begins(start):
    taken = split(3602, start, 3602 - start)
    assert 0 < taken <= BLOCK - start % BLOCK


@pytest.mark.parametrize("start", [331, 1599])
def test_it_never_crosses_the_last_cacheable_position(start):
    taken = split(3602, start, 3602 - start)
    assert taken == BLOCK - start


@pytest.mark.parametrize("tokens", [1, 1600, 2002, 3602, 8001])
def test_a_prompt_that_is_alone_is_split_as_before(tokens):
    """Its last cacheable position is one block earlier with drafts."""
    last = max(tokens - tokens % BLOCK - BLOCK, 0)
    assert ends(tokens, [LIMIT] * 20) == [*([last] if last else []), tokens]


def test_decoding_is_not_split():
    assert split(2002, 2002, 4) == 4
