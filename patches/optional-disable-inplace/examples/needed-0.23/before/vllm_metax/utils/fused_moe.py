import torch


def _dequantised(
    weight: torch.Tensor, scale: torch.Tensor, group_size: int
) -> torch.Tensor:
    """Unpack `[E, N, K // 2]` uint8, low half first, values offset by 8."""
    halves = torch.stack([weight & 0xF, weight >> 4], dim=-1).flatten(-2)
    return (halves.to(scale.dtype) - 8) * scale.repeat_interleave(group_size, dim=-1)


def fused_experts(
    hidden_states: torch.Tensor,
    w1: torch.Tensor,
    w2: torch.Tensor,
    topk_weights: torch.Tensor,
    topk_ids: torch.Tensor,
    *,
    inplace: bool,
    quant_config,
    **kwargs,
) -> torch.Tensor:
    """Experts of int4 weights, in plain PyTorch: `[T, H]` in, `[T, H]` out."""
    group_size = quant_config.block_shape[1]
    up = _dequantised(w1, quant_config.w1_scale, group_size)[topk_ids]
    down = _dequantised(w2, quant_config.w2_scale, group_size)[topk_ids]
    gate, value = torch.einsum("tknh,th->tkn", up, hidden_states).chunk(2, dim=-1)
    inner = torch.nn.functional.silu(gate) * value
    result = torch.einsum("tkhn,tkn,tk->th", down, inner, topk_weights)
    output = hidden_states if inplace else torch.empty_like(hidden_states)
    return output.copy_(result)
