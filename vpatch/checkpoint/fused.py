"""The names by which vLLM knows modules when it decides how each is quantised.

Data, read in vLLM 0.20.0 to 0.33.0. Several matrices of a checkpoint become one module, with a name
of its own, as the model's stacked_params_mapping says. A model that declares packed_modules_mapping
has such a module matched by the names of its parts too; one that does not, by its own name alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.modules import experts_of
from vpatch.checkpoint.mtp import layer_of
from vpatch.checkpoint.schemes import DEEPSEEK_V4, STEP

if TYPE_CHECKING:
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.mtp import Mtp


@dataclass(frozen=True)
class Fused:
    """A module that vLLM makes of several.

    `declared` is the first release whose packed_modules_mapping has it; None if none has.
    """

    name: str
    parts: tuple[str, ...]
    source: str
    declared: str | None = "0.20.0"


@dataclass(frozen=True)
class Naming:
    """How an architecture's names on disk become those of vLLM.

    `prefixes` is the beginning of its hf_to_vllm_mapper, which vLLM applies to names in lists as
    well, though not to patterns. `renamed` are last parts of names, in a module.
    """

    prefixes: tuple[tuple[str, str], ...] = ()
    fused: tuple[Fused, ...] = ()
    renamed: tuple[tuple[re.Pattern[str], str], ...] = ()


@dataclass(frozen=True)
class RunTime:
    """A module as vLLM names it. `parts` are the names of what it is made of, as vLLM spells them.

    `disk` are the modules of the checkpoint that it is made of, in the same order.
    """

    name: str
    disk: tuple[str, ...]
    parts: tuple[str, ...] = ()
    declared: str | None = None


_MODELS = "model_executor/models"
_COMMON = (
    Fused("qkv_proj", ("q_proj", "k_proj", "v_proj"), f"{_MODELS}/qwen2.py"),
    Fused("gate_up_proj", ("gate_proj", "up_proj"), f"{_MODELS}/qwen2.py"),
    # Set in __init__, where the config has a q_lora_rank.
    Fused("fused_qkv_a_proj", ("q_a_proj", "kv_a_proj_with_mqa"), f"{_MODELS}/deepseek_v2.py"),
)
_GATED = (
    *_COMMON,
    Fused("in_proj_qkvz", ("in_proj_qkv", "in_proj_z"), f"{_MODELS}/qwen3_5.py"),
    Fused("in_proj_ba", ("in_proj_b", "in_proj_a"), f"{_MODELS}/qwen3_5.py"),
)
_V4 = "models/deepseek_v4/nvidia/model.py"
_DEEPSEEK_V4 = Naming(
    prefixes=(
        ("layers.", "model.layers."),
        ("embed.", "model.embed."),
        ("norm.", "model.norm."),
        ("hc_head", "model.hc_head"),
        ("mtp.", "model.mtp."),
    ),
    fused=(
        Fused("fused_wqa_wkv", ("wq_a", "wkv"), _V4, declared="0.29.0"),
        Fused("fused_wkv_wgate", ("wkv", "wgate"), _V4, declared="0.29.0"),
        Fused("gate_up_proj", ("w1", "w3"), _V4, declared="0.29.0"),
    ),
    renamed=(
        (re.compile(r"\.shared_experts\.w2$"), ".shared_experts.down_proj"),
        # A layer of experts is matched by these names, whatever the checkpoint calls its matrices.
        (re.compile(r"\.experts\.(\d+)\.w1$"), r".experts.\1.gate_proj"),
        (re.compile(r"\.experts\.(\d+)\.w3$"), r".experts.\1.up_proj"),
        (re.compile(r"\.experts\.(\d+)\.w2$"), r".experts.\1.down_proj"),
        (re.compile(r"^head$"), "lm_head"),
        (re.compile(r"^embed$"), "model.embed_tokens"),
    ),
)
_VISION = Naming(
    prefixes=(
        ("model.visual.", "visual."),
        ("lm_head.", "language_model.lm_head."),
        ("model.language_model.", "language_model.model."),
    ),
    fused=_GATED,
)
_NAMINGS = {
    "DeepseekV4ForCausalLM": _DEEPSEEK_V4,
    "Qwen3_5ForConditionalGeneration": _VISION,
    "Qwen3_5MoeForConditionalGeneration": _VISION,
    "Qwen3_5ForCausalLM": Naming(fused=_GATED),
    "Qwen3_5MoeForCausalLM": Naming(fused=_GATED),
}


def naming_of(architecture: str | None) -> Naming:
    """Return how an architecture's modules are named; for one not listed, what most models do."""
    return _NAMINGS.get(architecture or "", Naming(fused=_COMMON))


def with_prefix(naming: Naming, name: str) -> str:
    """Return a name as vLLM's mapper makes it: by the first prefix that fits."""
    for old, new in naming.prefixes:
        if name.startswith(old):
            return new + name[len(old) :]
    return name


def mapped_entries(naming: Naming, text: str, matching: Matching) -> tuple[str, ...]:
    """Return what vLLM makes of an entry of a list, which leaves patterns as they are.

    It makes two of a module with * behind it, before it maps the names: apply_vllm_mapper of
    modelopt.py.
    """
    if Entry(text, matching).is_pattern or "." not in text:
        return (text,)
    if matching is Matching.WILDCARD and text.endswith("*") and not text.endswith((".*", "**")):
        # The second one has the first for its beginning, which is looked for anywhere.
        return (f"{with_prefix(naming, text[:-1])}*", with_prefix(naming, f"{text[:-1]}.*"))
    return (with_prefix(naming, text),)


def run_time_modules(checkpoint: Checkpoint, mtp: Mtp, modules: list[str]) -> list[RunTime]:
    """Return the modules that vLLM makes of those on disk, each under its own name."""
    naming = naming_of(checkpoint.architecture)
    there = set(modules)
    run_time: dict[str, RunTime] = {}
    for module in modules:
        fused = None if experts_of(module) else _find_fused(naming, module, there)
        if fused is None:
            name = _spelt(checkpoint, mtp, naming, module)
            run_time[name] = RunTime(name, (module,))
            continue
        parent = module.rpartition(".")[0]
        around = _spelt(checkpoint, mtp, naming, f"{parent}.")
        name = f"{around}{fused.name}"
        disk = tuple(f"{parent}.{part}" for part in fused.parts)
        spelt = tuple(f"{around}{part}" for part in fused.parts)
        run_time[name] = RunTime(name, disk, spelt, fused.declared)
    return list(run_time.values())


def _find_fused(naming: Naming, module: str, there: set[str]) -> Fused | None:
    """Return what a module becomes a part of, provided that all parts are there."""
    parent, _, last = module.rpartition(".")
    for fused in naming.fused:
        if last in fused.parts and all(f"{parent}.{p}" in there for p in fused.parts):
            return fused
    return None


def _spelt(checkpoint: Checkpoint, mtp: Mtp, naming: Naming, module: str) -> str:
    name = _in_mtp(checkpoint, mtp, module) or with_prefix(naming, module)
    for pattern, new in naming.renamed:
        name = pattern.sub(new, name)
    return name


def _in_mtp(checkpoint: Checkpoint, mtp: Mtp, module: str) -> str | None:
    """Return what vLLM calls a module of an MTP layer, where that is another name."""
    scheme, trunk = mtp.scheme, checkpoint.layers
    if scheme is None or scheme.runtime is None or trunk is None:
        return None
    layer = layer_of(scheme, module, trunk)
    match = scheme.layer.match(module)
    if layer is None or match is None:
        return None
    inner = module[match.end() :]
    if scheme is DEEPSEEK_V4:
        inner = {"norm": "shared_head.norm", "head": "shared_head.head"}.get(inner, inner)
    if scheme is STEP and "shared_head" in inner:
        return f"model.layers.{trunk + layer}.shared_head.head"
    return scheme.runtime.format(layer=trunk + layer) + inner
