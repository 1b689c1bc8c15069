from torch import nn

from vllm.model_executor.models.utils import maybe_prefix

from .model import DeepseekV4DecoderLayer


class DeepSeekV4MTP(nn.Module):
    def __init__(self, *, vllm_config, prefix: str = ""):
        super().__init__()
        self.config = vllm_config.model_config.hf_config
        self.quant_config = vllm_config.quant_config
        self.model = DeepSeekV4MultiTokenPredictor(
            DeepseekV4DecoderLayer,
            vllm_config=vllm_config,
            prefix=maybe_prefix(prefix, "model"),
        )
