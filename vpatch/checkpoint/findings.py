"""What prevents a checkpoint or its MTP layers from loading: every opinion, and no reading."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.checkpoint.contradictions import contradictions_of
from vpatch.checkpoint.conversions import generates
from vpatch.checkpoint.finding_model import CheckpointFinding
from vpatch.checkpoint.folder import MODELSLIM
from vpatch.checkpoint.module_pattern import regular_expression
from vpatch.checkpoint.modules import ADAPTER, ADAPTER_PATTERN, FLOATS, SCALES
from vpatch.checkpoint.platforms import without_fp8
from vpatch.checkpoint.tokenizer import NEW_IN_5
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.checkpoint.drafts import CheckpointDraft
    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.mtp import Mtp
    from vpatch.checkpoint.tokenizer import Tokenizer

_SHOWN = 4
# Phi-4-multimodal has its adapters around its model: phi4mm.py reads both.
_WITH_OWN_ADAPTERS = ("Phi4MMForCausalLM",)
# Those of jina-embeddings-v3, which bert_with_rope.py merges.
_PARAMETRIZED = ".parametrizations."
# Shards as transformers numbers them. No checkpoint has more.
_NUMBERED = re.compile(r"(?P<start>.*-)(?P<number>\d{5})-of-(?P<all>\d{5})\.safetensors")
_MOST_NUMBERED = 2000
_LONGEST = 60
# The method is in each release from 0.20.0 on, with a default for each of its other values.
_NGRAM = """--speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'"""


def findings_of(
    inspection: Inspection, tokenizer: Tokenizer, platform: str | None
) -> tuple[CheckpointFinding, ...]:
    """Judge what was read. `platform` is one of platforms.NAMES, None where it is not known."""
    findings = [
        *_files(inspection),
        *_names(inspection),
        *_quantisation(inspection, platform),
        *_lists(inspection),
        *_layers(inspection),
        *contradictions_of(inspection),
        *_formats(inspection),
        *_tokenizer(tokenizer),
    ]
    return tuple(sorted(findings, key=lambda finding: not finding.fault))


def _files(inspection: Inspection) -> Iterator[CheckpointFinding]:
    checkpoint = inspection.checkpoint
    if not checkpoint.config and checkpoint.has_params:
        yield CheckpointFinding(
            "mistral-format",
            "params.json says what model it is, and there is no config.json: vLLM reads it with "
            "--config-format mistral, and vpatch does not",
            fault=False,
        )
    elif checkpoint.has_params and checkpoint.has_consolidated:
        yield CheckpointFinding(
            "mistral-format",
            "params.json and consolidated files are there: vLLM reads these, unless it is started "
            "with --config-format hf --load-format safetensors. vpatch looks at the other files",
            fault=False,
        )
    elif not checkpoint.config:
        yield CheckpointFinding(
            "no-config", "there is no config.json, so nothing says what model this is", "fetch it"
        )
    for file, names in checkpoint.missing.items():
        yield CheckpointFinding(
            "missing-shard",
            f"{file} is not there, which the index says has {len(names)} tensors",
            "fetch it",
        )
    if checkpoint.index is None:
        yield from _series(checkpoint)
    if checkpoint.absent:
        yield CheckpointFinding(
            "absent-tensors",
            f"the index names tensors that their shards do not have: {_some(checkpoint.absent)}",
            "fetch the index and the shards again, from one revision",
        )
    unlisted = [
        name
        for name in checkpoint.unlisted
        if not (checkpoint.has_params and name.startswith("consolidated"))
    ]
    if unlisted:
        yield CheckpointFinding(
            "unlisted-shards",
            f"vLLM does not read {_some(unlisted)}: the index does not name it",
            fault=False,
        )


def _series(checkpoint: Checkpoint) -> Iterator[CheckpointFinding]:
    """Report shards that are not there by the numbers of the others, where no index says so."""
    series: dict[tuple[str, str], set[int]] = {}
    for shard in checkpoint.shards:
        if match := _NUMBERED.fullmatch(shard.path.name):
            numbers = series.setdefault((match["start"], match["all"]), set())
            numbers.add(int(match["number"]))
    for (start, count), numbers in series.items():
        if int(count) > _MOST_NUMBERED:
            continue
        if absent := sorted(set(range(1, int(count) + 1)) - numbers):
            names = [f"{start}{number:0{len(count)}}-of-{count}.safetensors" for number in absent]
            yield CheckpointFinding(
                "missing-shard",
                f"{counted(len(names), 'shard')} of {int(count)} not there, such as {names[0]}, "
                "and neither is an index",
                "fetch the checkpoint again, with its index",
            )


def _names(inspection: Inspection) -> Iterator[CheckpointFinding]:
    """Report tensors that belong to no module of a model."""
    names = [name for name, _, _ in inspection.checkpoint.tensors()]
    is_own = inspection.checkpoint.architecture in _WITH_OWN_ADAPTERS
    adapter = [
        name for name in names if ADAPTER.search(name) and not is_own and _PARAMETRIZED not in name
    ]
    if adapter:
        yield CheckpointFinding(
            "adapter-names",
            f"{len(adapter)} tensors have names that PEFT gives to a LoRA adapter and to the model "
            f"around it, such as {adapter[0]}: no model of vLLM has such modules",
            "merge the adapter into its model, or give it to --lora-modules",
            modules=tuple(adapter),
            pattern=ADAPTER_PATTERN,
        )
    stray = [
        f"{module.name}.{name}"
        for module in inspection.modules.values()
        if module.format in FLOATS
        for name in module.tensors
        if name in SCALES
    ]
    if stray:
        yield CheckpointFinding(
            "stray-scales",
            f"{len(stray)} scales belong to unquantised modules, such as {stray[0]}: vLLM has "
            "nowhere to load them for an unquantised module",
            "leave these tensors out, or take the quantised modules from the tool that exported it",
            modules=tuple(stray),
            pattern=regular_expression(stray, [one for one in names if one not in stray]),
        )


def _quantisation(inspection: Inspection, platform: str | None) -> Iterator[CheckpointFinding]:
    stored = [m for m in inspection.modules.values() if m.quantised]
    floats = [m.name for m in inspection.modules.values() if m.format in FLOATS]
    eight = [m.name for m in stored if m.format == "I8"]
    other = [m.name for m in stored if m.format != "I8"]
    if inspection.quantisation is None and eight:
        yield CheckpointFinding(
            "int8-without-config",
            f"{len(eight)} modules are INT8, such as {eight[0]}, and config.json has no "
            "quantization_config: vLLM takes the model for unquantised, and runs out of memory or "
            "says nonsense",
            "take quantization_config from the tool that exported it, or export it again",
            modules=tuple(eight),
            pattern=regular_expression(eight, [*floats, *other]),
        )
    if inspection.quantisation is None and other:
        yield CheckpointFinding(
            "quantised-without-config",
            f"{len(other)} modules are quantised, such as {other[0]}, and config.json has no "
            "quantization_config",
            "take quantization_config from the tool that exported it, or export it again",
            modules=tuple(other),
            pattern=regular_expression(other, [*floats, *eight]),
        )
    if inspection.checkpoint.modelslim is not None and stored and not inspection.in_config:
        yield CheckpointFinding(
            "modelslim",
            f"{MODELSLIM} says how its modules are quantised: vllm-ascend reads it, and vLLM on "
            "another platform does not",
            fault=False,
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
                f"{len(eights)} modules are FP8, which not every platform has: see --accelerator",
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
    inside = mtp.family.inside if mtp.family else None
    place = f"{inside}.{key}" if inside else inspection.checkpoint.place_of(key)
    counts = {declared.count for declared in mtp.declared}
    if len(counts) > 1:
        claims = ", ".join(f"{d.key} {d.count}" for d in mtp.declared)
        yield CheckpointFinding(
            "mtp-contradiction", f"config.json contradicts itself: {claims}", "correct it"
        )
    if inspection.draft is not None:
        yield from _draft(inspection, inspection.draft)
        return
    if mtp.scheme is None:
        yield _without_tensors(inspection, graft)
        return
    if mtp.family is None and inspection.checkpoint.architecture:
        yield CheckpointFinding(
            "mtp-unknown",
            f"{counted(len(mtp.names), 'tensor')} may be of an MTP head, since others call theirs "
            f"{mtp.scheme.name}; vpatch does not know how a "
            f"{inspection.checkpoint.architecture} names them",
            fault=False,
        )
        return
    if not mtp.count:
        others = all(one.key.rpartition(".")[2] != key for one in mtp.declared)
        lacks = f"does not have {key}" if mtp.declared and others else "declares no MTP layer"
        takes = f": vLLM takes {mtp.assumed}" if mtp.assumed else ""
        yield CheckpointFinding(
            "mtp-undeclared",
            f"{len(mtp.names)} MTP tensors are there, and config.json {lacks}{takes}",
            f"set {place} to {max(len(mtp.layers), 1)} in config.json",
            fault=not mtp.assumed,
        )
    elif absent := sorted(set(range(mtp.count)) - set(mtp.layers)):
        yield CheckpointFinding(
            "mtp-layers",
            f"{mtp.count} MTP {_layer(mtp.count)} declared, and of number "
            f"{_some([str(n) for n in absent])} (from 0) there is no tensor",
            graft,
        )
    yield from _unread(mtp)
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


def _unread(mtp: Mtp) -> Iterator[CheckpointFinding]:
    """Note layers behind those that vLLM takes: it asks for tensors of the declared ones alone."""
    if mtp.scheme is None or not mtp.count or not (mtp.scheme.behind or mtp.has_fixed_count):
        return
    further = [name for number, own in mtp.layers.items() if number >= mtp.count for name in own]
    if further:
        yield CheckpointFinding(
            "mtp-unread",
            f"vLLM takes {mtp.count} MTP {'layer' if mtp.count == 1 else 'layers'}, and does not "
            f"read {len(further)} tensors of further ones, such as {further[0]}",
            fault=False,
        )


def _without_tensors(inspection: Inspection, graft: str) -> CheckpointFinding:
    mtp = inspection.mtp
    if not mtp.count:
        # Not each model of an architecture is published with MTP layers: Kimi-K2 is a DeepSeek-V3.
        key = "0 layers in" if mtp.declared else "no key in"
        what = f"there is no MTP: {key} config.json, and no tensors"
        ngram = f"vLLM drafts without a model: {_NGRAM}"
        hint: str | None = ngram
        if mtp.family:
            hint = f"if the model was published with MTP layers: {graft}"
        elif not generates(inspection.checkpoint):
            hint = None  # there is nothing to draft
        return CheckpointFinding("no-mtp", what, hint, fault=False)
    declared = f"{mtp.count} MTP {_layer(mtp.count)} declared"
    if mtp.family is None:
        return CheckpointFinding(
            "mtp-unknown",
            f"{declared}, and vpatch does not know how a {inspection.checkpoint.architecture} "
            "names their tensors",
            fault=False,
        )
    what = f"{declared}, and none of the tensors is there"
    return CheckpointFinding("mtp-dropped", what, graft)


def _draft(inspection: Inspection, draft: CheckpointDraft) -> Iterator[CheckpointFinding]:
    if draft.release is None:
        yield CheckpointFinding(
            "draft-unknown",
            f"it is {draft.what}, and vpatch knows of no release of vLLM that runs it",
            fault=False,
        )
    if draft.inside and not inspection.has_dspark_parts(draft):
        yield CheckpointFinding(
            "dspark-incomplete",
            "DSpark stages lack what they need: main_proj in the first stage, and markov_head in "
            "the last",
            "fetch the checkpoint again",
        )


def _layer(count: int) -> str:
    return "layer is" if count == 1 else "layers are"


def _formats(inspection: Inspection) -> Iterator[CheckpointFinding]:
    if inspection.built_quantised() or inspection.draft is not None:
        return
    quantisation = inspection.quantisation
    trunk, head = inspection.formats(mtp=False), inspection.formats(mtp=True)
    differs = [kind for kind in head if trunk and kind not in trunk]
    quantised = [kind for kind in differs if kind not in FLOATS]
    # Its table has the format of each module.
    is_mixed = quantisation is not None and quantisation.is_mixed
    if quantised and not is_mixed:
        groups = len((quantisation and quantisation.bits) or ())
        yield CheckpointFinding(
            "mtp-format",
            f"the MTP head is in {_some(quantised)}, and the trunk in {_some(list(trunk))}: few "
            "engines load two formats, and only where the config has a group for each",
            "convert the head as the trunk was, or keep it unquantised and leave it out",
            # How a method that vpatch does not know says so is not known either.
            fault=groups < 2 and (quantisation is None or quantisation.understood),  # noqa: PLR2004
        )
    elif head and trunk and next(iter(head)) != next(iter(trunk)):
        yield CheckpointFinding(
            "mtp-format-differs",
            f"the MTP head is {_some(list(head)[:1])} and the trunk {_some(list(trunk)[:1])}"
            + (", as the quantisation config says" if inspection.leaves_out_head() else ""),
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
            f"its tokenizer class {tokenizer.name} is in transformers from 5.0 on: --python PYTHON "
            "asks one",
            fault=False,
        )


def _some(names: Sequence[str]) -> str:
    return listed(names, _SHOWN)
