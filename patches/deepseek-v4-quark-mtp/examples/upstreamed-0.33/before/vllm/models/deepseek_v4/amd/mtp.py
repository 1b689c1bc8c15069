from torch import nn

from vllm.model_executor.models.utils import maybe_prefix
from vllm.models.deepseek_v4.quant_config import align_mtp_quant_config

from .model import DeepseekV4DecoderLayer, DeepseekV4ForCausalLM


class DeepSeekV4MTP(nn.Module):
    packed_modules_mapping = DeepseekV4ForCausalLM.packed_modules_mapping

    def __init__(self, *, vllm_config, prefix: str = ""):
        super().__init__()
        self.config = vllm_config.model_config.hf_config
        self.quant_config = vllm_config.quant_config
        align_mtp_quant_config(self.quant_config, self.config)
        self.model = DeepSeekV4MultiTokenPredictor(
            DeepseekV4DecoderLayer,
            vllm_config=vllm_config,
            prefix=maybe_prefix(prefix, "model"),
        )
