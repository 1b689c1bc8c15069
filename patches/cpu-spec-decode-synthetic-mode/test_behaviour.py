"""Speculative decoding on the CPU, with the C++ kernels in place of Triton's."""

from __future__ import annotations

import pytest
import torch
from tiny_mtp import successor, write_checkpoint

from vllm import LLM, SamplingParams
from vllm.platforms import current_platform
from vllm.utils import cpu_triton_utils

PROMPTS = [[5, 9], [100, 200, 300], [17, 4]]
TOKENS = 16


def test_an_engine_that_speculates_answers(tmp_path):
    llm = LLM(
        model=str(write_checkpoint(tmp_path)),
        skip_tokenizer_init=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 1},
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=4,
    )
    sampling = SamplingParams(
        temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False
    )
    outputs = llm.generate(
        [{"prompt_token_ids": p} for p in PROMPTS], sampling, use_tqdm=False
    )
    for prompt, output in zip(PROMPTS, outputs, strict=True):
        last, expected = prompt[-1], []
        for _ in range(TOKENS):
            last = successor(last)
            expected.append(last)
        assert list(output.outputs[0].token_ids) == expected


def test_the_fallbacks_take_what_the_sampler_passes():
    """Two requests with a draft each: the first is right, and the second is not."""
    current_platform.import_kernels()
    counts = torch.tensor([1, 2], dtype=torch.int32)
    drafts, best = (torch.tensor(ids, dtype=torch.int32) for ids in ([7, 8], [7, 3]))
    bonus = torch.tensor([11, 12], dtype=torch.int32)
    uniform = torch.zeros(2, dtype=torch.float64)
    out = torch.full((2, 2), -1, dtype=torch.int32)
    cpu_triton_utils._rejection_greedy_sample_kernel_impl(
        out, counts, drafts, best, bonus, None, 1, uniform, None, SYNTHETIC_MODE=False
    )
    assert out.tolist() == [[7, 11], [3, -1]]
    # The draft of the second request has the probability 0, so it is not accepted.
    target = torch.zeros(2, 16)
    target[0, 7] = target[1, 3] = 1
    out = torch.full((2, 2), -1, dtype=torch.int32)
    cpu_triton_utils._rejection_random_sample_kernel_impl(
        out,
        counts,
        drafts,
        None,
        target,
        bonus,
        torch.tensor([7, 3], dtype=torch.int32),
        uniform + 0.5,
        torch.zeros(2, dtype=torch.bool),
        1,
        16,
        None,
        NO_DRAFT_PROBS=True,
        SYNTHETIC_MODE=False,
    )
    assert out.tolist() == [[7, 11], [3, -1]]


def test_the_synthetic_mode_is_refused():
    with pytest.raises((AssertionError, TypeError)):
        cpu_triton_utils._rejection_greedy_sample_kernel_impl(
            *[torch.zeros(1)] * 7, None, None, SYNTHETIC_MODE=True
        )
