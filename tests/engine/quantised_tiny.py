"""Gives the tiny MTP checkpoint a quantised trunk, and drafts that depend on the MTP layer's MLP.

It runs in an engine's Python: `quantised_tiny.py FORMAT FOLDER`. The input projection marks a token
at a place that lm_head takes for another one. Only the MLP, whose three matrices quantise-mtp is to
quantise, makes the right draft of that: with another MLP, no draft is accepted.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from quantised_trunks import FORMATS, quantise
from safetensors.torch import load_file, save_file
from tiny_mtp import write_checkpoint
from tiny_tokens import VOCABULARY, successor

MTP = "model.mtp_layers.0"
# One for each unit of the MLP. Words of the prompt and of the answer are among them.
TOKENS = range(256)
# So far from a token is the place that marks it.
SHIFT = 256


class Matrices(torch.nn.Module):
    """The matrices of the trunk's layer."""

    def __init__(self, tensors):
        super().__init__()
        self.names = [
            name.removesuffix(".weight")
            for name in tensors
            if name.startswith("model.layers.0.") and name.endswith("_proj.weight")
        ]
        for name in self.names:
            parent = self
            *way, last = name.split(".")
            for part in way:
                if not hasattr(parent, part):
                    parent.add_module(part, torch.nn.Module())
                parent = getattr(parent, part)
            rows, columns = tensors[f"{name}.weight"].shape
            linear = torch.nn.Linear(columns, rows, bias=False, dtype=torch.bfloat16)
            linear.weight.data.copy_(tensors[f"{name}.weight"])
            parent.add_module(last, linear)


def drafting(tensors):
    """Return the MTP layer's projection and MLP, with a unit of the MLP for each token."""
    hidden = tensors["model.norm.weight"].shape[0]
    projection = torch.zeros(hidden, 2 * hidden)
    reading = torch.zeros(len(TOKENS), hidden)
    drafted = torch.zeros(hidden, len(TOKENS))
    for token in TOKENS:
        projection[SHIFT + token, hidden + token] = 1
        reading[token, SHIFT + token] = 1
        drafted[VOCABULARY + successor(token), token] = 1
    found = {"input_proj": projection, "mlp.gate_proj": reading, "mlp.up_proj": reading.clone()}
    found["mlp.down_proj"] = drafted
    return {f"{MTP}.{name}.weight": made.to(torch.bfloat16) for name, made in found.items()}


def main(name, folder):
    write_checkpoint(folder)
    tensors = load_file(folder / "model.safetensors") | drafting(
        load_file(folder / "model.safetensors")
    )
    model = Matrices(tensors)
    kind = quantise(model, FORMATS[name], power_of_two=False)
    kept = {n: t for n, t in tensors.items() if n.removesuffix(".weight") not in model.names}
    whole = kept | {n: t.detach().contiguous() for n, t in model.state_dict().items()}
    save_file(whole, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {
        "quant_method": "compressed-tensors",
        "format": str(getattr(kind, "value", kind)),
        "quantization_status": "compressed",
        "config_groups": {"group_0": {"targets": ["Linear"], **FORMATS[name]}},
        "ignore": ["lm_head", r"re:.*mtp_layers\.", r"re:model\.layers\.1\."],
    }
    (folder / "config.json").write_text(json.dumps(config))
    print(folder)  # noqa: T201 - the answer


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
