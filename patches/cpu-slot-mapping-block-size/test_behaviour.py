"""The slot mapping on the CPU, with the C++ kernel in place of Triton's."""

from __future__ import annotations

import torch
from tiny_mtp import successor, write_checkpoint

from vllm import LLM, SamplingParams
from vllm.platforms import current_platform
from vllm.utils import cpu_triton_utils

PROMPT = [17, 4]
TOKENS = 8
BLOCK = 16


def test_an_engine_answers(tmp_path):
    llm = LLM(
        model=str(write_checkpoint(tmp_path)),
        skip_tokenizer_init=True,
        enforce_eager=True,
        max_model_len=256,
        max_num_seqs=4,
    )
    sampling = SamplingParams(
        temperature=0, max_tokens=TOKENS, ignore_eos=True, detokenize=False
    )
    (output,) = llm.generate([{"prompt_token_ids": PROMPT}], sampling, use_tqdm=False)
    last, expected = PROMPT[-1], []
    for _ in range(TOKENS):
        last = successor(last)
        expected.append(last)
    assert list(output.outputs[0].token_ids) == expected


def test_slots_follow_the_block_table():
    """Two requests of 2 and 3 tokens; the arguments are those of the kernel."""
    current_platform.import_kernels()
    table = torch.tensor([[5, 9], [7, 2]], dtype=torch.int32)
    slots = torch.full((8,), -7, dtype=torch.int64)
    cpu_triton_utils._compute_slot_mapping_kernel_impl(
        5,
        8,
        torch.tensor([0, 2, 5], dtype=torch.int32),
        torch.tensor([0, 17, 14, 15, 16]),
        table,
        table.stride(0),
        slots,
        KV_CACHE_BLOCK_SIZE=BLOCK,
        TOTAL_CP_WORLD_SIZE=1,
        TOTAL_CP_RANK=0,
        CP_KV_CACHE_INTERLEAVE_SIZE=1,
        PAD_ID=-1,
        BLOCK_SIZE=1024,
    )
    expected = [5 * BLOCK, 9 * BLOCK + 1, 7 * BLOCK + 14, 7 * BLOCK + 15, 2 * BLOCK]
    assert slots[:5].tolist() == expected
