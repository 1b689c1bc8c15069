from torch import nn

from vllm.model_executor.models.utils import WeightsMapper, maybe_prefix

from .model import DeepseekV4DecoderLayer, DeepseekV4ForCausalLM


class DeepSeekV4MTP(nn.Module):
    packed_modules_mapping = DeepseekV4ForCausalLM.packed_modules_mapping

    def __init__(self, *, vllm_config, prefix: str = ""):
        super().__init__()
        self.config = vllm_config.model_config.hf_config
        self.quant_config = vllm_config.quant_config
        if self.quant_config is not None:
            # The mapper of the trunk names the draft's layers otherwise than the draft.
            first = self.config.num_hidden_layers
            self.quant_config.apply_vllm_mapper(
                WeightsMapper(
                    orig_to_new_prefix={
                        f"model.mtp.{i}.": f"model.layers.{first + i}."
                        for i in range(self.config.num_nextn_predict_layers)
                    }
                )
            )
        self.model = DeepSeekV4MultiTokenPredictor(
            DeepseekV4DecoderLayer,
            vllm_config=vllm_config,
            prefix=maybe_prefix(prefix, "model"),
        )
