"""What a config says of modules, and their tensors do not; every opinion, and no reading."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from vpatch.checkpoint.finding_model import CheckpointFinding
from vpatch.checkpoint.list_entry import Entry, Matching
from vpatch.checkpoint.methods import METHODS, WHILE_LOADING
from vpatch.checkpoint.module_pattern import list_entry, regular_expression
from vpatch.checkpoint.modules import FLOATS, LINEAR_LAYERS, experts_of
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.quantisation import Quantisation

_SHOWN = 4
_HEADS = ("lm_head", "language_model.lm_head", "head")
_EMBEDDINGS = ("embed_tokens", "emb", "embed")
_MODELOPT = ("modelopt", "modelopt_fp4", "modelopt_mxfp8", "modelopt_mixed")
_FP8 = ("fp8", "deepseek_v4_fp8")
_STORED = (
    *_FP8,
    "fbgemm_fp8",
    "compressed-tensors",
    "gptq",
    "gptq_marlin",
    "auto_gptq",
    *_MODELOPT,
)
"""Methods whose checkpoints have quantised tensors: vLLM quantises none while it loads them."""
_MODELOPT_HEADS = "0.23.0"
"""The first release in which ModelOpt's configs cover an output head."""


def contradictions_of(inspection: Inspection) -> Iterator[CheckpointFinding]:
    """Compare what vLLM builds by the config with what the tensors are."""
    quantisation = inspection.quantisation
    if quantisation is None:
        return
    if not quantisation.understood:
        named = quantisation.method
        if named in WHILE_LOADING:
            yield CheckpointFinding(
                "method-refused",
                f"the config names the method {named}, which is one of --quantization: vLLM ends "
                "with an error when it reads the config of a checkpoint that names it",
                "name the method that the checkpoint is stored in, or take quantization_config out "
                "where it is unquantised",
            )
            return
        if quantisation.algorithm is not None:
            named += f" ({quantisation.algorithm})"
        elif quantisation.method in METHODS:
            named += f" in a {quantisation.architecture}"
        yield CheckpointFinding(
            "method-unknown",
            f"vpatch does not know how vLLM reads a config of the method {named}: it compares "
            "nothing with it",
            fault=False,
        )
        return
    if quantisation.is_mixed and not quantisation.layer_algorithms:
        yield CheckpointFinding(
            "method-refused",
            f"{quantisation.algorithm} has an algorithm for each layer, and {quantisation.chosen} "
            "names none: vLLM ends with an error",
            "take quantized_layers from the tool that exported it",
        )
        return
    if quantisation.method in _FP8 and "activation_scheme" not in quantisation.config:
        # Fp8Config.from_config of fp8.py, in each release
        yield CheckpointFinding(
            "method-refused",
            f"{'.'.join(quantisation.way)} has no activation_scheme: vLLM ends with an "
            "error when it reads a config of FP8 without it",
            'set activation_scheme to "dynamic" in it, or to "static" where each module has an '
            "input_scale",
        )
    yield from _scales(inspection, quantisation)
    yield from _plain_trunk(inspection, quantisation)
    yield from _covered(inspection, quantisation)
    yield from _left_out(inspection, quantisation)
    yield from _output_head(inspection, quantisation)


def _plain_trunk(inspection: Inspection, quantisation: Quantisation) -> Iterator[CheckpointFinding]:
    """Report a config that covers layers where no tensor is quantised."""
    method = quantisation.method
    is_stored = method in _STORED and (method not in _MODELOPT or quantisation.algorithm)
    if not is_stored or quantisation.by_tensors or inspection.draft is not None:
        return
    if any(module.quantised for module in inspection.modules.values()):
        return
    covered = [
        name
        for name, module in inspection.modules.items()
        if module.format in FLOATS
        and name in inspection.run_time_names
        and name not in inspection.mtp_modules
        and name.rpartition(".")[2] in LINEAR_LAYERS
        and quantisation.quantises(name)
        and inspection.run_time_names[name] not in inspection.unquantised.ever
        and (method != "compressed-tensors" or quantisation.target_names())
        and inspection.is_targeted(name, quantisation)
    ]
    if covered:
        yield CheckpointFinding(
            "nothing-quantised",
            f"the quantisation config covers {counted(len(covered), 'module')} such as "
            f"{covered[0]}, and no module of the checkpoint is quantised: vLLM builds them "
            f"quantised by {method}, and has no scales for them",
            "take quantization_config out of config.json if the tensors are meant to be so, or "
            "fetch the quantised ones",
            modules=tuple(covered),
            pattern=regular_expression(covered, ()),
        )


def _scales(inspection: Inspection, quantisation: Quantisation) -> Iterator[CheckpointFinding]:
    """Report scales of activations that FP8's config asks for, or does not expect."""
    if quantisation.method != "fp8":
        return
    scheme = quantisation.config.get("activation_scheme")
    eights = [m for m in inspection.modules.values() if (m.format or "").startswith("F8_")]
    lack = [module.name for module in eights if "input_scale" not in module.tensors]
    have = [module.name for module in eights if "input_scale" in module.tensors]
    if scheme == "static" and lack:
        yield CheckpointFinding(
            "activation-scales",
            f"activation_scheme is static, and {counted(len(lack), 'FP8 module')} such as "
            f"{lack[0]} {'has' if len(lack) == 1 else 'have'} no input_scale: vLLM has no scale "
            "for the activations",
            "set activation_scheme to dynamic, or take the scales from the tool that exported it",
            modules=tuple(lack),
            pattern=regular_expression(lack, have),
        )
    elif scheme == "dynamic" and have:
        yield CheckpointFinding(
            "activation-scales",
            f"activation_scheme is dynamic, and {counted(len(have), 'FP8 module')} such as "
            f"{have[0]} {'has' if len(have) == 1 else 'have'} an input_scale: vLLM has nowhere to "
            "load it",
            "set activation_scheme to static, or leave the scales out",
            modules=tuple(have),
            pattern=regular_expression(have, lack),
        )


def _covered(inspection: Inspection, quantisation: Quantisation) -> Iterator[CheckpointFinding]:
    """Report modules of the MTP head that are unquantised, and that vLLM builds quantised."""
    wrong = inspection.built_quantised()
    if not wrong:
        return
    names = _run_time(inspection, wrong)
    kinds = _some(sorted({str(inspection.modules[name].format) for name in wrong}))
    own = [name for name, module in inspection.mtp_modules.items() if module.quantised]
    one = len(names) == 1
    them = "it" if one or not own else "them"
    whose = f"{counted(len(names), 'module')} of the MTP head {'is' if one else 'are'}"
    builds = names[0] if one else f"{len(names)} modules"
    quantised = _run_time(inspection, [n for n, m in inspection.modules.items() if m.quantised])
    pattern = regular_expression(names, set(quantised) - set(names))
    hint = _leave_out(inspection, quantisation, wrong, quantised)
    if any(entry.better for one in inspection.judged for entry in one.entries):
        hint = f"vpatch checkpoint ignore-names {inspection.checkpoint.folder} --write"
    yield CheckpointFinding(
        "mtp-format",
        f"{whose if own else 'the MTP head is'} {kinds}, and the quantisation config covers "
        f"{them}: vLLM will build {builds} quantised"
        f"{'' if one else f', such as {names[0]}'}, and has nowhere to load "
        f"{'it' if one else 'them'}",
        hint,
        modules=tuple(names),
        pattern=pattern,
    )


def _leave_out(
    inspection: Inspection,
    quantisation: Quantisation,
    wrong: Collection[str],
    quantised: Collection[str],
) -> str:
    """Say where to name modules, and by which one entry if there is one."""
    lists = quantisation.list_keys()
    if not lists:
        return "store them as the config says, or convert the checkpoint again"
    way, matching = lists[0]
    where = ".".join(way)
    wanted = dict.fromkeys(_run_time(inspection, wrong))
    if matching in {Matching.REGEX, Matching.CONFIGURED}:
        # Older releases ask a pattern for the parts of a fused module alone.
        for name in wrong:
            wanted.update(dict.fromkeys(inspection.run_time[name].parts))
    entry = list_entry(matching, list(wanted), [n for n in quantised if n not in wanted])
    if entry is None:
        return f"name them in {where}, by these names"
    written = json.dumps(entry)
    if matching is Matching.CONFIGURED:
        return f'add {written} with {{"bits": 16, "data_type": "float"}} to {where}'
    if matching is Matching.DYNAMIC:
        return f"add {written} with {{}} to {where}"
    return f"add {written} to {where}"


def _left_out(inspection: Inspection, quantisation: Quantisation) -> Iterator[CheckpointFinding]:
    """Report modules that are quantised, and that vLLM builds unquantised in every release."""
    wrong = [
        name
        for name, module in inspection.modules.items()
        if module.quantised
        and name in inspection.run_time_names
        and name not in _HEADS
        and name.rpartition(".")[2] not in _EMBEDDINGS
        and not _is_native(inspection, name)
        and (
            inspection.run_time_names[name] in inspection.unquantised.always
            or not quantisation.quantises(name)
            or not inspection.is_targeted(name, quantisation)
        )
    ]
    for covered in (True, False):
        some = [
            name
            for name in wrong
            if (quantisation.quantises(name) and inspection.is_targeted(name, quantisation))
            is covered
        ]
        if some:
            yield _built_unquantised(inspection, quantisation, some, covered=covered)


def _built_unquantised(
    inspection: Inspection, quantisation: Quantisation, wrong: Collection[str], *, covered: bool
) -> CheckpointFinding:
    """`covered`: the method is for such modules, so that the config is what leaves them out."""
    names = _run_time(inspection, wrong)
    others = set(inspection.run_time_names.values()) - set(names)
    one = len(names) == 1
    them = "it" if one else "them"
    says = f"the method does not cover {them}"
    if any(not inspection.is_targeted(name, quantisation) for name in wrong):
        says = f"no target of config_groups is for {them}"
    hint = "take the config of the tool that exported it"
    lists = listed([one.where for one in quantisation.ignored()])
    if covered and quantisation.chosen is not None:
        says = f"{lists} or {quantisation.chosen}" if lists else quantisation.chosen
        says += f" leaves {them} out"
        hint = f"name {them} in {quantisation.chosen}" + (f", and not in {lists}" if lists else "")
    elif covered:
        says, hint = f"{lists} leaves {them} out", f"take {them} off {lists}"
    mtp = all(name in inspection.mtp_modules for name in wrong)
    whose = " of the MTP head" if mtp else ""
    return CheckpointFinding(
        "quantised-left-out",
        f"{counted(len(names), 'module')}{whose} {'is' if one else 'are'} quantised, such as "
        f"{names[0]}, and {says}: vLLM builds {them} unquantised, and has nowhere to load the "
        "scales",
        hint,
        modules=tuple(names),
        pattern=regular_expression(names, others),
    )


def _is_native(inspection: Inspection, name: str) -> bool:
    """Whether it is an expert of a DeepSeek-V4, which vLLM reads in its own format anyway."""
    architecture = inspection.checkpoint.architecture or ""
    return architecture.startswith("DeepseekV4") and experts_of(name) is not None


def _output_head(inspection: Inspection, quantisation: Quantisation) -> Iterator[CheckpointFinding]:
    """Report an output head in another format than vLLM builds it."""
    if inspection.checkpoint.language.get("tie_word_embeddings") is True:
        return
    for name in _HEADS:
        module = inspection.modules.get(name)
        if module is None or module.format is None:
            continue
        covers = _covers_head(inspection, quantisation, name)
        run = inspection.run_time_names[name]
        if covers is None or run in inspection.unquantised.ever - inspection.unquantised.always:
            continue  # not known, or not so in each release
        pattern = regular_expression([name], ())
        if module.quantised and not covers:
            yield CheckpointFinding(
                "head-format",
                f"{name} is {module.format}, and vLLM builds it unquantised by this config: it "
                "has nowhere to load its scales",
                "store it unquantised",
                modules=(name,),
                pattern=pattern,
            )
        elif module.quantised and quantisation.method.startswith("modelopt"):
            yield CheckpointFinding(
                "head-format",
                f"{name} is {module.format}: releases before {_MODELOPT_HEADS} build it "
                "unquantised, and end with an error at its scales",
                f"take vLLM {_MODELOPT_HEADS} or later, or store it unquantised",
                fault=False,
                modules=(name,),
                pattern=pattern,
            )
        elif module.format in FLOATS and covers:
            since = f" from {_MODELOPT_HEADS} on" if quantisation.algorithm else ""
            yield CheckpointFinding(
                "head-format",
                f"{name} is {module.format}, and the quantisation config covers it{since}: a model "
                "of vLLM that gives its head the config has nowhere to load it",
                _leave_out(inspection, quantisation, [name], ()),
                # Whether a model does, only its code says.
                fault=False,
                modules=(name,),
                pattern=pattern,
            )


def _covers_head(inspection: Inspection, quantisation: Quantisation, name: str) -> bool | None:
    """Whether vLLM builds an output head quantised; None where that is not known."""
    run = inspection.run_time_names[name]
    left_out = run in inspection.unquantised.always
    match quantisation.method:
        case "compressed-tensors":
            # The target `Linear` is not for an output head.
            targets = quantisation.target_names()
            is_target = any(Entry(one, Matching.REGEX).those([run, name]) for one in targets)
            return is_target and not left_out
        case "modelopt" | "modelopt_fp4" | "modelopt_mxfp8" | "modelopt_mixed":
            return not left_out
        case "humming":
            return False
        case "fp8" | "fbgemm_fp8" | "quark" | "mxfp4" | "gpt_oss_mxfp4" | "torchao":
            return False
        case "gptq" | "gptq_marlin" | "auto_gptq" | "awq" | "awq_marlin" | "auto_awq":
            return None if quantisation.config.get("lm_head") else False
        case _:
            return None


def _run_time(inspection: Inspection, names: Collection[str]) -> list[str]:
    return list(dict.fromkeys(inspection.run_time_names.get(name, name) for name in names))


def _some(names: Collection[str]) -> str:
    return listed(list(names), _SHOWN)
