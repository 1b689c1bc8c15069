"""The format of a trunk, as compressed-tensors takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from pydantic import JsonValue

    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.quantisation import Quantisation

_FP8 = ("fp8", "deepseek_v4_fp8")


@dataclass(frozen=True)
class TrunkFormat:
    """`groups` are as in compressed-tensors' config; `kind` is its format, None where they differ.

    `renamed`: names that the trunk has for tensors of compressed-tensors. `power_of_two`: its
    scales are.
    """

    groups: dict[str, dict[str, JsonValue]]
    kind: str | None
    renamed: dict[str, str]
    power_of_two: bool = False


def trunk_format(inspection: Inspection) -> TrunkFormat:
    """Read the format of a checkpoint's trunk.

    Raises:
        UsageError: it is not quantised, or compressed-tensors cannot write its format.
    """
    quantisation = inspection.quantisation
    folder = inspection.checkpoint.folder
    if quantisation is None:
        raise UsageError(
            "its trunk is not quantised: config.json has no quantization_config",
            where=str(folder),
            hint="name a checkpoint with a quantised trunk",
            code="checkpoint.unsupported-format",
        )
    trunk = None
    if quantisation.method == "compressed-tensors":
        trunk = _compressed_tensors(quantisation, str(folder))
    elif quantisation.method in _FP8:
        trunk = _fp8(inspection, quantisation, str(folder))
    if trunk is None:
        raise _refusal(
            str(folder),
            f"its trunk is quantised by {quantisation.method}, "
            "which compressed-tensors does not write",
        )
    return trunk


def _compressed_tensors(quantisation: Quantisation, folder: str) -> TrunkFormat:
    config = quantisation.config
    listed = config.get("config_groups")
    entries = listed if isinstance(listed, dict) else {"": listed}
    groups = {name: entry for name, entry in entries.items() if isinstance(entry, dict)}
    if groups.keys() != entries.keys():
        raise _refusal(folder, "its config_groups are not as compressed-tensors writes them")
    for key in ("transform_config", "sparsity_config"):
        value = config.get(key)
        if value and not (isinstance(value, dict) and value.get("format") == "dense"):
            raise _refusal(folder, f"its trunk was changed in another way as well: {key}")
    quantised = {name: group for name, group in groups.items() if group.get("weights")}
    for name, group in quantised.items():
        for part in ("input_activations", "output_activations"):
            activations = group.get(part)
            if isinstance(activations, dict) and activations.get("dynamic") is not True:
                raise _refusal(
                    folder,
                    f"{name} has fixed scales for {part}, which only a run on data can find",
                )
        match group["weights"]:
            case {"actorder": "group"}:
                raise _refusal(
                    folder, f"{name} orders columns by activations, which a run on data finds"
                )
    kind = config.get("format")
    mixed = kind in {None, "mixed-precision", "dense"}
    return TrunkFormat(quantised, None if mixed else str(kind), {})


def _fp8(inspection: Inspection, quantisation: Quantisation, folder: str) -> TrunkFormat:
    config = quantisation.config
    if config.get("activation_scheme", "dynamic") != "dynamic":
        raise _refusal(
            folder, "its activations have fixed scales, which only a run on data can find"
        )
    if config.get("expert_dtype", "fp8") != "fp8":
        raise _refusal(folder, f"its experts are {config['expert_dtype']}, and its method is fp8")
    weights: dict[str, JsonValue] = {"num_bits": 8, "type": "float", "symmetric": True}
    match config.get("weight_block_size"):
        case [int(rows), int(columns)]:
            weights |= {"strategy": "block", "block_structure": [rows, columns]}
        case _:
            weights["strategy"] = "tensor"
    scales = {
        name
        for module in inspection.modules.values()
        if module.quantised
        for name in module.tensors
        if "scale" in name and name != "input_scale"
    }
    if len(scales) != 1:
        raise _refusal(
            folder, f"its scales have several names: {', '.join(sorted(scales)) or 'none'}"
        )
    return TrunkFormat(
        {"fp8": {"targets": ["Linear"], "weights": weights}},
        "naive-quantized",
        {"weight_scale": scales.pop()},
        config.get("scale_fmt") == "ue8m0",
    )


def _refusal(folder: str, what: str) -> UsageError:
    return UsageError(
        what,
        where=folder,
        hint="keep the MTP layers unquantised, and leave them out: see ignore-names",
        code="checkpoint.unsupported-format",
    )
