import torch

from vllm.model_executor.custom_op import PluggableLayer
from vllm.models.deepseek_v4.common.ops import (
    fused_inv_rope_fp8_quant,
    fused_q_kv_rmsnorm,
)
from vllm.platforms import current_platform
from vllm.v1.attention.ops.rocm_aiter_mla_sparse import rocm_inv_rope_einsum


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


# --8<-- [start:multi_head_latent_attention]
@PluggableLayer.register("deepseek_v4_multi_head_latent_attention")
class DeepseekV4MultiHeadLatentAttentionWrapper(PluggableLayer):
    def forward(
        self,
        positions: torch.Tensor,
        hidden_states: torch.Tensor,
        llama_4_scaling: torch.Tensor | None = None,
    ) -> torch.Tensor:
        # Pre-allocate attention output with FlashMLA-padded head count.
        # The op writes into `o_padded`; we slice to n_local_heads after.
        num_tokens = hidden_states.shape[0]
        o_padded = torch.empty(
            (num_tokens, self.padded_heads, self.head_dim),
            dtype=hidden_states.dtype,
            device=hidden_states.device,
        )

        # Attention (inside custom op for torch.compile boundary)
        torch.ops.vllm.deepseek_v4_attention(
            hidden_states,
            positions,
            o_padded,
            self.layer_name,
        )
        o = o_padded[:, : self.n_local_heads, :]

        # Keep ROCm on the BF16 reference wo_a path util kernel ready.
        if current_platform.is_rocm():
            z = rocm_inv_rope_einsum(
                self.rotary_emb,
                o,
                positions,
                self.rope_head_dim,
                self.n_local_groups,
                self.o_lora_rank,
                self.wo_a,
            )
            return self.wo_b(z.flatten(1))

        # Only an FP8 wo_a has the scale that the einsum below needs.
        weight = getattr(self.wo_a, "weight", None)
        if weight is None or weight.dtype != torch.float8_e4m3fn:
            return bf16_o_proj(
                o,
                positions,
                self.rotary_emb.cos_sin_cache,
                self.wo_a,
                self.wo_b,
                n_groups=self.n_local_groups,
                nope_dim=self.nope_head_dim,
                o_lora_rank=self.o_lora_rank,
            )

        # O projection: inverse RoPE + FP8 quant + einsum + wo_b
        o_fp8, o_scale = fused_inv_rope_fp8_quant(
            o,
            positions,
            self.rotary_emb.cos_sin_cache,
            n_groups=self.n_local_groups,
            heads_per_group=self.n_local_heads // self.n_local_groups,
            nope_dim=self.nope_head_dim,
            rope_dim=self.rope_head_dim,
            tma_aligned_scales=self._tma_aligned_scales,
        )

        wo_a_fp8 = self.wo_a.weight
        wo_a_scale = (
            self.wo_a.weight_scale
            if hasattr(self.wo_a, "weight_scale")
            else self.wo_a.weight_scale_inv
        )

        z = torch.empty(
            (num_tokens, self.n_local_groups, self.o_lora_rank),
            device=o.device,
            dtype=torch.bfloat16,
        )
        torch.ops.vllm.deepseek_v4_fp8_einsum(
            o_fp8,
            o_scale,
            wo_a_fp8,
            wo_a_scale,
            z,
            "bhr,hdr->bhd",
            list(self._einsum_recipe),
        )

        return self.wo_b(z.flatten(1))
