from __future__ import annotations

from typing import Any

from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead


def with_named_head(self: Any, config: Any, quant_config: Any = None) -> None:
    super().__init__()
    self.head = ParallelLMHead(
        config.vocab_size,
        config.hidden_size,
        quant_config=quant_config,
        prefix="lm_head",
    )
