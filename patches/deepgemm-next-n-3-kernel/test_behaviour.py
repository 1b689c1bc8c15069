"""The metadata of several rows a request; what needs a GPU is replaced.

What DeepGEMM asserts of the context lengths is asserted here instead, for the numbers
of rows that the kernel of deepseek-ai/DeepGEMM#340 takes on SM90. No kernel is run.
"""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mla import indexer
from vllm.v1.kv_cache_interface import MLAAttentionSpec

SMS = 132
BLOCK = 256
COMPRESSIONS = pytest.mark.parametrize("compress_ratio", [1, 4, 128])


class Platform:
    """A GPU by the first digits of its capability, as vLLM asks for it."""

    def __init__(self, family: int | None, *, cuda: bool = True) -> None:
        self.family = family
        self.cuda = cuda

    def is_cuda(self) -> bool:
        return self.cuda

    def is_rocm(self) -> bool:
        return not self.cuda

    def is_device_capability_family(self, capability: int) -> bool:
        return self.family == capability


HOPPER, BLACKWELL = Platform(90), Platform(100)


class UniformDecode:
    """The Triton kernel that flattens steps of one length, in PyTorch.

    seq_lens: [requests]; lengths, ones: [rows]; tables: [rows, blocks]; all int32.
    """

    def __getitem__(self, grid):
        def launch(seq_lens, lengths, table, _s, tables, _t, ones, rows, **_):
            for row in range(grid[0]):
                request, token = divmod(row, rows)
                lengths[row] = seq_lens[request] - rows + token + 1
                tables[row] = table[request]
                ones[row] = 1

        return launch


@pytest.fixture(autouse=True)
def schedules(monkeypatch) -> list[torch.Tensor]:
    """Replace what needs a GPU; the context lengths that DeepGEMM was handed."""
    handed: list[torch.Tensor] = []

    def get_paged_mqa_logits_metadata(context_lens, _block_size, num_sms):
        assert context_lens.dtype == torch.int32
        assert context_lens.dim() == 2
        assert context_lens.is_contiguous()
        if indexer.current_platform is HOPPER:
            assert context_lens.shape[1] in (1, 2, 3)
        handed.append(context_lens)
        return torch.zeros(num_sms + 1, 2, dtype=torch.int32)

    def get_compressed_slot_mapping(num_tokens, *_, out):
        return out[:num_tokens]

    for function in (get_paged_mqa_logits_metadata, get_compressed_slot_mapping):
        monkeypatch.setattr(indexer, function.__name__, function)
    monkeypatch.setattr(indexer, "_prepare_uniform_decode_kernel", UniformDecode())
    monkeypatch.setattr(indexer, "has_deep_gemm", lambda: True)
    monkeypatch.setattr(indexer, "num_compute_units", lambda _index: SMS)
    monkeypatch.setattr(indexer, "get_total_cp_world_size", lambda: 1)
    return handed


@pytest.fixture
def on(monkeypatch):
    def use(platform: Platform) -> None:
        monkeypatch.setattr(indexer, "current_platform", platform)

    return use


def builder_for(drafts: int, *, fp4: bool = False, compress_ratio: int = 1):
    config = SimpleNamespace(
        scheduler_config=SimpleNamespace(max_num_batched_tokens=64, max_num_seqs=8),
        speculative_config=SimpleNamespace(num_speculative_tokens=drafts),
        attention_config=SimpleNamespace(use_fp4_indexer_cache=fp4),
        model_config=SimpleNamespace(max_model_len=4 * BLOCK),
    )
    spec = MLAAttentionSpec(
        block_size=BLOCK,
        num_kv_heads=1,
        head_size=128,
        dtype=torch.uint8,
        compress_ratio=compress_ratio,
    )
    return indexer.DeepseekV32IndexerMetadataBuilder(
        spec, ["indexer"], config, torch.device("cpu")
    )


def decode(builder, lengths: list[int], rows: list[int], tokens: int | None = None):
    """Build the metadata of a step, from each request's length and rows in it."""
    starts = torch.tensor([0, *rows]).cumsum(0).to(torch.int32)
    tokens = tokens or sum(rows)
    seq_lens = torch.tensor(lengths, dtype=torch.int32)
    tables = torch.arange(len(rows) * 4, dtype=torch.int32).reshape(-1, 4)
    batch = CommonAttentionMetadata(
        query_start_loc=starts,
        query_start_loc_cpu=starts,
        seq_lens=seq_lens,
        num_reqs=len(rows),
        num_actual_tokens=tokens,
        max_query_len=max(rows),
        max_seq_len=max(lengths),
        block_table_tensor=tables,
        slot_mapping=torch.zeros(tokens, dtype=torch.int64),
        seq_lens_cpu_upper_bound=seq_lens,
    )
    metadata = builder.build(0, batch)
    assert metadata.num_prefills == 0
    assert seq_lens.tolist() == lengths  # the batch's own, which others read too
    return metadata.decode


def row_lengths(lengths: list[int], rows: list[int], ratio: int) -> list[int]:
    """What each row sees: the keys up to its own token, compressed."""
    return [
        (length - count + row + 1) // ratio
        for length, count in zip(lengths, rows, strict=True)
        for row in range(count)
    ]


@COMPRESSIONS
def test_two_draft_tokens_stay_three_rows_of_a_request(schedules, on, compress_ratio):
    on(HOPPER)
    builder = builder_for(2, compress_ratio=compress_ratio)
    step = decode(builder, [700, 300], [3, 3])
    requests, rows = step.seq_lens.shape
    assert (requests, rows) == (2, 3), f"{requests} requests, {rows} row(s) of each"
    expected = row_lengths([700, 300], [3, 3], compress_ratio)
    assert step.seq_lens.flatten().tolist() == expected
    assert step.block_table.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert step.decode_lens.tolist() == [3, 3]
    assert not step.requires_padding
    assert schedules[-1] is step.seq_lens


# Until 0.23 SM100 takes fewer rows from an FP4 cache.
FP4 = hasattr(
    indexer.DeepseekV32IndexerMetadataBuilder, "natively_supported_next_n_fp4"
)
# Capability, CUDA, drafts, FP4 cache; and whether vLLM flattens it.
ELSEWHERE = [
    (90, True, 0, False, False),
    (90, True, 1, False, False),
    (90, True, 3, False, True),
    (90, True, 4, False, True),
    (90, False, 1, False, False),
    (90, False, 2, False, True),  # an MI300 says 9.4
    (80, True, 2, False, True),
    (100, True, 1, False, False),
    (100, True, 2, False, False),
    (100, True, 3, False, False),
    (100, True, 1, True, False),
    (100, True, 2, True, FP4),
    (120, True, 1, False, False),
    (120, True, 2, False, True),
    (None, False, 1, False, False),
    (None, False, 2, False, True),
]


@pytest.mark.parametrize(("family", "cuda", "drafts", "fp4", "flattened"), ELSEWHERE)
def test_nothing_else_changes(on, family, cuda, drafts, fp4, flattened):
    on(Platform(family, cuda=cuda))
    assert builder_for(drafts, fp4=fp4).use_flattening is flattened


FULL = [(drafts, drafts + 1) for drafts in (1, 2, 3)]
SHORTER = [(drafts, rows) for drafts in (1, 2, 3) for rows in range(1, drafts + 1)]
PLATFORMS = pytest.mark.parametrize(
    "platform", [HOPPER, BLACKWELL], ids=["sm90", "sm100"]
)


def check_rows(schedules, on, platform, drafts, rows, compress_ratio):
    """Check what each row of a step sees; DeepGEMM asserts that it is contiguous."""
    on(platform)
    lengths, counts = [700, 300, 5], [rows] * 3
    step = decode(builder_for(drafts, compress_ratio=compress_ratio), lengths, counts)
    expected = row_lengths(lengths, counts, compress_ratio)
    assert step.seq_lens.flatten().tolist() == expected
    assert len(schedules) == 1


@COMPRESSIONS
@pytest.mark.parametrize(("drafts", "rows"), FULL)
@PLATFORMS
def test_a_row_sees_the_keys_up_to_its_token(
    schedules, on, platform, drafts, rows, compress_ratio
):
    check_rows(schedules, on, platform, drafts, rows, compress_ratio)


@COMPRESSIONS
@pytest.mark.parametrize(("drafts", "rows"), SHORTER)
@PLATFORMS
def test_so_it_does_in_a_step_with_fewer_rows(
    schedules, on, platform, drafts, rows, compress_ratio
):
    """Until 0.21 some of these fail without the patch: see the next test."""
    check_rows(schedules, on, platform, drafts, rows, compress_ratio)


@COMPRESSIONS
@pytest.mark.parametrize(
    ("platform", "drafts", "rows"),
    [(HOPPER, 1, 1), *((BLACKWELL, *step) for step in SHORTER)],
)
def test_fewer_rows_of_what_was_never_flattened_are_contiguous(
    schedules, on, platform, drafts, rows, compress_ratio
):
    check_rows(schedules, on, platform, drafts, rows, compress_ratio)


@COMPRESSIONS
def test_a_shorter_step_leaves_no_old_lengths(on, compress_ratio):
    on(HOPPER)
    builder = builder_for(2, compress_ratio=compress_ratio)
    for lengths, rows in (([700, 300], 3), ([703, 303], 1), ([704, 304], 2)):
        step = decode(builder, lengths, [rows] * 2)
        expected = row_lengths(lengths, [rows] * 2, compress_ratio)
        assert step.seq_lens.flatten().tolist() == expected


@COMPRESSIONS
def test_rows_of_padding_see_nothing(on, compress_ratio):
    on(HOPPER)
    builder = builder_for(2, compress_ratio=compress_ratio)
    # A CUDA graph of three requests, run with two.
    step = decode(builder, [700, 300, 0], [3, 3, 0], tokens=9)
    expected = row_lengths([700, 300], [3, 3], compress_ratio)
    assert step.seq_lens.flatten().tolist() == [*expected, 0, 0, 0]


@COMPRESSIONS
@pytest.mark.parametrize(("platform", "drafts"), [(HOPPER, 1), (BLACKWELL, 2)])
def test_so_do_those_that_were_never_flattened(on, platform, drafts, compress_ratio):
    on(platform)
    rows = drafts + 1
    builder = builder_for(drafts, compress_ratio=compress_ratio)
    step = decode(builder, [700, 0], [rows, 0], tokens=2 * rows)
    least = step.seq_lens.min().item()
    assert least == 0, f"a length of {least}"
