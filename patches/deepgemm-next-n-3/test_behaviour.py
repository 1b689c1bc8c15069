"""The indexer's real builder and decode code, with DeepGEMM and the top-k ops replaced.

Triton's kernels run in its interpreter. DeepGEMM's two functions are replaced by plain
torch that does what SM90's do: check the same things, follow the schedule, and leave
what is not scheduled undefined. It reads keys in tiles of 64, which are counted.
"""

import math
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
import triton
import triton.language

import vllm.triton_utils

# The CPU build has none of its own; the modules below take it from there.
vllm.triton_utils.triton, vllm.triton_utils.tl = triton, triton.language

from indexer_engine import DIM, PAGE, Indexer, score, unpack  # noqa: E402

from vllm.model_executor.layers import sparse_attn_indexer as layer  # noqa: E402
from vllm.platforms import current_platform  # noqa: E402
from vllm.v1.attention.backends.mla import indexer  # noqa: E402

HEADS, SLOTS = 32, 3
TILE, SPLIT = 64, 256
MAX_MODEL_LEN = 4096
MAX_TOKENS = 64
UNDEFINED = 1e30


class DeepGemm:
    """SM90's paged MQA logits in plain torch; `native` are the rows a call may have."""

    def __init__(self, native=(1, 2)):
        self.native = native
        self.calls = []
        self.tiles = 0

    def metadata(self, context_lens, block_size, num_sms, indices=None):
        assert block_size == PAGE
        assert indices is None
        assert context_lens.dtype == torch.int32
        assert context_lens.dim() == 2
        assert context_lens.is_contiguous()
        assert context_lens.shape[1] in self.native
        splits = [math.ceil(n / SPLIT) for n in context_lens[:, -1].tolist()]
        starts = [(q, s) for q, count in enumerate(splits) for s in range(count)]
        starts.append((len(splits), 0))
        total = len(starts) - 1
        slots = num_sms // (2 if context_lens.shape[1] == 4 else 1)
        each, rest = divmod(total, slots)
        schedule = [starts[i * each + min(i, rest)] for i in range(slots + 1)]
        return torch.tensor(schedule, dtype=torch.int32)

    def logits(  # noqa: PLR0913 - as DeepGEMM's
        self,
        q,
        kv_cache,
        weights,
        context_lens,
        block_tables,
        schedule_metadata,
        *,
        max_model_len,
        clean_logits=False,
        indices=None,
    ):
        values, scale = q
        batch, next_n, heads, dim = values.shape
        assert next_n in self.native, f"{next_n} rows"
        assert scale is None
        assert indices is None
        assert not clean_logits
        assert values.is_contiguous()
        assert values.dtype == torch.float8_e4m3fn
        assert (heads, dim) == (HEADS, DIM)
        assert weights.shape == (batch * next_n, heads)
        assert weights.is_contiguous()
        assert weights.dtype == torch.float32
        assert context_lens.shape == (batch, next_n)
        assert context_lens.is_contiguous()
        assert context_lens.dtype == torch.int32
        assert block_tables.shape[0] == batch
        assert block_tables.stride(1) == 1
        assert block_tables.dtype == torch.int32
        slots = SLOTS // (2 if next_n == 4 else 1)
        assert schedule_metadata.shape == (slots + 1, 2)
        assert schedule_metadata.is_contiguous()
        assert schedule_metadata.dtype == torch.int32
        assert kv_cache.shape[1:] == (PAGE, 1, DIM + 4)
        keys, key_scales = unpack(kv_cache)
        width = -(-max_model_len // SPLIT) * SPLIT
        out = torch.full((batch * next_n, width), UNDEFINED)
        rows = weights.view(batch, next_n, heads)
        lens = context_lens.tolist()
        ends = schedule_metadata.tolist()
        for start, end in pairwise(ends):
            query, tile = start[0], start[1] * (SPLIT // TILE)
            while [query, tile] != [end[0], end[1] * (SPLIT // TILE)]:
                assert query < batch, "the schedule runs out of the batch"
                count = math.ceil(max(lens[query][-1], 0) / TILE)
                for t in range(tile, min(tile + SPLIT // TILE, count)):
                    block = block_tables[query, t * TILE // PAGE]
                    scores = score(
                        values[query], rows[query], keys[block], key_scales[block]
                    )
                    first = query * next_n
                    out[first : first + next_n, t * TILE : (t + 1) * TILE] = scores
                    self.tiles += 1
                tile += SPLIT // TILE
                if tile >= count:
                    query, tile = query + 1, 0
        self.calls.append(SimpleNamespace(next_n=next_n, lens=lens, logits=out))
        return out[:, :max_model_len]


def row_lens(seq_lens, next_n, num_rows):
    if seq_lens.dim() == 2:
        lens = seq_lens.reshape(-1)
    else:
        lens = (seq_lens[:, None] - next_n + 1 + torch.arange(next_n)).reshape(-1)
    assert lens.numel() == num_rows
    return lens.tolist()


def select(logits, lens, out, k):
    """Top-k of each row; like the kernels, it takes the rows of `out` to be dense."""
    dense = torch.as_strided(out, (logits.shape[0], k), (k, 1), out.storage_offset())
    for row, length in enumerate(lens):
        chosen = logits[row, : max(length, 0)].topk(min(k, max(length, 0))).indices
        dense[row] = -1
        dense[row, : chosen.numel()] = chosen.to(torch.int32)


def top_k_per_row_decode(logits, next_n, seq_lens, out, num_rows, s0, s1, k):
    assert (s0, s1) == logits.stride()
    select(logits, row_lens(seq_lens, next_n, num_rows), out, k)


def dense_topk(logits, seq_lens, out, _, k, max_seq_len):
    assert seq_lens.is_contiguous()
    assert out.shape == (logits.shape[0], k)
    assert max_seq_len > 0
    select(logits, row_lens(seq_lens, None, logits.shape[0]), out, k)


FIRST = SimpleNamespace(rank_in_group=0)
STAND_INS = {
    "_supports_varlen_paged_mqa_logits": lambda: False,
    "get_dcp_group": lambda: FIRST,
    "get_pcp_group": lambda: FIRST,
}


class Engine(Indexer):
    """An indexer on a platform of some family, without its kernels."""

    def __init__(self, monkeypatch, drafts=2, family=90, ratio=1, topk=48, **parallel):
        native = {1, 2, 3, 4} if family == 100 else {1, 2}
        if hasattr(indexer, "native_next_n_supported"):
            native.add(4)
        self.deep_gemm = DeepGemm(native)
        for name, answer in (
            ("is_cuda", lambda *_: True),
            ("is_device_capability_family", lambda *args: args[-1] == family),
            ("has_device_capability", lambda *args, **_: args[-1] <= family),
        ):
            monkeypatch.setattr(type(current_platform), name, answer, raising=False)
        # The kernels of SM100 that take rows of any number are not those replaced here.
        for name in (
            "_supports_varlen_paged_mqa_logits",
            "get_dcp_group",
            "get_pcp_group",
        ):
            if hasattr(indexer, name):
                monkeypatch.setattr(indexer, name, STAND_INS[name])
        # A workspace that grows frees memory of a GPU first.
        monkeypatch.setattr(torch.accelerator, "empty_cache", lambda: None)
        monkeypatch.setattr(indexer, "has_deep_gemm", lambda: True)
        monkeypatch.setattr(indexer, "num_compute_units", lambda _: SLOTS)
        monkeypatch.setattr(
            indexer, "get_paged_mqa_logits_metadata", self.deep_gemm.metadata
        )
        monkeypatch.setattr(layer, "fp8_fp4_paged_mqa_logits", self.deep_gemm.logits)
        for name, op in (
            ("top_k_per_row_decode", top_k_per_row_decode),
            ("persistent_topk", dense_topk),
            ("cooperative_topk", dense_topk),
        ):
            monkeypatch.setattr(torch.ops._C, name, op, raising=False)
        super().__init__(
            monkeypatch,
            drafts=drafts,
            heads=HEADS,
            topk=topk,
            ratio=ratio,
            pages=512,
            max_tokens=MAX_TOKENS,
            max_model_len=MAX_MODEL_LEN,
            parallel=parallel,
        )

    @property
    def calls(self):
        return [call.next_n for call in self.deep_gemm.calls]

    def run(self, metadata, tokens):
        self.deep_gemm.calls.clear()
        self.deep_gemm.tiles = 0
        self.selected.fill_(-7)
        return super().run(metadata, tokens)

    def scored(self):
        """The logits of all rows of the step, request-major, over all calls."""
        calls = self.deep_gemm.calls
        requests = calls[0].logits.shape[0] // calls[0].next_n
        parts = [call.logits.view(requests, call.next_n, -1) for call in calls]
        return torch.cat(parts, dim=1).flatten(0, 1)

    def check(self, metadata, lens, query_lens, *, padded_tokens=None):
        """Run, and compare what each real row scored and selected with `expected`."""
        rows = sum(query_lens)
        selected = self.run(metadata, padded_tokens or rows).tolist()
        scored = self.scored()
        for row, logits in enumerate(self.expected(lens, query_lens)):
            ours = scored[row, : logits.numel()]
            torch.testing.assert_close(ours, logits, rtol=1e-5, atol=1e-4)
            assert chosen(selected[row]) == best(logits, self.topk), f"row {row}"
        assert all(chosen(row) == set() for row in selected[rows:])


def chosen(row):
    assert all(index >= -1 for index in row)
    return {index for index in row if index != -1}


def best(logits, k):
    return set(logits.topk(min(k, logits.numel())).indices.tolist())


def tiles(lens, ratio=1):
    return sum(math.ceil(length // ratio / TILE) for length in lens)


def test_keys_are_read_twice(monkeypatch):
    engine = Engine(monkeypatch)
    lens = [256, 2048, 640]
    engine.fill(lens)
    metadata = engine.build(lens, [3, 3, 3])
    engine.check(metadata, lens, [3, 3, 3])
    times = engine.deep_gemm.tiles / tiles(lens)
    assert times == 2, f"all keys were read {times:g} times in calls of {engine.calls}"
    assert engine.calls == [2, 1]


# Lengths of requests, and how many padding requests behind them.
BATCHES = {
    "one request": ([700], 0),
    "one request of one page": ([3], 0),
    "mixed": ([3, 64, 65, 66, 67, 257, 1025, 2500], 0),
    "page boundaries": ([63, 64, 65, 127, 128, 129], 0),
    "padding": ([300, 9], 3),
    "one request, padding": ([513], 1),
    "many": ([5 + 40 * n for n in range(16)], 4),
}


@pytest.mark.parametrize("topk", [48, 512])
@pytest.mark.parametrize("ratio", [1, 4])
@pytest.mark.parametrize(("lens", "padding"), BATCHES.values(), ids=BATCHES)
def test_rows_are_scored_as_alone(monkeypatch, lens, padding, ratio, topk):
    engine = Engine(monkeypatch, ratio=ratio, topk=topk)
    engine.fill(lens)
    everyone = [*lens, *[0] * padding]
    queries = [*[3] * len(lens), *[0] * padding]
    tokens = 3 * len(everyone)
    metadata = engine.build(everyone, queries, padded_tokens=tokens)
    assert metadata.num_prefills == 0
    engine.check(metadata, everyone, queries, padded_tokens=tokens)


@pytest.mark.parametrize(
    "queries", [[3, 1, 2], [1, 3], [2, 2], [1, 1, 1], [3, 3, 0, 2], [1], [2]]
)
def test_other_steps_stay_flat(monkeypatch, queries):
    engine = Engine(monkeypatch)
    # What a step like the following must not find.
    engine.fill([500, 500])
    engine.build([500, 500], [3, 3])
    lens = [90 * n + 40 if q else 0 for n, q in enumerate(queries)]
    engine.fill(lens)
    metadata = engine.build(lens, queries)
    assert (metadata.num_decodes, metadata.num_prefills) == (len(queries), 0)
    engine.check(metadata, lens, queries)
    assert engine.calls == [1]


def test_a_prefill_beside_the_decodes(monkeypatch):
    engine = Engine(monkeypatch)
    scored = []

    def prefill_logits(q, *_, **__):
        scored.append(q[0].shape[0])
        return torch.zeros((q[0].shape[0], 64))

    monkeypatch.setattr(layer, "fp8_fp4_mqa_logits", prefill_logits)
    # Until 0.22 vLLM imports `ops` on CUDA alone, and calls the second one in _C.
    if not hasattr(layer, "ops"):
        monkeypatch.setattr(layer, "ops", SimpleNamespace(), raising=False)
    for op in ("cp_gather_indexer_k_quant_cache", "top_k_per_row_prefill"):
        for place in (layer.ops, torch.ops._C):
            monkeypatch.setattr(place, op, lambda *_: None, raising=False)
    lens, queries = [400, 81, 20], [3, 3, 20]
    engine.fill(lens)
    metadata = engine.build(lens, queries)
    assert (metadata.num_decodes, metadata.num_prefills) == (2, 1)
    found = engine.run(metadata, 26).tolist()
    for row, logits in enumerate(engine.expected(lens[:2], queries[:2])):
        assert chosen(found[row]) == best(logits, engine.topk)
    assert scored == [20]
    assert all(chosen(row) == set() for row in found[6:])


def test_lengths_are_never_below_zero(monkeypatch):
    engine = Engine(monkeypatch)
    engine.fill([0, 300])
    parts = engine.build([0, 300], [3, 3]).decode.next_n_3
    assert [part.seq_lens.tolist() for part in parts] == [
        [[0, 0], [298, 299]],
        [[0], [300]],
    ]


def addresses(metadata):
    """Of every tensor that a decode step hands to kernels."""
    decode = metadata.decode
    parts = [decode, *(getattr(decode, "next_n_3", None) or ())]
    names = ("seq_lens", "block_table", "schedule_metadata")
    return [getattr(part, name).data_ptr() for part in parts for name in names]


@pytest.mark.parametrize("ratio", [1, 4])
def test_a_graph_sees_each_step(monkeypatch, ratio):
    """What was captured once reads the tensors that it was captured with."""
    engine = Engine(monkeypatch, ratio=ratio)
    engine.fill([3] * 5)
    captured = engine.build([3] * 5, [3] * 5)
    engine.run(captured, 15)
    shape = engine.calls
    where = addresses(captured)
    steps = [
        ([2000, 7, 300, 65, 1200], 0),
        ([90], 4),
        ([640, 640, 640], 2),
        ([12, 3000], 3),
    ]
    for lens, padding in steps:
        everyone = [*lens, *[0] * padding]
        queries = [*[3] * len(lens), *[0] * padding]
        engine.fill(everyone)
        step = engine.build(everyone, queries, padded_tokens=15)
        assert addresses(step) == where
        engine.check(captured, everyone, queries, padded_tokens=15)
        assert engine.calls == shape
        # Between steps the drafter builds for one token per request.
        engine.build(lens, [1] * len(lens))


def test_a_graph_of_more_requests_than_the_step(monkeypatch):
    engine = Engine(monkeypatch)
    engine.fill([900] * 5)
    captured = engine.build([900] * 5, [3] * 5)
    engine.fill([1300, 70])
    engine.build([1300, 70], [3, 3])
    engine.check(captured, [1300, 70], [3, 3], padded_tokens=15)
    times = 2 if engine.calls == [2, 1] else 3
    assert engine.deep_gemm.tiles == times * tiles([1300, 70])


@pytest.mark.parametrize(("dummy", "tokens"), [([1], 1), ([1, 0], 6), ([2, 1], 3)])
def test_a_graph_in_a_dummy_step_reads_nothing(monkeypatch, dummy, tokens):
    engine = Engine(monkeypatch)
    engine.fill([2000, 2000])
    captured = engine.build([2000, 2000], [3, 3])
    assert captured.decode.next_n_3 is not None
    engine.build([2000] * 9, [3] * 9)
    step = engine.build([1] * len(dummy), dummy, padded_tokens=tokens)
    assert step.decode.next_n_3 is None
    found = engine.run(captured, 6)
    assert engine.calls == [2, 1]
    assert engine.deep_gemm.tiles == 0
    assert set(found.flatten().tolist()) == {-1}


@pytest.mark.parametrize(
    ("drafts", "family", "parallel", "calls"),
    [
        (0, 90, {}, [1]),
        (1, 90, {}, [2]),
        (2, 100, {}, [3]),
        (2, 120, {}, [1]),
        (2, 80, {}, [1]),
        (3, 90, {}, None),
        (4, 90, {}, [1]),
        (2, 90, {"decode_context_parallel_size": 2}, [1]),
        (2, 90, {"prefill_context_parallel_size": 2}, [1]),
    ],
)
def test_everything_else_is_as_it_was(monkeypatch, drafts, family, parallel, calls):
    engine = Engine(monkeypatch, drafts, family, **parallel)
    if calls is None:
        calls = [4] if 4 in engine.deep_gemm.native else [1]
    lens, queries = [300, 70], [drafts + 1] * 2
    engine.fill(lens)
    metadata = engine.build(lens, queries)
    engine.check(metadata, lens, queries)
    assert engine.calls == calls
    assert getattr(metadata.decode, "next_n_3", None) is None
    assert getattr(engine.builder, "next_n_3", None) is None


def test_flat_metadata_is_as_it_was(monkeypatch):
    """What other readers of the decode metadata find, on any tree."""
    engine = Engine(monkeypatch)
    engine.fill([70, 300])
    decode = engine.build([70, 300, 0], [3, 3, 0], padded_tokens=9).decode
    assert decode.seq_lens.tolist() == [
        [n] for n in (68, 69, 70, 298, 299, 300, 0, 0, 0)
    ]
    assert decode.decode_lens.tolist() == [1] * 9
    assert decode.requires_padding is False
    tables = engine.block_table[[0, 0, 0, 1, 1, 1]]
    assert torch.equal(decode.block_table[:6], tables)
    expected = engine.deep_gemm.metadata(decode.seq_lens, PAGE, SLOTS)
    assert torch.equal(decode.schedule_metadata, expected)


def test_scales_of_fp4_go_with_their_queries():
    from vllm.v1.attention.backends.mla.next_n_3 import CallRows, decode_calls

    rows = torch.arange(12)
    lens = torch.ones((4, 2), dtype=torch.int32), torch.ones((4, 1), dtype=torch.int32)
    parts = tuple(CallRows(part, None, None) for part in lens)
    decode = SimpleNamespace(next_n_3=parts, requires_padding=False)
    q = rows.view(12, 1, 1, 1).expand(12, 1, 2, 64).to(torch.uint8)
    scale = rows.view(12, 1, 1, 1).expand(12, 1, 2, 4).to(torch.uint8)
    weights = rows.view(12, 1).expand(12, 2).float()
    found = torch.full((14, 3), -1)
    for call in decode_calls(decode, q, scale, weights, found):
        assert call.q.is_contiguous()
        assert call.q_scale.is_contiguous()
        assert call.weights.is_contiguous()
        assert call.topk_indices.is_contiguous()
        assert call.topk_indices.eq(-1).all()
        own = call.q[..., 0, 0].flatten()
        assert torch.equal(call.q_scale[..., 0, 0].flatten(), own)
        assert torch.equal(call.weights[:, 0], own.float())
        call.topk_indices.copy_(own[:, None].expand(-1, 3))
    assert torch.equal(found[:12], rows[:, None].expand(-1, 3))
    assert found[12:].eq(-1).all()


def test_the_unexpected_is_an_error(monkeypatch):
    from vllm.v1.attention.backends.mla.next_n_3 import decode_calls

    engine = Engine(monkeypatch)
    engine.fill([70, 300])
    decode = engine.build([70, 300], [3, 3]).decode
    q, weights, out = engine.q[:6, None], engine.weights[:6], engine.selected
    assert len(list(decode_calls(decode, q, None, weights, out))) == 2
    assert len(list(decode_calls(decode, q, None, weights, out, split=False))) == 1
    changes = [SimpleNamespace(**vars(decode)) for _ in range(3)]
    changes[0].requires_padding = True
    changes[1].indices = changes[2].global_seq_lens = torch.ones(6)
    for metadata, queries in (
        (decode, engine.q[:7, None]),
        (decode, engine.q[:3, None]),
        (decode, engine.q[:6].view(2, 3, HEADS, DIM)),
        *((metadata, q) for metadata in changes),
    ):
        with pytest.raises(ValueError, match="plain query rows are to be split"):
            list(decode_calls(metadata, queries, None, weights, out))
    update = engine.builder.next_n_3.update
    flat, table, three = decode.seq_lens, decode.block_table, torch.tensor([3, 3])
    for rows, pages in ((flat, table[:5]), (flat[:3], table[:3])):
        with pytest.raises(ValueError, match="do not fit"):
            update(rows, pages, three, engine.deep_gemm.metadata)
    with pytest.raises(ValueError, match="has the shape"):
        update(flat, table, three, lambda lens: lens)
