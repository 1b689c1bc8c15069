"""A long prompt that gets the row of another request while it is computed in chunks.

The states of the batch are those of a rank before the last one of a pipeline. No model
runs.
"""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest
import torch

from vllm import SamplingParams
from vllm.v1.core.sched.output import CachedRequestData
from vllm.v1.worker import gpu_model_runner
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

SECRET = [7] * 12
PROMPT = list(range(100, 112))


def request(name, prompt):
    return CachedRequestState(
        req_id=name,
        prompt_token_ids=prompt,
        mm_features=[],
        sampling_params=SamplingParams(temperature=0),
        generator=None,
        block_ids=([0],),
        num_computed_tokens=0,
        output_token_ids=[],
    )


@pytest.fixture
def runner(monkeypatch):
    rank = SimpleNamespace(is_last_rank=False)
    monkeypatch.setattr(gpu_model_runner, "get_pp_group", lambda: rank)
    batch = InputBatch(
        max_num_reqs=4,
        max_model_len=64,
        max_num_batched_tokens=64,
        device=torch.device("cpu"),
        pin_memory=False,
        vocab_size=200,
        block_sizes=[16],
        kernel_block_sizes=[16],
    )
    runner = MagicMock(
        requests={},
        num_prompt_logprobs={},
        encoder_cache={},
        input_batch=batch,
        speculative_config=None,
        is_pooling_model=False,
        routed_experts_initialized=False,
        uses_mrope=False,
        uses_xdrope_dim=0,
        use_async_spec_decode=False,
        use_async_scheduling=True,
    )
    for name, prompt in (("other", SECRET), ("mine", PROMPT)):
        state = request(name, prompt)
        runner.requests[name] = state
        batch.add_request(state)
    batch.refresh_metadata()
    return runner


def step(runner, computed, *, new_tokens=(), finished=(), outputs=0):
    """A step of the scheduler in which `mine` goes on."""
    cached = CachedRequestData(
        req_ids=["mine"],
        resumed_req_ids=set(),
        new_token_ids=[list(new_tokens)] if new_tokens else [],
        all_token_ids={},
        new_block_ids=[None],
        num_computed_tokens=[computed],
        num_output_tokens=[outputs],
    )
    names = ["mine"] if finished else ["mine", "other"]
    output = SimpleNamespace(
        finished_req_ids=set(finished),
        preempted_req_ids=set(),
        new_block_ids_to_zero=None,
        free_encoder_mm_hashes=[],
        num_scheduled_tokens=dict.fromkeys(names, 4),
        scheduled_cached_reqs=cached,
        scheduled_new_reqs=[],
        scheduled_spec_decode_tokens={},
    )
    gpu_model_runner.GPUModelRunner._update_states(runner, output)


def tokens(runner):
    batch = runner.input_batch
    row = batch.req_id_to_index["mine"]
    return batch.token_ids_cpu[row, : len(PROMPT)].tolist()


@pytest.mark.parametrize("computed", [4, 8])
def test_a_prompt_in_chunks_has_no_tokens_of_another_request(runner, computed):
    step(runner, computed)
    step(runner, computed, finished=["other"])
    assert runner.input_batch.req_id_to_index["mine"] == 0
    assert tokens(runner) == PROMPT, f"tokens of another request: {tokens(runner)}"


def test_a_whole_prompt_stays_whole(runner):
    step(runner, len(PROMPT), finished=["other"])
    assert tokens(runner) == PROMPT


def test_a_prompt_that_keeps_its_row_stays_whole(runner):
    step(runner, 4)
    step(runner, 8)
    assert tokens(runner) == PROMPT


def test_sampled_tokens_are_appended_without_async_scheduling(runner):
    runner.use_async_scheduling = False
    step(runner, len(PROMPT), new_tokens=[55], outputs=1)
    batch = runner.input_batch
    row = batch.req_id_to_index["mine"]
    assert batch.token_ids_cpu[row, : len(PROMPT) + 1].tolist() == [*PROMPT, 55]
    assert batch.num_tokens_no_spec[row] == len(PROMPT) + 1
