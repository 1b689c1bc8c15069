"""A tiny checkpoint with an MTP head, whose every token and acceptance is known by construction.

It runs inside an engine's Python, where vpatch is not: only the standard library is imported.

The model is a MiMo (a Qwen2 layer and one MTP layer). Attention and MLP weights are zero, so that a
token's embedding arrives at lm_head as it is, and the next token depends on the last one alone. A
hidden vector is one-hot, and has two halves. In the first, which the embedding writes, a place
names the token that was read. In the second, which the MTP layer alone writes, it names the
token that is to be drafted. The MTP layer sees the embedding of the token just sampled, and the
hidden vector of the one before it: the model's own in the first draft, and its own later.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tiny_safetensors import Sparse, write_safetensors
from tiny_tokenizer import write_tokenizer
from tiny_tokens import BYTES, VOCABULARY, drafted, runner_up, successor, word

__all__ = ["VOCABULARY", "runner_up", "successor", "write_checkpoint"]

_HIDDEN = 2 * VOCABULARY
# A one-hot vector after RMSNorm is one-hot times sqrt(hidden size); this is its logit.
_SCALE = _HIDDEN**0.5
_LAYERS = 1
_HEADS = 8
_INTERMEDIATE = 256
_BOS, _EOS = 254, 255
_LENGTH = 4096
# What transformers takes for a model_type of qwen2, whatever the config says.
_TOKENIZER = "Qwen2Tokenizer"


_GROUP = 128
_NIBBLES = 8
# Eight nibbles of 8, which is the zero of a symmetric INT4.
_ZEROS = -0x77777778
_QUANTISATION = {
    "quant_method": "compressed-tensors",
    "format": "pack-quantized",
    "quantization_status": "compressed",
    "config_groups": {
        "group_0": {
            "targets": ["Linear"],
            "weights": {
                "num_bits": 4,
                "type": "int",
                "symmetric": True,
                "strategy": "group",
                "group_size": _GROUP,
            },
        }
    },
    # The names of the checkpoint, and the layer that vLLM makes of the MTP head.
    "ignore": ["lm_head", "re:.*mtp_layers.*", f"re:model[.]layers[.]{_LAYERS}[.].*"],
}


def write_checkpoint(
    folder: Path,
    *,
    acceptance: str = "all",
    gap: float | None = None,
    quantised_trunk: bool = False,
) -> Path:
    """Write config.json, model.safetensors (bfloat16, 26 MB) and a tokenizer; return the folder.

    The model says `successor(token)` after each token, whose logit is 32.

    Args:
        folder: where the files are written. It is made if it is not there.
        acceptance: which drafts are right: `all`, `none`, `first` or `most`, as `drafted` has it.
        gap: by how much the logit of `runner_up(token)` is less, in multiples of 1/8, as bfloat16
            has it. Without it, the logits of all other tokens are 0.
        quantised_trunk: whether the layers below the MTP head are INT4, in compressed-tensors'
            format. The MTP head stays in bfloat16.
    """
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",  # transformers knows no mimo; vLLM goes by the architecture
        "vocab_size": VOCABULARY,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INTERMEDIATE,
        "num_hidden_layers": _LAYERS,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": _HEADS,
        "num_nextn_predict_layers": 1,
        "hidden_act": "silu",
        "max_position_embeddings": _LENGTH,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": _BOS,
        "eos_token_id": _EOS,
    }
    if quantised_trunk:
        config["quantization_config"] = _QUANTISATION
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    words = [word(token) for token in range(BYTES)]
    write_tokenizer(folder, words, bos=_BOS, eos=_EOS, tokenizer_class=_TOKENIZER, length=_LENGTH)
    write_safetensors(
        folder / "model.safetensors", _tensors(acceptance, gap, quantised_trunk=quantised_trunk)
    )
    return folder


def _tensors(acceptance: str, gap: float | None, *, quantised_trunk: bool) -> dict[str, Sparse]:
    ones = Sparse((_HIDDEN,), fill=1)
    embedding = {(token, token): 1.0 for token in range(VOCABULARY)}
    tensors = {
        "model.embed_tokens.weight": Sparse((VOCABULARY, _HIDDEN), embedding),
        "lm_head.weight": Sparse((VOCABULARY, _HIDDEN), _head(gap)),
        "model.norm.weight": ones,
        "model.mtp_layers.0.input_proj.weight": Sparse(
            (_HIDDEN, 2 * _HIDDEN), _input_projection(acceptance)
        ),
        "model.mtp_layers.0.token_layernorm.weight": ones,
        "model.mtp_layers.0.hidden_layernorm.weight": ones,
        "model.mtp_layers.0.final_layernorm.weight": ones,
    }
    for number in range(_LAYERS):
        layer = _idle_layer(f"model.layers.{number}")
        tensors |= _quantised(layer) if quantised_trunk else layer
    return tensors | _idle_layer("model.mtp_layers.0")


def _head(gap: float | None) -> dict[tuple[int, int], float]:
    """Return what maps a token read to its successor, and one to be drafted to itself."""
    head = {}
    for token in range(VOCABULARY):
        if gap is not None:
            head[runner_up(token), token] = 1 - gap / _SCALE
        head[successor(token), token] = 1.0
        head[token, VOCABULARY + token] = 1.0
    return head


def _input_projection(acceptance: str) -> dict[tuple[int, int], float]:
    """Return what maps the hidden vector of before, and the embedding of now, to a draft."""
    projection = {}
    for token in range(VOCABULARY):
        if acceptance == "first":
            now = successor(token)  # what the model sampled after the token that it read before
            projection[VOCABULARY + drafted(acceptance, now, 0), token] = 1.0
            projection[VOCABULARY + drafted(acceptance, token, 1), VOCABULARY + token] = 1.0
        else:
            projection[VOCABULARY + drafted(acceptance, token, 0), _HIDDEN + token] = 1.0
    return projection


def _idle_layer(prefix: str) -> dict[str, Sparse]:
    """Return a decoder layer that adds nothing to its input."""
    layer = {
        f"{prefix}.input_layernorm.weight": Sparse((_HIDDEN,), fill=1),
        f"{prefix}.post_attention_layernorm.weight": Sparse((_HIDDEN,), fill=1),
        f"{prefix}.mlp.gate_proj.weight": Sparse((_INTERMEDIATE, _HIDDEN)),
        f"{prefix}.mlp.up_proj.weight": Sparse((_INTERMEDIATE, _HIDDEN)),
        f"{prefix}.mlp.down_proj.weight": Sparse((_HIDDEN, _INTERMEDIATE)),
    }
    for name in ("q", "k", "v", "o"):
        layer[f"{prefix}.self_attn.{name}_proj.weight"] = Sparse((_HIDDEN, _HIDDEN))
    for name in ("q", "k", "v"):
        layer[f"{prefix}.self_attn.{name}_proj.bias"] = Sparse((_HIDDEN,))
    return layer


def _quantised(layer: dict[str, Sparse]) -> dict[str, Sparse]:
    """Return the same layer with its projections in INT4, packed, and a scale of 1 for each group.

    What is not quantised has another name and another shape, so that no loader mistakes it.
    """
    tensors = dict(layer)
    for name, tensor in layer.items():
        if name.endswith("_proj.weight"):
            del tensors[name]
            rows, columns = tensor.shape
            packed = Sparse((rows, columns // _NIBBLES), fill=_ZEROS, dtype="I32")
            tensors[f"{name}_packed"] = packed
            tensors[f"{name}_scale"] = Sparse((rows, columns // _GROUP), fill=1)
            shape = {(0, 0): rows, (0, 1): columns}
            tensors[f"{name}_shape"] = Sparse((2,), shape, dtype="I64")
    return tensors


if __name__ == "__main__":
    kind = sys.argv[2]
    if kind == "quantised-trunk":
        write_checkpoint(Path(sys.argv[1]), quantised_trunk=True)
    else:
        write_checkpoint(Path(sys.argv[1]), acceptance=kind)
