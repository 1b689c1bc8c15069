"""A tiny checkpoint with an MTP head, whose every token and acceptance is known by construction.

It runs inside an engine's Python, where vpatch is not: only torch and safetensors are imported.

The model is a MiMo (Qwen2 layers and one MTP layer). Attention and MLP weights are zero, the
embedding is the identity, and lm_head maps each token to its successor, so that the target's next
token depends on the last one alone. The MTP layer passes on the half of its input that holds the
embedding of the token just sampled: it drafts by the same map, and all its drafts are accepted.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file

VOCABULARY = 512
# A one-hot vector after RMSNorm is one-hot times sqrt(hidden size); this is its logit.
_SCALE = VOCABULARY**0.5
_LAYERS = 2
_HEADS = 4
_STEP = 7
_RUNNER_UP_STEP = 11


def successor(token: int) -> int:
    """Return the most probable next token, which is also the one that is drafted."""
    return (token + _STEP) % VOCABULARY


def runner_up(token: int) -> int:
    """Return the second most probable next token, where the checkpoint has one."""
    return (token + _RUNNER_UP_STEP) % VOCABULARY


def write_checkpoint(folder: Path, *, gap: float | None = None) -> Path:
    """Write config.json and model.safetensors (bfloat16, about 20 MB); return the folder.

    The successor's logit is about 22.6. With `gap`, the runner-up's is less by so much (in
    multiples of 22.6 / 256, as bfloat16 has it), without it is 0, as those of all other tokens.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",  # transformers knows no mimo; vLLM goes by the architecture
        "vocab_size": VOCABULARY,
        "hidden_size": VOCABULARY,
        "intermediate_size": 256,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "num_nextn_predict_layers": 1,
        "hidden_act": "silu",
        "max_position_embeddings": 4096,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    save_file(_tensors(gap), folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _tensors(gap: float | None) -> dict[str, torch.Tensor]:
    tokens = torch.arange(VOCABULARY)
    head = torch.zeros(VOCABULARY, VOCABULARY)
    if gap is not None:
        head[(tokens + _RUNNER_UP_STEP) % VOCABULARY, tokens] = 1 - gap / _SCALE
    head[(tokens + _STEP) % VOCABULARY, tokens] = 1
    identity, zero = torch.eye(VOCABULARY), torch.zeros(VOCABULARY, VOCABULARY)
    ones = torch.ones(VOCABULARY)
    found = {
        "model.embed_tokens.weight": identity,
        "lm_head.weight": head,
        "model.norm.weight": ones,
        # The first half is of the hidden state, the second of the token's embedding.
        "model.mtp_layers.0.input_proj.weight": torch.cat([zero, identity], dim=1),
        "model.mtp_layers.0.token_layernorm.weight": ones,
        "model.mtp_layers.0.hidden_layernorm.weight": ones,
        "model.mtp_layers.0.final_layernorm.weight": ones,
    }
    for prefix in (*(f"model.layers.{i}" for i in range(_LAYERS)), "model.mtp_layers.0"):
        found |= _idle_layer(prefix)
    return {name: tensor.to(torch.bfloat16).contiguous() for name, tensor in found.items()}


def _idle_layer(prefix: str) -> dict[str, torch.Tensor]:
    """Return a decoder layer that adds nothing to its input."""
    layer = {
        f"{prefix}.input_layernorm.weight": torch.ones(VOCABULARY),
        f"{prefix}.post_attention_layernorm.weight": torch.ones(VOCABULARY),
        f"{prefix}.mlp.gate_proj.weight": torch.zeros(256, VOCABULARY),
        f"{prefix}.mlp.up_proj.weight": torch.zeros(256, VOCABULARY),
        f"{prefix}.mlp.down_proj.weight": torch.zeros(VOCABULARY, 256),
    }
    for name in ("q", "k", "v", "o"):
        layer[f"{prefix}.self_attn.{name}_proj.weight"] = torch.zeros(VOCABULARY, VOCABULARY)
    for name in ("q", "k", "v"):
        layer[f"{prefix}.self_attn.{name}_proj.bias"] = torch.zeros(VOCABULARY)
    return layer
