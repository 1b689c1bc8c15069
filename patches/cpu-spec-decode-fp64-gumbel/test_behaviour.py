"""Speculative decoding on the CPU: that it starts, and what it recovers."""

from __future__ import annotations

import pytest
import torch
from tiny_mtp import successor, write_checkpoint

from vllm import LLM, SamplingParams
from vllm.platforms import current_platform
from vllm.utils.cpu_triton_utils import _sample_recovered_tokens_kernel_impl as recover

PROMPTS = [[5, 9], [100, 200, 300], [17, 4]]
TOKENS = 32


def drafts_of(llm: LLM) -> dict[str, int]:
    names = (
        "vllm:spec_decode_num_draft_tokens",
        "vllm:spec_decode_num_accepted_tokens",
    )
    return {m.name: m.value for m in llm.get_metrics() if m.name in names}


def test_an_engine_that_speculates_starts(tmp_path):
    llm = LLM(
        model=str(write_checkpoint(tmp_path)),
        skip_tokenizer_init=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 2},
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=4,
        disable_log_stats=False,
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
    drafted, accepted = drafts_of(llm).values()
    assert drafted == accepted > 0


@pytest.mark.parametrize("with_draft_probs", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_recovered_tokens_are_the_most_likely_under_the_noise(dtype, with_draft_probs):
    current_platform.import_kernels()
    generator = torch.Generator().manual_seed(3)
    counts, vocabulary = [2, 0, 3], 50
    cumulative = torch.tensor(counts).cumsum(0).to(torch.int32)
    target = torch.rand(5, vocabulary, generator=generator).softmax(-1)
    draft = (
        torch.rand(5, vocabulary, generator=generator).softmax(-1)
        if with_draft_probs
        else None
    )
    drafted = torch.randint(vocabulary, (5,), generator=generator, dtype=torch.int32)
    noise = torch.rand(3, vocabulary, generator=generator, dtype=dtype) + 0.1
    found = torch.full((5,), -1, dtype=torch.int32)
    recover(
        found,
        cumulative,
        drafted,
        draft,
        target,
        noise,
        vocabulary,
        8192,
        NO_DRAFT_PROBS=draft is None,
        USE_FP64_GUMBEL=dtype == torch.float64,
    )
    request_of = torch.tensor([0, 0, 2, 2, 2])
    for token in range(5):
        if draft is None:
            left = target[token].clone()
            left[drafted[token]] = 0
        else:
            left = (target[token] - draft[token]).clamp(min=0)
        assert found[token] == (left * noise[request_of[token]].float()).argmax()
