class DeepSeekMultiTokenPredictorLayer(nn.Module):
    def __init__(self, vllm_config, prefix):
        super().__init__()
        self.e_proj = ReplicatedLinear(
            config.hidden_size, config.hidden_size, quant_config=quant_config, return_bias=False, prefix=f"{prefix}.e_proj"
        )
        self.h_proj = ReplicatedLinear(
            config.hidden_size, config.hidden_size, quant_config=quant_config, return_bias=False, prefix=f"{prefix}.h_proj"
        )
