"""A sparse indexer for the tests: vLLM's builder and decode code on random data.

What is called differently from release to release is looked up, so that the tests also
run on the sources of others than the one that they are declared for.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from types import SimpleNamespace
from typing import TYPE_CHECKING

import torch

from vllm.model_executor.layers import sparse_attn_indexer as layer
from vllm.v1.attention.backend import CommonAttentionMetadata
from vllm.v1.attention.backends.mla import indexer
from vllm.v1.kv_cache_interface import MLAAttentionSpec
from vllm.v1.worker.workspace import init_workspace_manager

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

LAYER = "model.layers.0.self_attn.indexer.k_cache"
DIM, PAGE = 128, 64


class Indexer:
    """An indexer with its key cache, and a place for all that a CUDA graph reads."""

    def __init__(  # noqa: PLR0913
        self,
        monkeypatch: pytest.MonkeyPatch,
        *,
        drafts: int,
        heads: int,
        topk: int,
        pages: int,
        max_tokens: int,
        max_model_len: int,
        ratio: int = 1,
        device: str = "cpu",
        parallel: dict[str, int] | None = None,
    ) -> None:
        self.topk, self.ratio, self.device = topk, ratio, torch.device(device)
        self.max_model_len = max_model_len
        self.width = max_model_len // (PAGE * ratio)
        self.context: SimpleNamespace | None = None
        monkeypatch.setattr(layer, "get_forward_context", lambda: self.context)
        init_workspace_manager(self.device)
        self.config = config(drafts, max_tokens, max_model_len, parallel or {})
        self.builder = self._builder()
        self.generator = torch.Generator(self.device).manual_seed(0)
        self.kv_cache = torch.zeros(
            (pages, PAGE, DIM + 4), dtype=torch.uint8, device=self.device
        )
        raw = self.kv_cache.view(pages, -1)
        keys = self._random(pages, PAGE * DIM).to(torch.float8_e4m3fn)
        raw[:, : PAGE * DIM] = keys.view(torch.uint8)
        scales = self._random(pages, PAGE).abs() + 0.5
        raw[:, PAGE * DIM :] = scales.view(torch.uint8)
        self.q = self._random(max_tokens, heads, DIM).to(torch.float8_e4m3fn)
        self.weights = self._random(max_tokens, heads)
        int32 = {"dtype": torch.int32, "device": self.device}
        self.block_table = torch.zeros((max_tokens, self.width), **int32)
        self.selected = torch.zeros((max_tokens, topk), **int32)

    def _random(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=self.generator, device=self.device)

    def _builder(self) -> indexer.DeepseekV32IndexerMetadataBuilder:
        names = {field.name for field in dataclasses.fields(MLAAttentionSpec)}
        ratio = "compress_ratio" if "compress_ratio" in names else "tokens_per_state"
        spec = MLAAttentionSpec(
            block_size=PAGE * self.ratio,
            num_kv_heads=1,
            head_size=DIM + 4,
            dtype=torch.uint8,
            **{ratio: self.ratio},
        )
        builder = indexer.DeepseekV32IndexerMetadataBuilder
        keywords = {}
        if getattr(builder, "requires_block_table_width", False):
            keywords["block_table_width"] = self.width
        return builder(spec, [LAYER], self.config, self.device, **keywords)

    def fill(self, lens: list[int]) -> None:
        """New queries, and block tables for requests of these lengths."""
        self.q.copy_(self._random(*self.q.shape).to(torch.float8_e4m3fn))
        self.weights.copy_(self._random(*self.weights.shape))
        pages = self.kv_cache.shape[0]
        order = torch.randperm(
            pages - 1, generator=self.generator, device=self.device, dtype=torch.int32
        )
        self.block_table.zero_()
        used = 0
        for request, length in enumerate(lens):
            need = math.ceil(length / (PAGE * self.ratio))
            self.block_table[request, :need] = order[used : used + need] + 1
            used += need
        if used >= pages:
            raise ValueError(f"{pages} pages are too few for {lens}")

    def build(
        self,
        lens: list[int],
        query_lens: list[int],
        *,
        padded_tokens: int | None = None,
    ) -> indexer.DeepseekV32IndexerMetadata:
        """The metadata of a step with requests of these lengths and query lengths."""
        ends = torch.tensor([0, *query_lens]).cumsum(0).to(torch.int32)
        tokens = padded_tokens or int(ends[-1])
        seq_lens = torch.tensor(lens, dtype=torch.int32)
        values = {
            "query_start_loc": ends.to(self.device),
            "query_start_loc_cpu": ends,
            "seq_lens": seq_lens.to(self.device),
            "num_reqs": len(lens),
            "num_actual_tokens": tokens,
            "max_query_len": max(query_lens),
            "max_seq_len": max(lens),
            "block_table_tensor": self.block_table[: len(lens)],
            "slot_mapping": torch.zeros(tokens, dtype=torch.int64, device=self.device),
            "seq_lens_cpu_upper_bound": seq_lens,
            "is_prefilling": torch.zeros(len(lens), dtype=torch.bool),
        }
        names = {field.name for field in dataclasses.fields(CommonAttentionMetadata)}
        values = {name: value for name, value in values.items() if name in names}
        return self.builder.build(0, CommonAttentionMetadata(**values))

    def run(
        self, metadata: indexer.DeepseekV32IndexerMetadata, tokens: int
    ) -> torch.Tensor:
        """The decode code on the first `tokens` rows; what each of them selected."""
        self.context = SimpleNamespace(
            attn_metadata={LAYER: metadata}, cudagraph_runtime_mode=None
        )
        values = {
            "hidden_states": self.weights[:tokens],
            "k_cache_prefix": LAYER,
            "kv_cache": self.kv_cache,
            "q_quant": self.q[:tokens],
            "q_scale": None,
            "k": None,
            "weights": self.weights[:tokens],
            "quant_block_size": 128,
            "scale_fmt": "ue8m0",
            "topk_tokens": self.topk,
            "head_dim": DIM,
            "max_model_len": self.max_model_len,
            "total_seq_lens": self.max_model_len,
            "topk_indices_buffer": self.selected,
            "skip_k_cache_insert": True,
            "use_pcp": False,
            "pcp_shard_decode_requests": False,
            "dense_mha_metadata_layer_name": "",
        }
        function = inspect.unwrap(layer.sparse_attn_indexer)
        known = inspect.signature(function).parameters
        function(**{name: value for name, value in values.items() if name in known})
        return self.selected[:tokens]

    def expected(
        self, lens: list[int], query_lens: list[int]
    ) -> Iterator[torch.Tensor]:
        """The logits of each query row, each row computed by itself."""
        keys, scales = unpack(self.kv_cache)
        token = 0
        for request, (length, queries) in enumerate(zip(lens, query_lens, strict=True)):
            own = self.block_table[request].long()
            own_keys, own_scales = keys[own].view(-1, DIM), scales[own].view(-1)
            for query in range(queries):
                visible = (length - queries + query + 1) // self.ratio
                row = slice(token, token + 1)
                yield score(
                    self.q[row],
                    self.weights[row],
                    own_keys[:visible],
                    own_scales[:visible],
                )[0]
                token += 1


def config(
    drafts: int, max_tokens: int, max_model_len: int, parallel: dict[str, int]
) -> SimpleNamespace:
    """What the builder reads of vLLM's configuration."""
    speculative = SimpleNamespace(
        num_speculative_tokens=drafts, enable_adaptive_verification=False
    )
    return SimpleNamespace(
        model_config=SimpleNamespace(max_model_len=max_model_len, architectures=[]),
        scheduler_config=SimpleNamespace(
            max_num_batched_tokens=max_tokens, max_num_seqs=max_tokens
        ),
        attention_config=SimpleNamespace(
            use_fp4_indexer_cache=False,
            resolve_indexer_kv_dtype=lambda dtype: dtype,
            sparse_mla_prefill_workspace_factor=5,
        ),
        speculative_config=speculative if drafts else None,
        num_speculative_tokens=drafts,
        compilation_config=SimpleNamespace(cudagraph_mode=None),
        parallel_config=SimpleNamespace(
            **{
                "decode_context_parallel_size": 1,
                "prefill_context_parallel_size": 1,
                "cp_kv_cache_interleave_size": 1,
                "tensor_parallel_size": 1,
            }
            | parallel
        ),
    )


def unpack(kv_cache: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys [pages, PAGE, DIM] and their scales [pages, PAGE], in fp32."""
    raw = kv_cache.reshape(kv_cache.shape[0], -1)
    keys = raw[:, : PAGE * DIM].contiguous().view(torch.float8_e4m3fn)
    scales = raw[:, PAGE * DIM :].contiguous().view(torch.float32)
    return keys.float().view(-1, PAGE, DIM), scales


def score(
    q: torch.Tensor, weights: torch.Tensor, keys: torch.Tensor, scales: torch.Tensor
) -> torch.Tensor:
    """Logits [n, s] of queries [n, H, D], weights [n, H], keys [s, D], scales [s]."""
    products = torch.einsum("nhd,sd->nhs", q.float(), keys).relu()
    return (products * weights[:, :, None]).sum(1) * scales
