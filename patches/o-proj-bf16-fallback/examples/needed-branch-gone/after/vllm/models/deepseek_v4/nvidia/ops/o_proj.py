import torch
import torch.nn as nn

from vllm.models.deepseek_v4.common.ops.fused_inv_rope_fp8_quant import (
    fused_inv_rope_fp8_quant,
)
from vllm.utils.deep_gemm import fp8_einsum


def bf16_o_proj(
    o: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    wo_a: torch.nn.Module,
    wo_b: torch.nn.Module,
    *,
    n_groups: int,
    nope_dim: int,
    o_lora_rank: int,
) -> torch.Tensor:
    """O projection of an unquantized wo_a: inverse RoPE, grouped matmul, wo_b.

    What the FP8 path computes, without its quantization; #44847 and #43892 have the
    checkpoints that need it. torch.compile may trace this: no branch depends on data.
    wo_a is only read.

    Args:
        o: ``[T, H, D]``, the attention's output, in the model's dtype (bf16). T may be
            0, and the H heads of this rank may be a slice of a padded buffer.
        positions: ``[T]``, integers, a token's row in ``cos_sin_cache``.
        cos_sin_cache: ``[max_position, R]`` fp32, R / 2 cosines, then as many sines.
            They turn the last R lanes of a head, in pairs (2i, 2i + 1).
        wo_a: has the weight, in o's dtype, ``[G * rank, H / G * D]`` or, as a view of
            the same memory, ``[G, rank, H / G * D]``.
        wo_b: the second half, called with ``[T, G * rank]``.
        n_groups: G, the groups of consecutive heads on this rank.
        nope_dim: D - R, the lanes at the beginning of a head that are not turned.
        o_lora_rank: rank, the outputs of wo_a for each group.

    Returns:
        What wo_b returns.

    Raises:
        TypeError: wo_a has no weight in o's dtype, as when it is packed INT4.
    """
    weight = getattr(wo_a, "weight", None)
    if weight is None or weight.dtype != o.dtype:
        held = "none (packed?)" if weight is None else str(weight.dtype)
        raise TypeError(
            "DeepSeek-V4's wo_a needs a weight in FP8, or unquantized in "
            f"{o.dtype}, but has {held}: leave wo_a out of the quantization"
        )
    # The rotation is undone in fp32, as in the FP8 path's kernel, and rounded once.
    cos, sin = cos_sin_cache[positions].unsqueeze(1).chunk(2, dim=-1)
    lanes = o[..., nope_dim:].float()
    even, odd = lanes[..., ::2], lanes[..., 1::2]
    turned = torch.stack((even * cos + odd * sin, odd * cos - even * sin), dim=-1)
    heads = torch.cat((o[..., :nope_dim], turned.flatten(-2).to(o.dtype)), dim=-1)

    grouped_weight = weight.view(n_groups, o_lora_rank, -1)
    groups = heads.reshape(o.shape[0], n_groups, grouped_weight.shape[2])
    z = torch.bmm(groups.transpose(0, 1), grouped_weight.transpose(1, 2))
    return wo_b(z.transpose(0, 1).flatten(1))


def deep_gemm_fp8_o_proj(
    o: torch.Tensor,
    positions: torch.Tensor,
    cos_sin_cache: torch.Tensor,
    wo_a: nn.Module,
    wo_b: nn.Module,
    *,
    n_groups: int,
    heads_per_group: int,
    nope_dim: int,
    rope_dim: int,
    o_lora_rank: int,
    einsum_recipe: tuple[int, int, int],
    tma_aligned_scales: bool,
) -> torch.Tensor:
    """O projection: inverse RoPE + grouped wo_a + wo_b.

    Shared by the FlashMLA and FlashInfer CUDA backends. The attention
    layer selects the recipe at initialization.
    """
    use_fp8 = wo_a.weight.dtype == torch.float8_e4m3fn
    # Only an FP8 wo_a has the scale that the einsum below needs.
    weight = getattr(wo_a, "weight", None)
    if weight is None or weight.dtype != torch.float8_e4m3fn:
        return bf16_o_proj(
            o,
            positions,
            cos_sin_cache,
            wo_a,
            wo_b,
            n_groups=n_groups,
            nope_dim=nope_dim,
            o_lora_rank=o_lora_rank,
        )
    o_proj_input, o_scale = fused_inv_rope_fp8_quant(
        o,
        positions,
        cos_sin_cache,
        n_groups=n_groups,
        heads_per_group=heads_per_group,
        nope_dim=nope_dim,
        rope_dim=rope_dim,
        quant_group_size=einsum_recipe[2],
        tma_aligned_scales=tma_aligned_scales,
        quantize=use_fp8,
    )
    z = torch.empty(
        (o.shape[0], n_groups, o_lora_rank),
        device=o.device,
        dtype=torch.bfloat16,
    )
    if use_fp8:
        weight_scale = (
            wo_a.weight_scale
            if hasattr(wo_a, "weight_scale")
            else wo_a.weight_scale_inv
        )
        fp8_einsum(
            "bhr,hdr->bhd",
            (o_proj_input, o_scale),
            (wo_a.weight, weight_scale),
            z,
            recipe=einsum_recipe,
        )
    return wo_b(z.flatten(1))
