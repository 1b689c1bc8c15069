"""The modules that tensors belong to, and the format that each is stored in."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.header import Tensor

FLOATS = ("BF16", "F16", "F32", "F64")
_MATRIX = 2
_EXPERT = re.compile(r"\bexperts\.\d+\b")


@dataclass(frozen=True)
class Module:
    """What a checkpoint has under one name, such as model.layers.0.mlp.up_proj."""

    name: str
    tensors: dict[str, Tensor]

    @property
    def format(self) -> str | None:
        """How its matrix is stored: INT4 and the like, a dtype, or None where it has no matrix."""
        for packed in ("weight_packed", "qweight"):
            if packed in self.tensors:
                return "packed"
        weight = self.tensors.get("weight")
        if weight is None or len(weight.shape) < _MATRIX:
            return None
        return weight.dtype

    @property
    def quantised(self) -> bool:
        return self.format is not None and self.format not in FLOATS

    @property
    def lacks_scale(self) -> bool:
        """Whether its matrix is quantised, and there is nothing to scale it with."""
        return self.quantised and not any("scale" in name for name in self.tensors)


def modules_of(checkpoint: Checkpoint) -> dict[str, Module]:
    """Return a checkpoint's modules by name, in the order of its shards."""
    parameters: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor, _ in checkpoint.tensors():
        module, _, parameter = name.rpartition(".")
        parameters[module][parameter] = tensor
    return {name: Module(name, tensors) for name, tensors in parameters.items()}


def inside_layer(layer: re.Pattern[str], name: str) -> str | None:
    """Return a name inside its layer, for any expert; None where it does not begin as a layer's."""
    match = layer.match(name)
    return any_expert(name[match.end() :]) if match else None


def any_expert(name: str) -> str:
    """Return a name with the numbers of experts taken out."""
    return _EXPERT.sub("experts.*", name)
