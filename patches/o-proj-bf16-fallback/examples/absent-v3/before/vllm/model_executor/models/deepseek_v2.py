class DeepseekV2MLAAttention(nn.Module):
    def __init__(self, config, quant_config, prefix):
        super().__init__()
        # V3 projects all heads at once.
        self.o_proj = RowParallelLinear(
            self.num_heads * self.v_head_dim,
            self.hidden_size,
            bias=False,
            quant_config=quant_config,
            prefix=f"{prefix}.o_proj",
        )
