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
LINEAR_LAYERS = (
    *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"),
    *("q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj"),
)
"""Layers that models build by the quantisation config, by the last part of their names."""
SCALES = (
    *("input_scale", "weight_scale", "weight_scale_2", "weight_scale_inv"),
    *("weight_global_scale", "input_global_scale"),
)
"""What a quantised module has besides its matrix, and an unquantised one has not."""
ADAPTER_PATTERN = r"^base_model\.model\.|\.(?:lora_[AB]|lora_embedding_[AB]|base_layer)(?:\.|$)"
ADAPTER = re.compile(ADAPTER_PATTERN)
"""Names that PEFT gives to the tensors of an adapter, and of a model that has one."""
_MATRIX = 2
_EXPERT = re.compile(r"\bexperts\.\d+\b")
# All experts of a layer in one tensor, whose name ends with the matrix and not with `weight`.
_TOGETHER = re.compile(
    r"(?P<module>(?:.*\.)?experts\.(?:gate_up_proj|gate_proj|up_proj|down_proj|w13|w1|w2|w3))"
    r"(?:_(?P<parameter>\w+))?"
)
_ROUTED = re.compile(r"(?P<experts>(?:.*\.)?experts)\.\d+\.")
# bitsandbytes says how to read a matrix in tensors that are called after the matrix.
_OF_MATRIX = ".weight."


@dataclass(frozen=True)
class Module:
    """What a checkpoint has under one name, such as model.layers.0.mlp.up_proj."""

    name: str
    tensors: dict[str, Tensor]

    @property
    def format(self) -> str | None:
        """How its matrix is stored: INT4 and the like, a dtype, or None where it has no matrix."""
        for packed in ("weight_packed", "qweight", "weight_blocks"):
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
        return self.quantised and not any(
            sign in name for name in self.tensors for sign in ("scale", "absmax", "SCB")
        )


def modules_of(checkpoint: Checkpoint) -> dict[str, Module]:
    """Return a checkpoint's modules by name, in the order of its shards."""
    parameters: dict[str, dict[str, Tensor]] = defaultdict(dict)
    for name, tensor, _ in checkpoint.tensors():
        module, parameter = split_name(name)
        parameters[module][parameter] = tensor
    return {name: Module(name, tensors) for name, tensors in parameters.items()}


def split_name(name: str) -> tuple[str, str]:
    """Return the module that a tensor belongs to, and what the tensor is of it.

    A matrix that has all experts of a layer is a module too, and the tensor is its `weight`.
    """
    if together := _TOGETHER.fullmatch(name):
        parameter = together["parameter"]
        return together["module"], f"weight_{parameter}" if parameter else "weight"
    module, of_matrix, parameter = name.partition(_OF_MATRIX)
    if of_matrix:
        return module, f"weight.{parameter}"
    module, _, parameter = name.rpartition(".")
    return module, parameter


def experts_of(name: str) -> str | None:
    """Return the layer of experts that a matrix belongs to; None for a matrix of another layer."""
    routed = _ROUTED.match(name)
    if routed is not None:
        return routed["experts"]
    return name.rpartition(".")[0] if _TOGETHER.fullmatch(name) else None


def inside_layer(layer: re.Pattern[str], name: str) -> str | None:
    """Return a name inside its layer, for any expert; None where it does not begin as a layer's."""
    match = layer.match(name)
    return any_expert(name[match.end() :]) if match else None


def any_expert(name: str) -> str:
    """Return a name with the numbers of experts taken out."""
    return _EXPERT.sub("experts.*", name)
