from vllm.v1.attention.backends.mla.indexer import (
    DeepseekV32IndexerMetadata,
    tp_prefill_row_sharding_supported,
)
from vllm.v1.attention.backends.mla.next_n_3 import DecodeCall, decode_calls
from vllm.v1.attention.ops.common import pack_seq_triton, unpack_seq_triton
from vllm.v1.attention.ops.pcp import maybe_gather_indexer_k


def _select_decode_rows(
    call: DecodeCall,
    attn_metadata_narrowed: DeepseekV32IndexerMetadata,
    kv_cache: torch.Tensor,
    topk_tokens: int,
    max_model_len: int,
    dcp_rank: int,
    dcp_world_size: int,
    cp_kv_cache_interleave_size: int,
    candidate_blocks: torch.Tensor | None,
    candidate_block_size: int,
    topk_backend: str,
) -> torch.Tensor:
    """Score the rows of one call of a decode step, and select keys for each."""
    (
        decode_metadata,
        padded_q_quant_decode_tokens,
        padded_q_scale,
        weights,
        topk_indices_buffer,
    ) = call
    batch_size = padded_q_quant_decode_tokens.shape[0]
    next_n = padded_q_quant_decode_tokens.shape[1]
    num_padded_tokens = batch_size * next_n
    seq_lens = decode_metadata.seq_lens[:batch_size]
    padded_q_scale, decode_weights = mqa_logits_mx_inputs(
        padded_q_quant_decode_tokens, padded_q_scale, weights[:num_padded_tokens]
    )
    logits = fp8_fp4_paged_mqa_logits(
        (padded_q_quant_decode_tokens, padded_q_scale),
        kv_cache,
        decode_weights,
        seq_lens,
        decode_metadata.block_table,
        decode_metadata.schedule_metadata,
        max_model_len=max_model_len,
        indices=decode_metadata.indices,
    )
    # Keeping bf16 halves top-k/candidate reads; other top-k backends and
    # DCP need fp32.
    if topk_backend != "deep_select" or dcp_world_size != 1:
        logits = as_fp32_logits(logits, seq_lens.view(-1))
    num_rows = logits.shape[0]
    if candidate_blocks is not None:
        vis = seq_lens.reshape(-1)
        decode_candidates = candidate_blocks[:num_rows]
        _apply_candidate_mask(
            logits,
            None,
            vis,
            decode_candidates,
            candidate_block_size,
        )
    topk_indices = topk_indices_buffer[:num_padded_tokens, :topk_tokens]

    get_indexer_topk(topk_backend)(
        logits,
        seq_lens,
        next_n,
        topk_indices,
        topk_tokens,
        attn_metadata_narrowed.max_seq_len,
    )

    if decode_metadata.global_seq_lens is not None:
        _merge_dcp_topk_global(
            logits,
            topk_indices,
            topk_tokens,
            dcp_rank,
            dcp_world_size,
            cp_kv_cache_interleave_size,
        )
    return topk_indices


@eager_break_during_capture
def sparse_attn_indexer(
    kv_cache: torch.Tensor,
    q_quant: torch.Tensor,
    weights: torch.Tensor,
    topk_tokens: int,
    max_model_len: int,
    topk_indices_buffer: torch.Tensor,
    dcp_rank: int = 0,
    dcp_world_size: int = 1,
    cp_kv_cache_interleave_size: int = 1,
    candidate_blocks: torch.Tensor | None = None,
    candidate_block_size: int = 0,
    topk_backend: str = "auto",
) -> torch.Tensor:
    if has_decode:
        decode_metadata = attn_metadata_narrowed.decode
        decode_lens = decode_metadata.decode_lens
        needs_padded_path = decode_metadata.requires_padding or (
            num_decode_tokens % decode_lens.shape[0] != 0
        )
        if needs_padded_path:
            padded_q_quant_decode_tokens = pack_seq_triton(
                q_quant[:num_decode_tokens], decode_lens
            )
        else:
            padded_q_quant_decode_tokens = q_quant[:num_decode_tokens].reshape(
                decode_lens.shape[0], -1, *q_quant.shape[1:]
            )
        padded_q_scale = None
        # TODO: move and optimize below logic with triton kernels
        batch_size = padded_q_quant_decode_tokens.shape[0]
        # Three rows per request may be split; otherwise there is one call.
        for call in decode_calls(
            decode_metadata,
            padded_q_quant_decode_tokens,
            padded_q_scale,
            weights,
            topk_indices_buffer,
            # Candidate blocks are in the order of all rows.
            split=candidate_blocks is None,
        ):
            topk_indices = _select_decode_rows(
                call,
                attn_metadata_narrowed,
                kv_cache,
                topk_tokens,
                max_model_len,
                dcp_rank,
                dcp_world_size,
                cp_kv_cache_interleave_size,
                candidate_blocks,
                candidate_block_size,
                topk_backend,
            )

        if needs_padded_path:
            # if padded, we need to unpack
            # the topk indices removing padded tokens
            topk_indices = unpack_seq_triton(
                topk_indices.reshape(batch_size, -1, topk_indices.shape[-1]),
                decode_lens,
            )
            topk_indices_buffer[: topk_indices.shape[0], : topk_indices.shape[-1]] = (
                topk_indices
            )

    return topk_indices_buffer
