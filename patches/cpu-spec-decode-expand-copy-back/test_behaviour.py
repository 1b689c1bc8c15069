"""Temperature, top_k and top_p of speculated tokens on the CPU, against a reference."""

from __future__ import annotations

import math

import pytest
import torch
from tiny_mtp import runner_up, successor, write_checkpoint

from vllm import LLM, SamplingParams
from vllm.platforms import current_platform
from vllm.utils.cpu_triton_utils import _expand_kernel_impl as expand
from vllm.v1.sample import rejection_sampler

COUNTS = [2, 0, 3, 1]


@pytest.fixture(scope="module", autouse=True)
def kernels():
    current_platform.import_kernels()


def reference(values, cumulative, replace_from=0, replace_to=0):
    """Expand one token after the other, in Python's own numbers."""
    expanded, start = [], 0
    for value, end in zip(values.tolist(), cumulative.tolist(), strict=True):
        expanded += [replace_to if value == replace_from else value] * (end - start)
        start = end
    return torch.tensor(expanded, dtype=values.dtype)


@pytest.mark.parametrize(
    ("values", "replace_from", "replace_to"),
    [
        (torch.tensor([0.3, 0.7, 0.0, 1.5]), 0, 1),
        (torch.tensor([0.9, 0.5, 0.99, 1.0]), 0, 0),
        (torch.tensor([5, 512, 1, 40], dtype=torch.int32), 0, 0),
        (torch.tensor([0.3, 0.7, -1.0, 1.5], dtype=torch.float64), -1, 2),
    ],
    ids=["temperature", "top_p", "top_k", "float64"],
)
def test_every_token_gets_its_requests_value(values, replace_from, replace_to):
    cumulative = torch.tensor(COUNTS, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    # One more than the tokens: the kernel leaves alone what lies behind them.
    found = torch.full((sum(COUNTS) + 1,), 77, dtype=values.dtype)
    expand(found, values, cumulative, replace_from, replace_to, MAX_NUM_TOKENS=128)
    wanted = reference(values, cumulative, replace_from, replace_to)
    torch.testing.assert_close(found[:-1], wanted, rtol=0, atol=0)
    assert found[-1] == 77


def test_int64_is_expanded_as_before():
    values = torch.tensor([4, 9, 0, 2])
    cumulative = torch.tensor(COUNTS, dtype=torch.int32).cumsum(0, dtype=torch.int32)
    found = torch.full((sum(COUNTS),), 77)
    expand(found, values, cumulative, 0, 6)
    assert torch.equal(found, reference(values, cumulative, 0, 6))


def test_no_token_at_all():
    found = torch.empty(0)
    nothing = torch.zeros(2, dtype=torch.int32)
    expand(found, torch.tensor([0.5, 0.6]), nothing, 0, 1)
    assert found.shape == (0,)


# As (temperature, top_k, top_p). The successor's probability follows from the first
# alone where the runner-up is neither cut off by the second nor by the third.
REQUESTS = [
    (0.5, 2, 1.0),
    (1.25, 3, 1.0),
    (1.0, 1, 1.0),
    (2.0, 50, 0.6),
    (0.8, 2, 0.999),
]
GAP = 1.0
TOKENS = 400


def test_an_engine_samples_as_its_requests_ask(tmp_path, monkeypatch):
    calls = 0
    own = rejection_sampler.expand_batch_to_tokens

    def compared(values, cumulative, num_tokens, replace_from=0, replace_to=0):
        nonlocal calls
        found = own(values, cumulative, num_tokens, replace_from, replace_to)
        wanted = reference(values, cumulative, replace_from, replace_to)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        calls += 1
        return found

    monkeypatch.setattr(rejection_sampler, "expand_batch_to_tokens", compared)
    llm = LLM(
        model=str(write_checkpoint(tmp_path, gap=GAP)),
        skip_tokenizer_init=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 2},
        enforce_eager=True,
        max_model_len=512,
        max_num_seqs=len(REQUESTS),
        seed=0,
    )
    calls = 0  # those of the start
    outputs = llm.generate(
        [{"prompt_token_ids": [10 * number + 3]} for number in range(len(REQUESTS))],
        [
            SamplingParams(
                temperature=temperature,
                top_k=top_k,
                top_p=top_p,
                max_tokens=TOKENS,
                ignore_eos=True,
                detokenize=False,
            )
            for temperature, top_k, top_p in REQUESTS
        ],
        use_tqdm=False,
    )
    assert calls > TOKENS / 3
    for number, ((temperature, top_k, top_p), output) in enumerate(
        zip(REQUESTS, outputs, strict=True)
    ):
        previous, first = 10 * number + 3, 0
        for token in output.outputs[0].token_ids:
            assert token in {successor(previous), runner_up(previous)}
            first += token == successor(previous)
            previous = token
        likely = 1 / (1 + math.exp(-GAP / temperature))
        if top_k == 1 or top_p < likely:
            assert first == TOKENS
        else:
            spread = math.sqrt(likely * (1 - likely) / TOKENS)
            assert abs(first / TOKENS - likely) < 5 * spread
