"""Drafts of other kinds than MTP layers: what they are, and what starts them.

Data, read in the registries and in vllm/config/speculative.py of vLLM 0.20.0 to 0.33.0.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.checkpoint.folder import as_count
from vpatch.checkpoint.opening import repository_in

if TYPE_CHECKING:
    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint

DraftKind = Literal[
    "dspark", "dflash", "eagle", "eagle3", "peagle", "assistant", "medusa", "mlp_speculator", "mtp"
]
_WORDS: dict[DraftKind, str] = {
    "dspark": "a DSpark draft",
    "dflash": "a DFlash draft",
    "eagle": "an EAGLE head, of EAGLE 1 or 2, which have the same tensors",
    "eagle3": "an EAGLE-3 head",
    "peagle": "a P-EAGLE head",
    "assistant": "an assistant, which drafts for a larger model",
    "medusa": "Medusa heads",
    "mlp_speculator": "an MLP speculator",
    "mtp": "an MTP head in a folder of its own",
}
_STAGE = re.compile(r"mtp\.\d+\.(?:main_proj|main_norm|markov_head|confidence_head)\.")
_LAYER = re.compile(r"mtp\.\d+\.(?:e_proj|enorm)\.")
_MEDUSA = re.compile(r"(?:medusa_heads\.)?\d+\.(?:\d+|layers\.\d+)\.(?:linear\.)?weight")
_EAGLE_3 = re.compile(r"(?:model\.)?(?:d2t|t2d|midlayer\..*)")
_JOINS = ("fc.weight", "model.fc.weight")


@dataclass(frozen=True)
class DraftReleases:
    """What vLLM runs, from one release on, and up to the last one that has it."""

    since: str
    until: str | None = None
    method: str | None = None


# By model type, by architecture, and by the word of a folder of vllm-project/speculators.
MODEL_TYPES: dict[str, tuple[DraftKind, str | None, DraftReleases]] = {
    "gemma4_assistant": ("assistant", "Gemma 4", DraftReleases("0.21.0", method="mtp")),
    "gemma4_unified_assistant": ("assistant", "Gemma 4", DraftReleases("0.23.0", method="mtp")),
    "muse_glimmer_assistant": (
        "assistant",
        "Muse Glimmer",
        DraftReleases("0.28.0", method="dflash"),
    ),
    "medusa": ("medusa", None, DraftReleases("0.20.0", "0.32.0", "medusa")),
    "mlp_speculator": ("mlp_speculator", None, DraftReleases("0.20.0", "0.32.0")),
    "minimax_m3_mtp": ("mtp", "MiniMax-M3", DraftReleases("0.24.0", method="mtp")),
}
ARCHITECTURES: dict[str, tuple[DraftKind, str | None, DraftReleases]] = {
    "Qwen3DSparkModel": ("dspark", "Qwen3", DraftReleases("0.25.0", method="dspark")),
    "Gemma4DSparkModel": ("dspark", "Gemma 4", DraftReleases("0.26.0", method="dspark")),
    "K3DSparkModel": ("dspark", "Kimi K3", DraftReleases("0.27.0", method="dspark")),
    "Qwen3OmniDSparkModel": ("dspark", "Qwen3-Omni", DraftReleases("0.29.0", method="dspark")),
    "MuseSparkDSparkModel": ("dspark", "Muse Spark", DraftReleases("0.33.0", method="dspark")),
    "DFlashDraftModel": ("dflash", None, DraftReleases("0.20.0", method="dflash")),
    "MedusaModel": ("medusa", None, DraftReleases("0.20.0", "0.32.0", "medusa")),
    "MiniMaxM3MTP": ("mtp", "MiniMax-M3", DraftReleases("0.24.0", method="mtp")),
    "MLPSpeculatorPreTrainedModel": ("mlp_speculator", None, DraftReleases("0.20.0", "0.32.0")),
}
SPECULATORS: dict[str, tuple[DraftKind, DraftReleases]] = {
    "eagle3": ("eagle3", DraftReleases("0.20.0", method="eagle3")),
    "peagle": ("peagle", DraftReleases("0.22.0", method="eagle3")),
    "dflash": ("dflash", DraftReleases("0.20.0", method="dflash")),
    "dflash2": ("dflash", DraftReleases("0.29.0", method="dflash")),
    "dspark": ("dspark", DraftReleases("0.25.0", method="dspark")),
}
IN_TARGET = {
    "DeepseekV4ForCausalLM": DraftReleases("0.25.0", method="dspark"),
    "DeepseekV41ForCausalLM": DraftReleases("0.30.0", method="dspark"),
}
"""Models whose own checkpoint may have DSpark stages."""
EAGLES = {
    **dict.fromkeys(
        (
            *("EagleLlamaForCausalLM", "EagleLlama4ForCausalLM", "EagleMiniCPMForCausalLM"),
            *("EagleMistralLarge3ForCausalLM", "EagleDeepSeekMTPModel"),
            *("Eagle3LlamaForCausalLM", "LlamaForCausalLMEagle3", "Eagle3MiniMaxM2ForCausalLM"),
            *("Eagle3Qwen2_5vlForCausalLM", "Eagle3Qwen3vlForCausalLM"),
            *("Eagle3DeepseekV2ForCausalLM", "Eagle3DeepseekV3ForCausalLM"),
        ),
        "0.20.0",
    ),
    **dict.fromkeys(("EagleCohereForCausalLM", "EagleMistralForCausalLM"), "0.21.0"),
    "Eagle3Qwen3ForCausalLM": "0.24.0",
}
"""The first release that registers an EAGLE head, by the name that vLLM gives it."""


@dataclass(frozen=True)
class CheckpointDraft:
    """A draft. `verifier` is the model that it drafts for, where the checkpoint names one.

    `inside`: it lies in the verifier's own checkpoint. `stages` are the numbers of such a draft.
    `release` is None where vpatch knows of no release that has it.
    """

    kind: DraftKind
    verifier: str | None
    release: DraftReleases | None
    tokens: int | None = None
    inside: bool = False
    stages: tuple[int, ...] = ()
    form: str | None = None

    @property
    def what(self) -> str:
        """Say what it is."""
        if self.inside:
            stages = f"mtp.{self.stages[0]}"
            if len(self.stages) > 1:
                stages += f" to mtp.{self.stages[-1]}"
            alone = "" if self.form is None else f", {self.form}"
            return f"DSpark stages in the same checkpoint ({stages}){alone}"
        words = _WORDS[self.kind]
        return f"{words}, {self.form}" if self.form else words

    def config(self, folder: str) -> str | None:
        """Return the value of --speculative-config that starts it; None if none is known.

        `folder` is where it is, or the repository of the Hub as somebody typed it.
        """
        if self.release is None or self.release.method is None:
            return None
        value: dict[str, JsonValue] = {"method": self.release.method}
        if not self.inside:
            repository = repository_in(folder)
            value["model"] = repository["repository"] if repository else folder
            if repository and (revision := repository["revision"]):
                value["revision"] = revision
        value["num_speculative_tokens"] = self.tokens or 1
        if self.kind == "peagle":
            value["parallel_drafting"] = True
        return json.dumps(value)


def draft_of(checkpoint: Checkpoint) -> CheckpointDraft | None:
    """Read from config and names whether it is, or has, a draft of another kind than MTP layers."""
    config = checkpoint.config
    named = config.get("speculators_model_type")
    if isinstance(named, str):
        return _of_speculators(config, named)
    if (stages := _stages(checkpoint)) is not None:
        return stages
    model_type = config.get("model_type")
    architecture = checkpoint.architecture or ""
    known = ARCHITECTURES.get(architecture)
    if known is None and isinstance(model_type, str):
        known = MODEL_TYPES.get(model_type)
    if known is not None:
        kind, verifier, release = known
        return CheckpointDraft(kind, verifier, release, _block_size(config))
    return _by_names(checkpoint, architecture)


def _of_speculators(config: dict[str, JsonValue], named: str) -> CheckpointDraft | None:
    form = "in a folder of vllm-project/speculators"
    verifier, tokens = None, None
    match config.get("speculators_config"):
        case {"verifier": {"name_or_path": str(name)}}:
            verifier = name
    match config.get("speculators_config"):
        case {"proposal_methods": [{"speculative_tokens": int(count)}, *_]}:
            tokens = count
    kind, release = SPECULATORS.get(named, (None, None))
    if kind is None:
        old: DraftKind = "eagle"
        return CheckpointDraft(old, verifier, None, tokens, form=form) if named == "eagle" else None
    return CheckpointDraft(kind, verifier, release, tokens, form=form)


def _stages(checkpoint: Checkpoint) -> CheckpointDraft | None:
    names = checkpoint.every_name()
    if not any(_STAGE.match(name) for name in names):
        return None
    numbers = {int(name.split(".")[1]) for name in names if re.match(r"mtp\.\d+\.", name)}
    release = IN_TARGET.get(checkpoint.architecture or "")
    tokens = as_count(checkpoint.language.get("dspark_block_size"))
    stages = tuple(sorted(numbers))
    form = None if any(_LAYER.match(name) for name in names) else "and no MTP layers"
    return CheckpointDraft("dspark", None, release, tokens, inside=True, stages=stages, form=form)


def _by_names(checkpoint: Checkpoint, architecture: str) -> CheckpointDraft | None:
    if not checkpoint.every_name():
        return None
    if architecture.endswith("Eagle3") or architecture.startswith("Eagle3"):
        return _eagle("eagle3", architecture)
    if architecture.startswith("Eagle"):
        return _eagle("eagle", architecture)
    return _unnamed(checkpoint, architecture)


def _unnamed(checkpoint: Checkpoint, architecture: str) -> CheckpointDraft | None:
    """Tell by its tensors what a draft is that its architecture does not name."""
    names = checkpoint.every_name()
    heads = [name for name in names if _MEDUSA.fullmatch(name)]
    # Each Medusa head has a residual block, which no other list of layers has.
    has_block = any(".linear." in name or name.startswith("medusa_heads.") for name in heads)
    if has_block and all("lm_head" in name for name in names.difference(heads)):
        return CheckpointDraft("medusa", None, MODEL_TYPES["medusa"][2])
    if any(_EAGLE_3.fullmatch(name) for name in names):
        return _eagle("eagle3", architecture)
    # A projection of two hidden states, and one layer: no model begins like that.
    if checkpoint.layers in {None, 1} and _joins_two(checkpoint):
        return _eagle("eagle", architecture)
    return None


def _joins_two(checkpoint: Checkpoint) -> bool:
    """Whether a projection makes one hidden state of two; a classifier's `fc` does not."""
    shapes = [tensor.shape for name, tensor, _ in checkpoint.tensors() if name in _JOINS]
    return any(len(shape) == 2 and shape[1] == 2 * shape[0] for shape in shapes)  # noqa: PLR2004


def _eagle(kind: Literal["eagle", "eagle3"], architecture: str) -> CheckpointDraft:
    """Return a head; vLLM puts the method before the name of the architecture."""
    before = {"eagle": "Eagle", "eagle3": "Eagle3"}[kind]
    has_it = architecture.startswith(before) or (kind == "eagle3" and architecture.endswith(before))
    since = EAGLES.get(architecture if has_it else f"{before}{architecture}")
    return CheckpointDraft(kind, None, DraftReleases(since, method=kind) if since else None)


def _block_size(config: dict[str, JsonValue]) -> int | None:
    return as_count(config.get("block_size", config.get("dspark_block_size")))
