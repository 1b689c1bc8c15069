"""Speculative decoding on the CPU, with the C++ kernels in place of Triton's."""

from __future__ import annotations

import pytest
from tiny_mtp import successor, write_checkpoint

import vllm.v1.sample.rejection_sampler as sampler
import vllm.v1.spec_decode.utils as spec_decode
from vllm import LLM, SamplingParams
from vllm.utils import cpu_triton_utils
from vllm.v1.worker.cpu_model_runner import CPUModelRunner

PROMPTS = [[5, 9], [100, 200, 300], [17, 4]]
TOKENS = 16
FALLBACKS = [
    (spec_decode, "copy_and_expand_dflash_inputs"),
    (spec_decode, "eagle_step_slot_mapping_metadata"),
    (sampler, "rejection_greedy_sample"),
    (sampler, "rejection_random_sample"),
    (sampler, "expand"),
    (sampler, "sample_recovered_tokens"),
]


def test_an_engine_drafts_several_tokens(tmp_path):
    llm = LLM(
        model=str(write_checkpoint(tmp_path)),
        skip_tokenizer_init=True,
        speculative_config={"method": "mtp", "num_speculative_tokens": 3},
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


@pytest.mark.parametrize(("module", "name"), FALLBACKS)
def test_each_dispatcher_launches_the_fallback(module, name):
    # The method reads nothing of the runner.
    CPUModelRunner._postprocess_triton(None)
    fallback = getattr(cpu_triton_utils, f"{name}_kernel")
    assert getattr(module, f"_{name}").kernel is fallback
