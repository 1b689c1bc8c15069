class DeepSeekV4MultiTokenPredictorLayer(nn.Module):
    def __init__(self, vllm_config, topk_indices_buffer, prefix, aux_stream_list=None):
        super().__init__()
        # Two projections here, where the V3 layer has one.
        self.e_proj = ColumnParallelLinear(
            config.hidden_size,
            config.hidden_size,
            bias=False,
            return_bias=False,
            quant_config=quant_config,
        )
        self.h_proj = ColumnParallelLinear(
            config.hidden_size,
            config.hidden_size,
            bias=False,
            return_bias=False,
            quant_config=quant_config,
        )
        self.hc_mult = config.hc_mult
