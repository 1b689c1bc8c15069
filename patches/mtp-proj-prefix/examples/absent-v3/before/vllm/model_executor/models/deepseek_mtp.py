class DeepSeekMultiTokenPredictorLayer(nn.Module):
    def __init__(self, vllm_config, prefix):
        super().__init__()
        self.eh_proj = nn.Linear(config.hidden_size * 2, config.hidden_size, bias=False)
