from torch import nn

from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead


class HYV3SharedHead(nn.Module):
    def __init__(self, config, quant_config=None) -> None:
        super().__init__()
        self.head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            quant_config=quant_config,
            prefix="lm_head",
        )


class HYV3MultiTokenPredictorLayer(nn.Module):
    def __init__(self, config, prefix, quant_config=None) -> None:
        super().__init__()
        self.shared_head = HYV3SharedHead(config=config, quant_config=quant_config)
