"""A tiny checkpoint in the shape of a quantised DeepSeek-V4-Flash that kept its BF16 MTP block.

It runs inside an engine's Python, where vpatch is not: only torch and safetensors are imported.

Its format is that of canada-quant/DeepSeek-V4-Flash-W4A16-FP8-MTP, as its model card has it: one
compressed-tensors config that mixes routed experts in INT4 (groups of 128) with attention in FP8
(blocks of 128 x 128). Shared experts, embeddings and the whole MTP block are BF16. Two things
differ, as the loader of vLLM 0.23.0 has them: compressors and the indexer's weights_proj are BF16
too, for it quantises neither, and targets and ignored layers are given by its own fused names, for
the model declares no packed_modules_mapping. `Linear` is a target, so that a layer without a name
is taken for INT4; before mtp-proj-prefix, e_proj and h_proj have none. wo_a is there in both forms
that o-proj-bf16-fallback is for: FP8 with a scale that is called weight_scale in the trunk, and
BF16 in the MTP block.

Embeddings are orthogonal, and all that layers add to them is small noise: lm_head makes of an
embedding the token's successor, by a margin that no order of adding up moves. e_proj passes on the
embedding of the token just sampled, so that the MTP block drafts its successor, and every draft is
right. So the output does not depend on how numbers are added up, nor much on what an attention or
an expert returns: this is for whether everything is loaded and runs, and not for whether a kernel
is right.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from tiny_formats import BLOCK, Formats, Tensors, ones, under
from tiny_tokenizer import write_tokenizer
from tiny_tokens import BYTES, VOCABULARY, successor, word

__all__ = ["write_checkpoint"]

# The kernel that joins one mHC block to the next takes 8 parts of a row, by 256 threads each, where
# there are fewer than 8 tokens; it silently leaves what is not a multiple of 2048 unwritten.
_HIDDEN = 2048
# One layer of each kind of attention, and last the MTP block's: a window alone, as 0 means.
_RATIOS = (0, 4, 128, 0)
_LAYERS = len(_RATIOS) - 1
_HASH_LAYERS = 1
_STREAMS = 4
# 512 = 448 + 64 is what FlashMLA's FP8 rows hold; heads are padded to 64.
_HEADS, _HEAD, _ROPE = 16, 512, 64
_GROUPS, _O_RANK = 2, 256
_Q_RANK = 256
# DeepGEMM has logits for 32 or 64 heads on Hopper; persistent_topk is for 512, 1024 and 2048.
_INDEX_HEADS, _INDEX_HEAD, _INDEX_TOPK = 64, 128, 512
# A power of two, as the router's kernel has it.
_EXPERTS, _CHOSEN, _INTERMEDIATE = 8, 2, 256
_LENGTH = 8192
_BOS, _EOS = 254, 255
_LOGIT = 32.0
# How large the output of an attention or of experts is, beside an embedding.
_NOISE = 0.02


def write_checkpoint(folder: Path) -> Path:
    """Write config.json, model.safetensors (140 MB) and a tokenizer; return the folder.

    The names of the tensors are those of DeepSeek's own checkpoints, with compressed-tensors'
    suffixes. The values are the same for one torch and one type of CPU.
    """
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(_config(), indent=1), encoding="utf-8")
    words = [word(token) for token in range(BYTES)]
    kind = "PreTrainedTokenizerFast"
    write_tokenizer(folder, words, bos=_BOS, eos=_EOS, tokenizer_class=kind, length=_LENGTH)
    tensors = {name: tensor.contiguous() for name, tensor in _tensors().items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def _config() -> dict[str, object]:
    yarn = {"rope_type": "yarn", "type": "yarn", "factor": 4, "beta_fast": 32, "beta_slow": 1}
    return {
        "architectures": ["DeepseekV4ForCausalLM"],
        "model_type": "deepseek_v4",
        "torch_dtype": "bfloat16",
        "vocab_size": VOCABULARY,
        "hidden_size": _HIDDEN,
        "num_hidden_layers": _LAYERS,
        "num_nextn_predict_layers": 1,
        "compress_ratios": list(_RATIOS),
        "num_hash_layers": _HASH_LAYERS,
        "hc_mult": _STREAMS,
        "hc_sinkhorn_iters": 20,
        "hc_eps": 1e-6,
        "num_attention_heads": _HEADS,
        "num_key_value_heads": 1,
        "head_dim": _HEAD,
        "qk_rope_head_dim": _ROPE,
        "q_lora_rank": _Q_RANK,
        "o_groups": _GROUPS,
        "o_lora_rank": _O_RANK,
        "sliding_window": 128,
        "index_n_heads": _INDEX_HEADS,
        "index_head_dim": _INDEX_HEAD,
        "index_topk": _INDEX_TOPK,
        "n_routed_experts": _EXPERTS,
        "num_experts_per_tok": _CHOSEN,
        "n_shared_experts": 1,
        "moe_intermediate_size": _INTERMEDIATE,
        "scoring_func": "sqrtsoftplus",
        "topk_method": "noaux_tc",
        "norm_topk_prob": True,
        "routed_scaling_factor": 1.5,
        "swiglu_limit": 10.0,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": _LENGTH,
        "rope_theta": 10000.0,
        "compress_rope_theta": 160000.0,
        # Without scaling vLLM makes a table of cosines in BF16, and the kernels want FP32.
        "rope_scaling": yarn | {"original_max_position_embeddings": _LENGTH // 4},
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": _BOS,
        "eos_token_id": _EOS,
        "quantization_config": _quantization(),
    }


def _quantization() -> dict[str, object]:
    int4 = {"num_bits": 4, "type": "int", "symmetric": True, "dynamic": False}
    fp8 = {"num_bits": 8, "type": "float", "symmetric": True}
    block = {"strategy": "block", "block_structure": [BLOCK, BLOCK], "dynamic": False}
    token = {"strategy": "group", "group_size": BLOCK, "dynamic": True}
    attention = r"re:.*\.attn\.(fused_wqa_wkv|wq_a|wkv|wq_b|wo_a|wo_b|indexer\.wq_b)$"
    return {
        "quant_method": "compressed-tensors",
        "format": "mixed-precision",
        "quantization_status": "compressed",
        "config_groups": {
            "experts": {
                "targets": ["Linear"],
                "format": "pack-quantized",
                "weights": int4 | {"strategy": "group", "group_size": BLOCK},
            },
            "attention": {
                "targets": [attention],
                "format": "float-quantized",
                "weights": fp8 | block,
                "input_activations": fp8 | token,
            },
        },
        # vLLM counts the MTP block as one more layer.
        "ignore": ["lm_head", r"re:.*\.shared_experts\.", rf"re:model\.layers\.{_LAYERS}\."],
    }


def _tensors() -> Tensors:
    make = Formats(seed=4)
    embedding = _orthogonal(make).T * _HIDDEN**0.5
    head = torch.zeros(VOCABULARY, _HIDDEN)
    for token in range(VOCABULARY):
        head[successor(token)] += embedding[token] * _LOGIT / _HIDDEN
    shared = {"embed.weight": embedding, "head.weight": head}
    # Both are in real checkpoints too, once more; vLLM reads them and then shares the trunk's.
    shared |= {"mtp.0.emb.tok_emb.weight": embedding, "mtp.0.head.weight": head}
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in shared.items()}
    tensors |= {"norm.weight": ones(_HIDDEN)} | _collapse(make, "hc_head")
    for i, ratio in enumerate(_RATIOS[:_LAYERS]):
        layer = _attention(make, ratio, quantised=True) | _experts(make, quantised=True)
        if i < _HASH_LAYERS:
            table = make.normal(VOCABULARY, _EXPERTS).argsort()[:, :_CHOSEN]
            layer["ffn.gate.tid2eid"] = table.to(torch.int32)
        else:
            layer["ffn.gate.bias"] = make.normal(_EXPERTS)
        tensors |= under(f"layers.{i}", layer)
    return tensors | under("mtp.0", _mtp(make))


def _orthogonal(make: Formats) -> torch.Tensor:
    """Return columns that are orthogonal, with the same bits for any number of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        return torch.linalg.qr(make.normal(_HIDDEN, VOCABULARY))[0]
    finally:
        torch.set_num_threads(threads)


def _mtp(make: Formats) -> Tensors:
    tensors = _attention(make, _RATIOS[-1], quantised=False) | _experts(make, quantised=False)
    tensors["ffn.gate.bias"] = make.normal(_EXPERTS)
    for name in ("enorm", "hnorm", "norm"):
        tensors[f"{name}.weight"] = ones(_HIDDEN)
    tensors["e_proj.weight"] = torch.eye(_HIDDEN, dtype=torch.bfloat16)
    tensors |= _collapse(make, "hc_head")
    return tensors | under("h_proj", make.bf16(_HIDDEN, _HIDDEN, _NOISE))


def _attention(make: Formats, ratio: int, *, quantised: bool) -> Tensors:
    """Return an attention with its norm and mHC. `ratio`: tokens in a compressed row."""
    linear = make.fp8 if quantised else make.bf16
    tensors = _mixing(make, "attn") | {
        "attn.attn_sink": torch.zeros(_HEADS),
        "attn.q_norm.weight": ones(_Q_RANK),
        "attn.kv_norm.weight": ones(_HEAD),
    }
    tensors |= under("attn.wq_a", linear(_Q_RANK, _HIDDEN))
    tensors |= under("attn.wq_b", linear(_HEADS * _HEAD, _Q_RANK))
    tensors |= under("attn.wkv", linear(_HEAD, _HIDDEN))
    tensors |= under("attn.wo_a", linear(_GROUPS * _O_RANK, _HEADS * _HEAD // _GROUPS))
    tensors |= under("attn.wo_b", linear(_HIDDEN, _GROUPS * _O_RANK, _NOISE))
    if ratio:
        tensors |= under("attn.compressor", _compressor(make, _HEAD, ratio))
    if ratio == 4:  # noqa: PLR2004 - rows of 4 tokens are many, and an indexer chooses
        index = _compressor(make, _INDEX_HEAD, ratio)
        tensors |= under("attn.indexer.compressor", index)
        tensors |= under("attn.indexer.wq_b", linear(_INDEX_HEADS * _INDEX_HEAD, _Q_RANK))
        tensors |= under("attn.indexer.weights_proj", make.bf16(_INDEX_HEADS, _HIDDEN))
    return tensors


def _compressor(make: Formats, head: int, ratio: int) -> Tensors:
    width = head * (2 if ratio == 4 else 1)  # noqa: PLR2004 - rows of 4 overlap
    tensors = {"ape": make.normal(ratio, width), "norm.weight": ones(head)}
    for name in ("wkv", "wgate"):
        tensors |= under(name, make.bf16(width, _HIDDEN))
    return tensors


def _experts(make: Formats, *, quantised: bool) -> Tensors:
    tensors = _mixing(make, "ffn") | under("ffn.gate", make.bf16(_EXPERTS, _HIDDEN))
    routed = make.int4 if quantised else make.bf16
    experts = [(f"experts.{i}", routed) for i in range(_EXPERTS)]
    for name, linear in (("shared_experts", make.bf16), *experts):
        for part in ("w1", "w3"):
            tensors |= under(f"ffn.{name}.{part}", linear(_INTERMEDIATE, _HIDDEN))
        tensors |= under(f"ffn.{name}.w2", linear(_HIDDEN, _INTERMEDIATE, _NOISE))
    return tensors


def _mixing(make: Formats, part: str) -> Tensors:
    """Return the norm before an attention or experts, and how mHC mixes streams around it."""
    mixes = (2 + _STREAMS) * _STREAMS
    return {
        f"{part}_norm.weight": ones(_HIDDEN),
        f"hc_{part}_fn": make.normal(mixes, _STREAMS * _HIDDEN) * _NOISE,
        f"hc_{part}_base": torch.zeros(mixes),
        f"hc_{part}_scale": torch.ones(3),
    }


def _collapse(make: Formats, name: str) -> Tensors:
    """Return how mHC makes one stream of all."""
    return {
        f"{name}_fn": make.normal(_STREAMS, _STREAMS * _HIDDEN) * _NOISE,
        f"{name}_base": torch.zeros(_STREAMS),
        f"{name}_scale": torch.ones(1),
    }


if __name__ == "__main__":
    write_checkpoint(Path(sys.argv[1]))
