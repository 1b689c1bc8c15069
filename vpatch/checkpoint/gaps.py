"""Releases that do not run the MTP layers of a checkpoint, though they have the model.

Data, read in the loaders of vLLM 0.20.0 to 0.33.0 on 2026-11-26. tests/checkpoint/test_loaders.py
runs these loaders on the names of tensors, and compares.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.modules import FLOATS
from vpatch.checkpoint.mtp import has_module, inner_name
from vpatch.util.plural import counted, listed
from vpatch.util.versions import describe_range, ranges_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.checkpoint.inspection import Inspection

RELEASES = (
    *("0.20.0", "0.20.1", "0.20.2", "0.21.0", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0"),
    *("0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0"),
    "0.33.0",
)
"""The releases that this data is read from."""
_STEP = ("Step3p5ForCausalLM", "Step3p7ForConditionalGeneration")
_NESTED = "model.language_model."
_HEAD, _EMBEDDING = "shared_head.head", "embed_tokens"
_IN_LAYER = (
    *("DeepseekV3ForCausalLM", "DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"),
    *("Glm4MoeLiteForCausalLM", "PanguUltraMoEForCausalLM"),
)
"""Models whose loader looks for the head and the embeddings in the MTP layer alone."""
_OF_TRUNK = {_HEAD: "lm_head.weight", _EMBEDDING: "model.embed_tokens.weight"}
_FROM_TRUNK = ("Glm4MoeForCausalLM", "GlmOcrForConditionalGeneration")
"""Models whose loader gives the first MTP layer those of the trunk, if they have these names."""
_HEADS_BY_NAME = {
    **dict.fromkeys((*_IN_LAYER, *_FROM_TRUNK), "model.layers.{layer}.head"),
    "PanguUltraMoEForCausalLM": "model.layers.{layer}.shared_head.head",
    "HYV3ForCausalLM": "",
}
"""The name by which a layer's head asks the config how it is built."""
_MODELOPT_HEADS = "0.23.0"
"""The first release in which ModelOpt's configs cover a head."""
_SHOWN = 2


@dataclass(frozen=True)
class Gap:
    """Releases from `since` to `last`, and why they do not run the MTP layers."""

    since: str
    last: str
    reason: str

    def has(self, release: str) -> bool:
        return Version(self.since) <= Version(release) <= Version(self.last)


def gaps_of(inspection: Inspection) -> tuple[Gap, ...]:
    """Return the releases that do not run the MTP layers of this checkpoint, and others do."""
    return tuple(_gaps(inspection)) if inspection.mtp.scheme is not None else ()


def why_nowhere(inspection: Inspection) -> str | None:
    """Return why no release runs the MTP layers as they are; None if one does, or there are none.

    It is a fault of the checkpoint. A finding tells more about it.
    """
    return next(_faults(inspection), None) if inspection.mtp.scheme is not None else None


def _gaps(inspection: Inspection) -> Iterator[Gap]:
    mtp = inspection.mtp
    architecture = inspection.checkpoint.architecture
    nested = any(name.startswith(_NESTED) for name in mtp.names)
    # get_spec_layer_idx_from_weight_name of models/utils.py
    if architecture == "GlmOcrForConditionalGeneration" and nested:
        yield Gap("0.26.0", "0.29.0", f"they read no MTP tensor that begins with {_NESTED}")
    if inspection.quantisation is None and (names := tuple(_not_initialised(inspection))):
        # Later ones do not ask for them, and take them from the trunk: track_weights_loading.
        yield Gap(
            "0.20.0", "0.20.2", f'they end with "not initialized from checkpoint": {_some(names)}'
        )
    yield from _heads(inspection)


def _faults(inspection: Inspection) -> Iterator[str]:
    """Say what no release loads."""
    mtp = inspection.mtp
    if not mtp.count and not mtp.assumed:
        # The class of a config may have a default where config.json has nothing.
        yield "config.json declares no MTP layer"
    match inspection.checkpoint.architecture, inspection.checkpoint.config.get("decoder"):
        case "RadioMBartPrefixForCausalLM", {"causal_vision_prefix": flag} if flag:
            pass
        case "RadioMBartPrefixForCausalLM", _:
            yield "config.json does not set decoder.causal_vision_prefix"
    if mtp.missing:
        yield f"{_some(mtp.missing)} {'is' if len(mtp.missing) == 1 else 'are'} missing"
    elif mtp.family and mtp.scheme is not mtp.family.scheme:
        yield f"it looks for tensors called {mtp.family.scheme.name}"
    elif absent := set(range(mtp.count)) - set(mtp.layers):
        yield f"of {counted(len(absent), 'declared MTP layer')}, there is no tensor"
    if wrong := inspection.built_quantised():
        names = dict.fromkeys(inspection.run_time_names[name] for name in wrong)
        yield f"it builds {counted(len(names), 'unquantised module')} of the head quantised"


def _not_initialised(inspection: Inspection) -> Iterator[str]:
    """Name what the MTP layers lack, and what 0.20 wants to read for them."""
    mtp, architecture = inspection.mtp, inspection.checkpoint.architecture
    if mtp.scheme is None or architecture not in {*_IN_LAYER, *_FROM_TRUNK}:
        return
    trunk = inspection.checkpoint.every_name() if architecture in _FROM_TRUNK else set()
    for number, names in mtp.layers.items():
        if number >= mtp.count:
            continue
        inside = {inner_name(mtp.scheme, name) for name in names}
        match = mtp.scheme.layer.match(names[0])
        for module in (_HEAD, _EMBEDDING) if number == 0 else (_HEAD,):
            of_trunk = number == 0 and _OF_TRUNK[module] in trunk
            if match and not has_module(inside, module) and not of_trunk:
                yield f"{match[0]}{module}"


def _heads(inspection: Inspection) -> Iterator[Gap]:
    """Find heads that a layer has for itself, and that ModelOpt's config does not leave out."""
    architecture, quantisation = inspection.checkpoint.architecture, inspection.quantisation
    if quantisation is None or not quantisation.method.startswith("modelopt"):
        return
    if quantisation.is_mixed:  # it covers what its table names
        return
    shared = (m for name, m in inspection.mtp_modules.items() if ".shared_head." in name)
    unquantised = any(module.format in FLOATS for module in shared)
    # SharedHead of models/step3p5_mtp.py
    if architecture in _STEP and unquantised:
        yield Gap(
            _MODELOPT_HEADS,
            "0.26.0",
            "they ask the config about shared_head.head by no name, and build it quantised",
        )
    fc = inspection.modules.get("mtp.fc")
    is_float = fc is not None and fc.format in FLOATS
    by_four = "FP4" in (quantisation.algorithm or "")
    left_out = inspection.unquantised.ever
    if architecture == "Qwen3NextForCausalLM" and by_four and is_float and "mtp.fc" not in left_out:
        # fc_quant of models/qwen3_next_mtp.py
        yield Gap("0.20.0", "0.24.0", "they build mtp.fc quantised, and it is not")
    named = _HEADS_BY_NAME.get(architecture or "")
    trunk = inspection.checkpoint.layers
    if named is None or trunk is None or not by_four:
        return
    head = inspection.modules.get("lm_head")
    reads_trunk = architecture in {*_FROM_TRUNK, "HYV3ForCausalLM"}
    of_trunk = reads_trunk and head is not None and head.format in FLOATS
    if not (of_trunk or (unquantised and architecture != "HYV3ForCausalLM")):
        return
    name = named.format(layer=trunk)
    entries = [entry for one in quantisation.ignored() for entry in one.entries]
    if not any(Entry(entry, Matching.WILDCARD).those([name]) for entry in entries):
        asked = f"as {name}" if name else "by no name"
        yield Gap(
            _MODELOPT_HEADS,
            RELEASES[-1],
            f"they ask the config about shared_head.head {asked}, and build it quantised",
        )


def _some(names: tuple[str, ...]) -> str:
    return listed(list(names), _SHOWN)


def runs_in(since: str, gaps: tuple[Gap, ...]) -> str:
    """Return the releases that load the MTP layers, such as `0.20.0 or later`."""
    runs = [
        release
        for release in RELEASES
        if Version(release) >= Version(since) and not any(gap.has(release) for gap in gaps)
    ]
    ranges = ranges_of(runs, RELEASES)
    words = [describe_range(first, last) for first, last in ranges]
    if ranges and ranges[-1][1] == RELEASES[-1]:
        words[-1] = f"{ranges[-1][0]} or later"
    return " and ".join(words) or "none"


def specifier(since: str, gaps: tuple[Gap, ...]) -> str | None:
    """Return the releases that load the MTP layers, as a version specifier; None for none."""
    later = [release for release in RELEASES if Version(release) >= Version(since)]
    runs = [release for release in later if not any(gap.has(release) for gap in gaps)]
    if not runs:
        return None
    last = [f"<={runs[-1]}"] if runs[-1] != RELEASES[-1] else []
    between = later[later.index(runs[0]) : later.index(runs[-1])]
    without = (f"!={release}" for release in between if release not in runs)
    return ",".join([f">={runs[0]}", *last, *without])
