from torch import nn

from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

from .layernorm import GemmaRMSNorm


class SharedHead(nn.Module):
    def __init__(
        self,
        config,
        quant_config=None,
        prefix: str = "",
    ) -> None:
        super().__init__()
        self.norm = GemmaRMSNorm(config.hidden_size, config.rms_norm_eps)
        self.head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            quant_config=quant_config,
            prefix=f"{prefix}.head",
        )


class Step3p5AMultiTokenPredictorLayer(nn.Module):
    def __init__(self, vllm_config, prefix: str) -> None:
        super().__init__()
        config = vllm_config.model_config.hf_config
        quant_config = vllm_config.quant_config
        self.shared_head = SharedHead(
            config=config, quant_config=quant_config, prefix=f"{prefix}.shared_head"
        )
