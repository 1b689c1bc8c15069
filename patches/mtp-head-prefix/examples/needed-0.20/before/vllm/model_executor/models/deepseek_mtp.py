from torch import nn

from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead


def maybe_prefix(prefix, name):
    return f"{prefix}.{name}"


class SharedHead(nn.Module):
    def __init__(self, config, prefix: str, quant_config=None) -> None:
        super().__init__()
        self.head = ParallelLMHead(
            config.vocab_size,
            config.hidden_size,
            quant_config=quant_config,
            prefix=maybe_prefix(prefix, "head"),
        )
