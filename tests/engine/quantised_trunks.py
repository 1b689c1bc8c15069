"""Writes tiny checkpoints with compressed-tensors itself, for each of its formats.

It runs in an engine's Python: `quantised_trunks.py FOLDER`. For each format, FOLDER/NAME/whole has
a quantised MTP layer. FOLDER/NAME/trunk has the same layer unquantised, and leaves it out.
"""

from __future__ import annotations

import copy
import json
import os
import sys
from pathlib import Path

os.environ["TORCHDYNAMO_DISABLE"] = "1"

import torch
from compressed_tensors.compressors import compress_module
from compressed_tensors.quantization import (
    QuantizationConfig,
    apply_quantization_config,
    preset_name_to_scheme,
)
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from safetensors.torch import save_file

HIDDEN, INNER = 256, 384
MTP = "model.mtp_layers.0"
INT8 = {"num_bits": 8, "type": "int", "strategy": "token", "dynamic": True, "symmetric": True}
FP8 = {**INT8, "type": "float"}
FP8_GROUPS = {**FP8, "strategy": "group", "group_size": 128}


def weights(bits, kind, strategy, *, symmetric=True, **more):
    args = {"num_bits": bits, "type": kind, "strategy": strategy, "symmetric": symmetric}
    return args | more


def preset(name):
    scheme = preset_name_to_scheme(name, ["Linear"]).model_dump(mode="json")
    return {key: scheme[key] for key in ("weights", "input_activations") if scheme[key]}


FORMATS = {
    "int4-group": {"weights": weights(4, "int", "group", group_size=128)},
    "int4-group-asymmetric": {
        "weights": weights(4, "int", "group", symmetric=False, group_size=32)
    },
    "int4-channel": {"weights": weights(4, "int", "channel")},
    "int8-group": {"weights": weights(8, "int", "group", group_size=64)},
    "int8-channel": {"weights": weights(8, "int", "channel")},
    "int8-channel-asymmetric": {"weights": weights(8, "int", "channel", symmetric=False)},
    "w8a8-int": {"weights": weights(8, "int", "channel"), "input_activations": INT8},
    "fp8-tensor": {"weights": weights(8, "float", "tensor"), "input_activations": FP8},
    "fp8-channel": {"weights": weights(8, "float", "channel"), "input_activations": FP8},
    "fp8-block": {
        "weights": weights(8, "float", "block", block_structure=[128, 128]),
        "input_activations": FP8_GROUPS,
    },
    "nvfp4": preset("NVFP4A16"),
    "mxfp4": preset("MXFP4A16"),
}


class Model(torch.nn.Module):
    """Matrices under the names of a MiMo, with the values of a seed."""

    def __init__(self, layers):
        super().__init__()
        self.names = []
        for start in (*(f"model.layers.{i}" for i in range(layers)), MTP):
            for name in ("q", "k", "v", "o"):
                self.add(f"{start}.self_attn.{name}_proj", HIDDEN, HIDDEN)
            self.add(f"{start}.mlp.gate_proj", INNER, HIDDEN)
            self.add(f"{start}.mlp.up_proj", INNER, HIDDEN)
            self.add(f"{start}.mlp.down_proj", HIDDEN, INNER)

    def add(self, name, rows, columns):
        parent = self
        *way, last = name.split(".")
        for part in way:
            if not hasattr(parent, part):
                parent.add_module(part, torch.nn.Module())
            parent = getattr(parent, part)
        linear = torch.nn.Linear(columns, rows, bias=False, dtype=torch.bfloat16)
        # A few values are far from the others, and one row is zero.
        values = torch.randn(rows, columns) * 0.02
        values[:: rows // 4, :: columns // 8] *= 20
        values[rows // 2] = 0
        linear.weight.data.copy_(values)
        parent.add_module(last, linear)
        self.names.append(name)


def ranges(weight, args):
    """The smallest and the largest value that each scale is for, found in another way."""
    rows, columns = weight.shape
    height, width = {
        "tensor": (rows, columns),
        "channel": (1, columns),
        "group": (1, args.group_size),
        "tensor_group": (1, args.group_size),
        "block": tuple(args.block_structure or (0, 0)),
    }[args.strategy]
    cuts = weight.unfold(0, height, height).unfold(1, width, width)
    return cuts.amin((-2, -1)), cuts.amax((-2, -1))


def quantise(model, group, *, power_of_two):
    config = {"config_groups": {"group_0": {"targets": ["Linear"], **group}}}
    apply_quantization_config(model, QuantizationConfig.model_validate(config))
    largest = {}
    for name in model.names:
        parent, last = name.rsplit(".", 1)
        kind = "qkv" if last[0] in "qkv" and "attn" in name else "gu" if last[0] in "gu" else last
        weight = model.get_submodule(name).weight
        largest.setdefault((parent, kind), []).append(weight.abs().max())
        model.get_submodule(name).together = (parent, kind)
    for name in model.names:
        module = model.get_submodule(name)
        args = module.quantization_scheme.weights
        lows, highs = ranges(module.weight, args)
        overall = None
        if args.strategy == "tensor_group":
            most = torch.stack(largest[module.together]).max().reshape(1)
            overall = generate_gparam(-most, most)
            module.weight_global_scale.data.copy_(overall)
        scale, zero = calculate_qparams(lows, highs, args, overall)
        if power_of_two:
            mantissa, exponent = torch.frexp(scale)
            scale = torch.exp2(torch.where(mantissa == 0.5, exponent - 1, exponent).float())
        module.weight_scale.data.copy_(scale.reshape(module.weight_scale.shape))
        module.weight_zero_point.data.copy_(zero.reshape(module.weight_zero_point.shape))
        compress_module(module)
    return module.quantization_scheme.format


def rest(layers):
    found = {"model.embed_tokens.weight": (64, HIDDEN), "lm_head.weight": (64, HIDDEN)}
    found |= {"model.norm.weight": (HIDDEN,), f"{MTP}.input_proj.weight": (HIDDEN, 2 * HIDDEN)}
    for start in (*(f"model.layers.{i}" for i in range(layers)), MTP):
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{start}.{name}.weight"] = (HIDDEN,)
    for name in ("token_layernorm", "hidden_layernorm", "final_layernorm"):
        found[f"{MTP}.{name}.weight"] = (HIDDEN,)
    return {name: torch.randn(shape).to(torch.bfloat16) for name, shape in found.items()}


def write(folder, tensors, group, ignore, kind, shards):
    folder.mkdir(parents=True)
    quantised = {
        "quant_method": "compressed-tensors",
        "format": str(getattr(kind, "value", kind)),
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], **group}},
        "ignore": ignore,
    }
    config = {
        "architectures": ["MiMoForCausalLM"],
        "model_type": "qwen2",
        "vocab_size": 64,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 2,
        "num_nextn_predict_layers": 1,
        "quantization_config": quantised,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    # A matrix of compressed-tensors may be a view of something larger.
    tensors = {name: tensor.detach().contiguous() for name, tensor in tensors.items()}
    if not shards:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
        return
    # The second shard has one layer of the trunk, and the MTP layer.
    first = {n: t for n, t in tensors.items() if ".layers.1." not in n and MTP not in n}
    parts = {"a.safetensors": first}
    parts["b.safetensors"] = {n: t for n, t in tensors.items() if n not in first}
    for file, part in parts.items():
        save_file(part, folder / file, metadata={"format": "pt"})
    weight_map = {name: file for file, part in parts.items() for name in part}
    index = {"metadata": {"total_size": 1}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def as_deepseek(folder, floats, *, scaled):
    config = json.loads((folder / "config.json").read_text())
    whole = folder.name == "whole"
    config["quantization_config"] = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": [128, 128],
        "modules_to_not_convert": [] if whole else [n[:-7] for n in floats if MTP in n],
    } | ({"scale_fmt": "ue8m0"} if scaled else {})
    (folder / "config.json").write_text(json.dumps(config))


def main(folder):
    torch.manual_seed(7)
    # As DeepSeek writes them: scales in float32, and those of V3.1 powers of two.
    names = [*FORMATS, "deepseek-v3", "deepseek-v3.1"]
    plain = Model(2)
    others = rest(2)
    floats = {f"{n}.weight": plain.get_submodule(n).weight.detach().clone() for n in plain.names}
    for number, name in enumerate(names):
        model = copy.deepcopy(plain)
        own = FORMATS.get(name)
        group = own or {"weights": FORMATS["fp8-block"]["weights"]}
        kind = quantise(model if own else model.float(), group, power_of_two=name == names[-1])
        made = dict(model.state_dict())
        if not own:
            made = {n.replace("weight_scale", "weight_scale_inv"): t for n, t in made.items()}
        whole = others | made
        trunk = {n: t for n, t in whole.items() if MTP not in n or n in others}
        trunk |= {n: t for n, t in floats.items() if MTP in n}
        for form, tensors, ignore in (
            ("whole", whole, ["lm_head"]),
            ("trunk", trunk, ["lm_head", r"re:.*mtp_layers\.", r"re:model\.layers\.2\."]),
        ):
            write(folder / name / form, tensors, group, ignore, kind, shards=number % 2)
            if not own:
                as_deepseek(folder / name / form, floats, scaled=name == names[-1])
    print(json.dumps(names))  # noqa: T201 - the answer


if __name__ == "__main__":
    main(Path(sys.argv[1]))
