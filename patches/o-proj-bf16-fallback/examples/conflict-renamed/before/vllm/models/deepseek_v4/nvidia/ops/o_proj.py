def grouped_o_proj(o, positions, cos_sin_cache, wo_a, wo_b, shape, recipe):
    o_fp8, o_scale = fused_inv_rope_fp8_quant(o, positions, cos_sin_cache, **shape)
    z = torch.empty((o.shape[0], shape["n_groups"], wo_a.rank), dtype=torch.bfloat16)
    fp8_einsum(
        "bhr,hdr->bhd",
        (o_fp8, o_scale),
        (wo_a.weight, wo_a.weight_scale_inv),
        z,
        recipe=recipe,
    )
    return wo_b(z.flatten(1))
