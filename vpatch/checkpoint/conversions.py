"""Which models vLLM makes of others, and which of them generate text.

Data, read in vllm/config/model.py and vllm/model_executor/models/registry.py of vLLM 0.20.0 to
0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from vpatch.checkpoint.folder import Checkpoint

SUFFIXES = {
    **dict.fromkeys(
        ("ForCausalLM", "ForConditionalGeneration", "ChatModel", "LMHeadModel"), "generate"
    ),
    **dict.fromkeys(
        (
            *("ForTextEncoding", "EmbeddingModel", "ForSequenceClassification"),
            *("ForTokenClassification", "ForAudioClassification", "ForImageClassification"),
            *("ForVideoClassification", "ClassificationModel", "ForRewardModeling"),
            *("RewardModel", "Model"),
        ),
        "pooling",
    ),
}
"""How the names of architectures end, in vLLM's order, and what vLLM does with such a model."""


def _suffix_of(architecture: str) -> str | None:
    return next((suffix for suffix in SUFFIXES if architecture.endswith(suffix)), None)


def is_registered(architecture: str, known: Collection[str]) -> bool:
    """Whether a release has a model, under its name or under that of the one that it is made of.

    A classifier is made of the model that generates. vLLM also takes one model that generates for
    another, which may need a vision part that the checkpoint does not have: this does not count.
    """
    suffix = _suffix_of(architecture)
    if architecture in known or suffix is None or SUFFIXES[suffix] != "pooling":
        return architecture in known
    return any(architecture.replace(suffix, other) in known for other in SUFFIXES)


def generates(checkpoint: Checkpoint) -> bool:
    """Whether vLLM generates text with a model by default, so that there is something to draft."""
    suffix = _suffix_of(checkpoint.architecture or "")
    return not checkpoint.pools and SUFFIXES.get(suffix or "") != "pooling"
