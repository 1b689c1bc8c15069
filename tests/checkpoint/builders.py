"""Checkpoints of any size, made of holes where nobody looks at the values."""

from __future__ import annotations

import json
import math

from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.header import BITS, Tensor, read_shard, write_header
from vpatch.checkpoint.inspection import inspect

HIDDEN = 8
# The most memory that a process had since it began its program, in bytes: ru_maxrss has that of
# the process which started it, too.
PEAK = """
def peak():
    from pathlib import Path
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))
"""
NORM = ("BF16", (HIDDEN,))


def matrix(dtype="BF16", rows=HIDDEN, columns=HIDDEN):
    return (dtype, (rows, columns))


def write_shard(path, tensors, values=None):
    """Write a safetensors file. `tensors`: name -> (dtype, shape); what has no value is a hole."""
    made, end = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = math.prod(shape) * BITS[dtype] // 8
        made[name] = Tensor(dtype, shape, end, end + size)
        end += size
    header = write_header(made, {"format": "pt"})
    with path.open("wb") as file:
        file.write(header)
        file.truncate(len(header) + end)
        for name, value in (values or {}).items():
            assert len(value) == made[name].size
            file.seek(len(header) + made[name].begin)
            file.write(value)
    return path


def read(path):
    """Read the header of a safetensors file."""
    return read_shard(FolderFiles(path.parent), path.name)


def look_at(folder):
    """Inspect a checkpoint in a folder."""
    return inspect(FolderFiles(folder))


def write_checkpoint(folder, config, shards, *, index=None, tokenizer=None, values=None):
    """Write a folder. `shards`: one dict of tensors, or file -> dict of tensors, with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    if tokenizer:
        (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    if not all(name.endswith(".safetensors") for name in shards):
        shards = {"model.safetensors": shards}
        index = False if index is None else index
    for file, tensors in shards.items():
        own = {name: value for name, value in (values or {}).items() if name in tensors}
        write_shard(folder / file, tensors, own)
    if index is not False:
        weights = {name: file for file, tensors in shards.items() for name in tensors}
        document = {"metadata": {"total_size": 0}, "weight_map": weights}
        (folder / "model.safetensors.index.json").write_text(json.dumps(document))
    return folder


def dense(prefix, dtype="BF16"):
    """A decoder layer with attention and an MLP."""
    found = {f"{prefix}.{n}layernorm.weight": NORM for n in ("input_", "post_attention_")}
    for name in ("q", "k", "v", "o"):
        found[f"{prefix}.self_attn.{name}_proj.weight"] = matrix(dtype)
    for name in ("gate", "up", "down"):
        found[f"{prefix}.mlp.{name}_proj.weight"] = matrix(dtype)
    return found


def trunk(layers=2, dtype="BF16", prefix="model.layers"):
    found = {"model.embed_tokens.weight": matrix(), "lm_head.weight": matrix()}
    found["model.norm.weight"] = NORM
    for i in range(layers):
        found |= dense(f"{prefix}.{i}", dtype)
    return found


def mimo_head(number=0, dtype="BF16"):
    start = f"model.mtp_layers.{number}"
    norms = ("token_layernorm", "hidden_layernorm", "final_layernorm")
    found = {f"{start}.{name}.weight": NORM for name in norms}
    found[f"{start}.input_proj.weight"] = matrix(dtype, HIDDEN, 2 * HIDDEN)
    return found | dense(start, dtype)


def deepseek_head(number, dtype="BF16"):
    start = f"model.layers.{number}"
    norms = ("enorm", "hnorm", "shared_head.norm")
    found = {f"{start}.{name}.weight": NORM for name in norms}
    found[f"{start}.eh_proj.weight"] = matrix(dtype, HIDDEN, 2 * HIDDEN)
    return found | dense(start, dtype)


def qwen_head(dtype="BF16"):
    norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
    found = {f"mtp.{name}.weight": NORM for name in norms}
    found["mtp.fc.weight"] = matrix(dtype, HIDDEN, 2 * HIDDEN)
    return found | dense("mtp.layers.0", dtype)


def ernie_head():
    found = {f"model.mtp_{name}.0.weight": NORM for name in ("emb_norm", "hidden_norm")}
    found["model.mtp_linear_proj.0.weight"] = matrix("BF16", HIDDEN, 2 * HIDDEN)
    return found | dense("model.mtp_block.0")


def config_of(architecture, layers=2, **keys):
    sizes = {"hidden_size": HIDDEN, "num_hidden_layers": layers, "vocab_size": HIDDEN}
    return {"architectures": [architecture]} | sizes | keys


def mimo(folder, *, declared=1, head=True, **keys):
    """A MiMo with one MTP layer, or without."""
    count = {} if declared is None else {"num_nextn_predict_layers": declared}
    config = config_of("MiMoForCausalLM", **count, **keys)
    return write_checkpoint(folder, config, trunk() | (mimo_head() if head else {}))


def v4_attention(start, dtype):
    names = ("wq_a", "wq_b", "wkv", "wo_a", "wo_b")
    found = {f"{start}.attn.{name}.weight": matrix(dtype) for name in names}
    scale = {f"{start}.attn.{n}.weight_scale": ("F32", (1, 1)) for n in names}
    return found | (scale if dtype.startswith("F8") else {})


def v4_layer(start, dtype, experts="BF16", *, compressor=False):
    found = {f"{start}.{name}.weight": NORM for name in ("attn_norm", "ffn_norm")}
    found |= v4_attention(start, dtype)
    if compressor:
        for name in ("wkv", "wgate"):
            found[f"{start}.attn.compressor.{name}.weight"] = matrix()
    for who in ("shared_experts", "experts.0", "experts.1"):
        for part in ("w1", "w2", "w3"):
            found[f"{start}.ffn.{who}.{part}.weight"] = matrix(experts)
    return found


def v4(folder, ignore, *, layers=2, **keys):
    """A DeepSeek-V4 whose attention is FP8, and whose MTP layer is BF16."""
    tensors = {"embed.weight": matrix(), "head.weight": matrix(), "norm.weight": NORM}
    for i in range(layers):
        tensors |= v4_layer(f"layers.{i}", "F8_E4M3", compressor=i > 0)
    tensors |= v4_layer("mtp.0", "BF16")
    for name in ("enorm", "hnorm", "norm"):
        tensors[f"mtp.0.{name}.weight"] = NORM
    for name in ("e_proj", "h_proj"):
        tensors[f"mtp.0.{name}.weight"] = matrix()
    quantised = {
        "quant_method": "compressed-tensors",
        "format": "float-quantized",
        "config_groups": {
            "attention": {
                "targets": ["Linear"],
                "weights": {
                    "num_bits": 8,
                    "type": "float",
                    "strategy": "block",
                    "block_structure": [128, 128],
                },
            }
        },
        "ignore": ignore,
    }
    config = config_of("DeepseekV4ForCausalLM", layers, num_nextn_predict_layers=1)
    return write_checkpoint(folder, config | {"quantization_config": quantised} | keys, tensors)


def many_shards(folder, shards=31):
    """Write a checkpoint of 150 GB of holes, in matrices of half a gigabyte."""
    parts = {
        f"model-{n}.safetensors": {
            f"model.layers.{n}.{name}.weight": matrix(rows=8192, columns=32768)
            for name in "abcdefghi"
        }
        for n in range(shards)
    }
    return write_checkpoint(folder, config_of("LlamaForCausalLM"), parts)


def large_v4(folder, layers=43, experts=256):
    """Write a DeepSeek-V4 of 100,000 tensors and 77 GB of holes, quantised but for its MTP layer.

    What is not quantised is named as it is called on disk.
    """
    shards = {"model-00.safetensors": {"embed.weight": matrix(), "head.weight": matrix()}}
    parts = [f"ffn.experts.{i}.w{n}" for i in range(experts) for n in (1, 2, 3)]
    for layer in range(layers):
        start = f"layers.{layer}"
        tensors = v4_attention(start, "F8_E4M3")
        for name in ("wkv", "wgate"):
            tensors[f"{start}.attn.compressor.{name}.weight"] = matrix("BF16", 1024, 4096)
        for part in parts:
            tensors[f"{start}.{part}.weight_packed"] = ("I32", (1024, 512))
            tensors[f"{start}.{part}.weight_scale"] = ("BF16", (1024, 32))
            tensors[f"{start}.{part}.weight_shape"] = ("I64", (2,))
        shards[f"model-{layer + 1:02}.safetensors"] = tensors
    head = v4_attention("mtp.0", "BF16")
    head |= {f"mtp.0.{part}.weight": matrix("BF16", 1024, 4096) for part in parts}
    head |= {f"mtp.0.{name}.weight": matrix("BF16", 4096, 4096) for name in ("e_proj", "h_proj")}
    head |= {f"mtp.0.{name}.weight": NORM for name in ("enorm", "hnorm", "norm")}
    shards["model-mtp.safetensors"] = head
    group = {"num_bits": 4, "type": "int", "strategy": "group", "group_size": 128}
    block = {"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}
    quantised = {
        "quant_method": "compressed-tensors",
        "config_groups": {
            "experts": {"targets": ["Linear"], "weights": group},
            "attention": {"targets": [r"re:.*\.attn\."], "weights": block},
        },
        "ignore": ["lm_head", r"re:.*\.compressor\.(wkv|wgate)$", r"re:mtp\.0\."],
    }
    config = config_of("DeepseekV4ForCausalLM", layers, num_nextn_predict_layers=1)
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast"}
    whole = config | {"quantization_config": quantised}
    return write_checkpoint(folder, whole, shards, tokenizer=tokenizer)
