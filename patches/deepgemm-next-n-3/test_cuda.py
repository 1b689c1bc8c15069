"""The split against flattening on a Hopper GPU: real DeepGEMM, real top-k, CUDA graphs.

DeepSeek-V3.2's sizes: 64 heads of 128 lanes, 2048 keys selected of each row. On the
patched tree both ways are run on the same data, as the flattened metadata is still
there. `pytest test_cuda.py -k times` prints the times of both.
"""

from __future__ import annotations

import dataclasses
import sys

import pytest
import torch
from indexer_engine import Indexer, unpack

from vllm.model_executor.layers import sparse_attn_indexer as layer
from vllm.platforms import current_platform
from vllm.utils.deep_gemm import has_deep_gemm
from vllm.utils.math_utils import cdiv

pytestmark = pytest.mark.skipif(
    not (
        current_platform.is_cuda()
        and current_platform.is_device_capability_family(90)
        and has_deep_gemm()
    ),
    reason="needs a Hopper GPU and DeepGEMM",
)

HEADS, TOPK, PAGE = 64, 2048, 64
MAX_MODEL_LEN = 131072
CONTEXTS = [1024 << n for n in range(8)]
# What the FP8 tensor cores lose in a sum of 128 products, and 64 heads of them.
TOLERANCE = {"rtol": 2e-2, "atol": 2.0}


@pytest.fixture
def calls(monkeypatch):
    """The rows per request of each call of DeepGEMM's logits, and what it returned."""
    made = []
    logits = layer.fp8_fp4_paged_mqa_logits

    def recorded(q, *arguments, **keywords):
        made.append((q[0].shape[1], logits(q, *arguments, **keywords)))
        return made[-1][1]

    monkeypatch.setattr(layer, "fp8_fp4_paged_mqa_logits", recorded)
    return made


def make(monkeypatch, tokens, *, requests=16, ratio=1):
    """An indexer for `requests` requests that have `tokens` tokens together."""
    return Indexer(
        monkeypatch,
        drafts=2,
        heads=HEADS,
        topk=TOPK,
        ratio=ratio,
        pages=2 + requests + cdiv(tokens, PAGE * ratio),
        max_tokens=max(64, 3 * requests),
        max_model_len=MAX_MODEL_LEN,
        device="cuda:0",
    )


def flattened(metadata):
    """The same step without the split, on trees that have one."""
    if not hasattr(metadata.decode, "next_n_3"):
        return metadata
    decode = dataclasses.replace(metadata.decode, next_n_3=None)
    return dataclasses.replace(metadata, decode=decode)


def joined(calls):
    """The logits of all rows, request-major."""
    requests = calls[0][1].shape[0] // calls[0][0]
    parts = [logits.reshape(requests, next_n, -1) for next_n, logits in calls]
    return torch.cat(parts, dim=1).flatten(0, 1)


def assert_selected(selected, logits, lens):
    """That each row holds the top-k of its logits; which of equal ones is open."""
    for row, (length, scores) in enumerate(zip(lens, logits, strict=True)):
        chosen = selected[row][selected[row] >= 0].long()
        count = min(TOPK, length)
        assert chosen.numel() == count, row
        assert chosen.unique().numel() == count, row
        if count == 0:
            continue
        assert int(chosen.max()) < length, row
        best = scores[:length].topk(count).values
        assert torch.equal(scores[chosen].sort(descending=True).values, best), row


LENS = {
    "one": [40000],
    "mixed": [3, 64, 65, 66, 257, 1025, 4096, 9001, 30000, 131072],
    "many": [2100 + 97 * n for n in range(64)],
}


@pytest.mark.parametrize("ratio", [1, 4])
@pytest.mark.parametrize("lens", LENS.values(), ids=LENS)
def test_two_calls_score_as_three_rows(monkeypatch, calls, lens, ratio):
    indexer = make(monkeypatch, sum(lens), requests=len(lens), ratio=ratio)
    indexer.fill(lens)
    metadata = indexer.build(lens, [3] * len(lens))
    rows = 3 * len(lens)
    row_lens = metadata.decode.seq_lens.flatten().tolist()
    indexer.run(flattened(metadata), rows)
    expected = joined(calls)
    calls.clear()
    selected = indexer.run(metadata, rows)
    logits = joined(calls)
    for row, length in enumerate(row_lens):
        torch.testing.assert_close(
            logits[row, :length], expected[row, :length], **TOLERANCE
        )
    assert_selected(selected, logits, row_lens)
    assert [next_n for next_n, _ in calls] == [2, 1]


@pytest.mark.parametrize("ratio", [1, 4])
def test_rows_are_scored_as_alone(monkeypatch, calls, ratio):
    """Against plain torch, so that both ways are not wrong together."""
    lens = [3, 70, 300, 5000]
    indexer = make(monkeypatch, sum(lens), requests=len(lens), ratio=ratio)
    indexer.fill(lens)
    metadata = indexer.build(lens, [3] * len(lens))
    indexer.run(metadata, 3 * len(lens))
    assert unpack(indexer.kv_cache)[0].isfinite().all()
    logits = joined(calls)
    for row, expected in enumerate(indexer.expected(lens, [3] * len(lens))):
        ours = logits[row, : expected.numel()]
        torch.testing.assert_close(ours, expected, **TOLERANCE)


@pytest.mark.parametrize("ratio", [1, 4])
def test_a_graph_sees_each_step(monkeypatch, calls, ratio):
    indexer = make(monkeypatch, 5 * 40000, requests=8, ratio=ratio)
    indexer.fill([3] * 8)
    # As vLLM captures: `persistent_topk` has blocks for the longest length of it.
    captured = indexer.build([MAX_MODEL_LEN] * 8, [3] * 8)
    indexer.run(captured, 24)
    torch.accelerator.synchronize()
    calls.clear()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        indexer.run(captured, 24)
    in_graph = list(calls)
    for lens in ([40000, 7, 300, 65, 1200, 9, 2, 3], [129, 30000], [5000] * 6):
        padding = 8 - len(lens)
        everyone, queries = [*lens, *[0] * padding], [*[3] * len(lens), *[0] * padding]
        indexer.fill(everyone)
        step = indexer.build(everyone, queries, padded_tokens=24)
        graph.replay()
        selected = indexer.selected[:24].clone()
        row_lens = [max(n, 0) for n in step.decode.seq_lens.flatten().tolist()]
        assert_selected(selected, joined(in_graph), row_lens)
        calls.clear()
        indexer.run(flattened(step), 24)
        expected = joined(calls)
        for row, length in enumerate(row_lens):
            torch.testing.assert_close(
                joined(in_graph)[row, :length], expected[row, :length], **TOLERANCE
            )


def test_a_graph_in_a_dummy_step_selects_nothing(monkeypatch, calls):
    indexer = make(monkeypatch, 8 * 4000, requests=8)
    indexer.fill([4000] * 8)
    captured = indexer.build([4000] * 2, [3] * 2)
    assert captured.decode.next_n_3 is not None
    indexer.run(captured, 6)
    torch.accelerator.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        indexer.run(captured, 6)
    indexer.build([4000] * 8, [3] * 8)
    indexer.build([1], [1])
    graph.replay()
    torch.accelerator.synchronize()
    assert bool((indexer.selected[:6] == -1).all())
    assert len(calls) == 4


def milliseconds(indexer, metadata, rows, repeats=20):
    """Of one layer's decode code in a CUDA graph: the median of `repeats` runs."""
    indexer.run(metadata, rows)
    torch.accelerator.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        indexer.run(metadata, rows)
    times = []
    for _ in range(repeats):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2]


def test_times(monkeypatch, capsys):
    """A table; it says nothing about which should be faster."""
    lines = [
        f"{'requests':>8} {'context':>8} {'3 x 1 ms':>9} {'2 + 1 ms':>9} {'gain':>6}"
    ]
    for requests in (1, 8, 32, 64):
        indexer = make(monkeypatch, requests * CONTEXTS[-1], requests=requests)
        for context in CONTEXTS:
            lens = [context] * requests
            indexer.fill(lens)
            metadata = indexer.build(lens, [3] * requests)
            flat = milliseconds(indexer, flattened(metadata), 3 * requests)
            line = f"{requests:8} {context:8} {flat:9.4f}"
            if getattr(metadata.decode, "next_n_3", None) is not None:
                split = milliseconds(indexer, metadata, 3 * requests)
                line += f" {split:9.4f} {flat / split:6.2f}"
            lines.append(line)
        del indexer
    title = f"{torch.cuda.get_device_name()}: one layer's logits and top-k"
    with capsys.disabled():
        sys.stdout.write("\n".join(["", title, *lines, ""]))
