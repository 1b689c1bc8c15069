"""What prevents a checkpoint or its MTP layers from loading: every opinion, and no reading."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.modules import FLOATS
from vpatch.checkpoint.platforms import without_fp8
from vpatch.checkpoint.tokenizer import NEW_IN_5
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.tokenizer import Tokenizer

_SHOWN = 4
_LONGEST = 60


@dataclass(frozen=True)
class CheckpointFinding:
    """`kind` is a fixed word for programs. The rest is only worth knowing."""

    kind: str
    what: str
    hint: str | None = None
    fault: bool = True


def findings_of(
    inspection: Inspection, tokenizer: Tokenizer, platform: str | None
) -> tuple[CheckpointFinding, ...]:
    """Judge what was read. `platform` is one of platforms.NAMES, None where it is not known."""
    findings = [
        *_files(inspection),
        *_quantisation(inspection, platform),
        *_lists(inspection),
        *_layers(inspection),
        *_formats(inspection),
        *_tokenizer(tokenizer),
    ]
    return tuple(sorted(findings, key=lambda finding: not finding.fault))


def _files(inspection: Inspection) -> Iterator[CheckpointFinding]:
    checkpoint = inspection.checkpoint
    if not checkpoint.config:
        yield CheckpointFinding(
            "no-config", "there is no config.json, so nothing says what model this is", "fetch it"
        )
    for file, names in checkpoint.missing.items():
        yield CheckpointFinding(
            "missing-shard",
            f"{file} is not there, which the index says has {len(names)} tensors",
            "fetch it",
        )
    if checkpoint.absent:
        yield CheckpointFinding(
            "absent-tensors",
            f"the index names tensors that their shards do not have: {_some(checkpoint.absent)}",
            "fetch the index and the shards again, from one revision",
        )
    if checkpoint.unlisted:
        yield CheckpointFinding(
            "unlisted-shards",
            f"vLLM does not read {_some(checkpoint.unlisted)}: the index does not name it",
            fault=False,
        )


def _quantisation(inspection: Inspection, platform: str | None) -> Iterator[CheckpointFinding]:
    stored = [m for m in inspection.modules.values() if m.quantised]
    eight = [m.name for m in stored if m.format == "I8"]
    other = [m.name for m in stored if m.format != "I8"]
    if inspection.quantisation is None and eight:
        yield CheckpointFinding(
            "int8-without-config",
            f"{len(eight)} modules are INT8, such as {eight[0]}, and config.json has no "
            "quantization_config: vLLM takes the model for unquantised, and runs out of memory or "
            "says nonsense",
            "take quantization_config from the tool that exported it, or export it again",
        )
    if inspection.quantisation is None and other:
        yield CheckpointFinding(
            "quantised-without-config",
            f"{len(other)} modules are quantised, such as {other[0]}, and config.json has no "
            "quantization_config",
            "take quantization_config from the tool that exported it, or export it again",
        )
    eights = [m for m in stored if (m.format or "").startswith("F8_")]
    if eights:
        blocks = any("block" in bits for bits in getattr(inspection.quantisation, "bits", ()))
        lacks = without_fp8(platform, blocks=blocks) if platform else None
        if lacks:
            yield CheckpointFinding(
                "fp8-platform",
                f"{len(eights)} modules are FP8, and {lacks}",
                "take a checkpoint in BF16 or INT8, or another platform",
            )
        elif platform is None:
            yield CheckpointFinding(
                "fp8",
                f"{len(eights)} modules are FP8, which not every platform has: see --platform",
                fault=False,
            )
    elif platform is not None:
        without_fp8(platform, blocks=False)  # an unknown platform is wrong use anyway


def _lists(inspection: Inspection) -> Iterator[CheckpointFinding]:
    for judged in inspection.judged:
        for entry in judged.entries:
            if entry.fault is not None:
                yield CheckpointFinding(
                    "ignore-pattern",
                    f"{judged.ignored.where} has {_short(entry.entry)!r}, and {entry.fault}",
                    "correct it in config.json",
                )
        if judged.split or any(entry.missed for entry in judged.entries):
            count = len({*judged.split, *(n for e in judged.entries for n in e.missed)})
            yield CheckpointFinding(
                "ignore-names",
                f"{judged.ignored.where} does not leave out in vLLM what it leaves out on disk: "
                f"{count} modules",
                f"vpatch checkpoint ignore-names {inspection.checkpoint.folder}",
            )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _layers(inspection: Inspection) -> Iterator[CheckpointFinding]:
    mtp, folder = inspection.mtp, inspection.checkpoint.folder
    graft = f"vpatch checkpoint graft-mtp {folder} --from ORIGINAL"
    key = mtp.family.key if mtp.family else "num_nextn_predict_layers"
    counts = {declared.count for declared in mtp.declared}
    if len(counts) > 1:
        claims = ", ".join(f"{d.key} {d.count}" for d in mtp.declared)
        yield CheckpointFinding(
            "mtp-contradiction", f"config.json contradicts itself: {claims}", "correct it"
        )
    if mtp.scheme is None:
        if mtp.count:
            yield CheckpointFinding(
                "mtp-dropped",
                f"{mtp.count} MTP {_layer(mtp.count)} declared, and none of the tensors is there",
                graft,
            )
        else:
            what = "there is no MTP: no key in config.json, and no tensors"
            yield CheckpointFinding("no-mtp", what, graft if mtp.family else None, bool(mtp.family))
        return
    if not mtp.count:
        yield CheckpointFinding(
            "mtp-undeclared",
            f"{len(mtp.names)} MTP tensors are there, and config.json declares no MTP layer",
            f"set {key} to {max(len(mtp.layers), 1)} in config.json",
        )
    elif absent := sorted(set(range(mtp.count)) - set(mtp.layers)):
        yield CheckpointFinding(
            "mtp-layers",
            f"{mtp.count} MTP {_layer(mtp.count)} declared, and of number "
            f"{_some([str(n) for n in absent])} (from 0) there is no tensor",
            graft,
        )
    if mtp.family and mtp.scheme is not mtp.family.scheme:
        yield CheckpointFinding(
            "mtp-names",
            f"the MTP tensors are called {mtp.scheme.name}, and vLLM looks for "
            f"{mtp.family.scheme.name} in a {inspection.checkpoint.architecture}",
            graft,
        )
    if mtp.missing:
        yield CheckpointFinding(
            "mtp-incomplete", f"MTP tensors are missing: {_some(mtp.missing)}", graft
        )
    if mtp.lacking:
        yield CheckpointFinding(
            "mtp-scales",
            f"quantised MTP modules have no scale: {_some(mtp.lacking)}",
            graft,
        )


def _layer(count: int) -> str:
    return "layer is" if count == 1 else "layers are"


def _formats(inspection: Inspection) -> Iterator[CheckpointFinding]:
    wrong = inspection.built_quantised()
    if wrong:
        names = [inspection.run_time_names.get(name, name) for name in wrong]
        lists = ", ".join(one.ignored.where for one in inspection.judged)
        hint = f"name them in {lists or 'the list of what is not quantised'}, by these names"
        if any(entry.better for one in inspection.judged for entry in one.entries):
            hint = f"vpatch checkpoint ignore-names {inspection.checkpoint.folder} --fix"
        kinds = _some(sorted({str(inspection.modules[n].format) for n in wrong}))
        yield CheckpointFinding(
            "mtp-format",
            f"the MTP head is {kinds}, and the quantisation config covers it: vLLM will build "
            f"{len(wrong)} modules quantised, such as {names[0]}, and has nowhere to load them",
            hint,
        )
        return
    trunk, head = inspection.formats(mtp=False), inspection.formats(mtp=True)
    differs = [kind for kind in head if trunk and kind not in trunk]
    quantised = [kind for kind in differs if kind not in FLOATS]
    if quantised:
        yield CheckpointFinding(
            "mtp-format",
            f"the MTP head is in {_some(quantised)}, and the trunk in {_some(list(trunk))}: few "
            "engines load two formats, and only where the config has a group for each",
            "convert the head as the trunk was, or keep it unquantised and leave it out",
            fault=len((inspection.quantisation and inspection.quantisation.bits) or ()) < 2,  # noqa: PLR2004
        )
    elif head and trunk and next(iter(head)) != next(iter(trunk)):
        yield CheckpointFinding(
            "mtp-format-differs",
            f"the MTP head is {_some(list(head)[:1])} and the trunk {_some(list(trunk)[:1])}"
            + (", as the quantisation config says" if inspection.quantisation else ""),
            fault=False,
        )


def _tokenizer(tokenizer: Tokenizer) -> Iterator[CheckpointFinding]:
    if tokenizer.known is False:
        yield CheckpointFinding(
            "tokenizer",
            f"transformers {tokenizer.transformers} has no tokenizer class {tokenizer.name}",
            "install a transformers that has it"
            + (" (5.0 or later)" if tokenizer.name in NEW_IN_5 else "")
            + ", or set tokenizer_class in tokenizer_config.json to what the original has",
        )
    elif tokenizer.known is None and tokenizer.name in NEW_IN_5:
        yield CheckpointFinding(
            "tokenizer-new",
            f"its tokenizer class {tokenizer.name} is in transformers from 5.0 on: --engine PYTHON "
            "asks one",
            fault=False,
        )


def _some(names: Sequence[str]) -> str:
    return listed(names, _SHOWN)
