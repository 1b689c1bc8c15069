def deep_gemm_fp8_o_proj(
    o, positions, cos_sin_cache, wo_a, wo_b, *, n_groups, nope_dim, o_lora_rank, recipe
):
    o_fp8, o_scale = fused_inv_rope_fp8_quant(
        o,
        positions,
        cos_sin_cache,
        n_groups=n_groups,
        nope_dim=nope_dim,
    )
    z = torch.empty((o.shape[0], n_groups, o_lora_rank), dtype=torch.bfloat16)
    # Somebody else's idea of the scale: nothing here says that theirs is ours.
    fp8_einsum(
        "bhr,hdr->bhd",
        (o_fp8, o_scale),
        (wo_a.weight, block_weight_scale(wo_a)),
        z,
        recipe=recipe,
    )
    return wo_b(z.flatten(1))
