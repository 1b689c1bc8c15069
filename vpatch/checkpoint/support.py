"""What a release of vLLM has for a checkpoint, read from the release's own registries."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.conversions import is_registered
from vpatch.checkpoint.gaps import gaps_of
from vpatch.checkpoint.methods import MODELSLIM_METHOD, WHILE_LOADING
from vpatch.checkpoint.override import (
    RefusedConfigError,
    UnreadableOverrideError,
    draft_architecture,
)
from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.checkpoint.inspection import Inspection
    from vpatch.checkpoint.quantisation import Quantisation
    from vpatch.source.tree import Tree

REGISTRY = "vllm/model_executor/models/registry.py"
SPECULATIVE = "vllm/config/speculative.py"
QUANTISATION = "vllm/model_executor/layers/quantization/__init__.py"
FILES = (REGISTRY, SPECULATIVE, QUANTISATION)
_METHOD_OVERRIDE = "override_quantization_method"
_MODELOPT = "vllm/model_executor/layers/quantization/modelopt.py"
_SPECULATORS = "vllm/transformers_utils/configs/speculators/algos.py"
_V41 = "DeepseekV41ForCausalLM"
_ALL = "_VLLM_MODELS"
_DRAFTS = "_SPECULATIVE_DECODING_MODELS"
_METHODS = "QuantizationMethods"
_OVERRIDE = "hf_config_override"


@dataclass(frozen=True)
class Support:
    """What a release has. None: the checkpoint does not say what to look for.

    `architecture`: the release registers the model, or the one that vLLM makes it of. `mtp`: it has
    a draft model for the MTP layers, and its loader reads them. `quantisation`: it knows the
    method, or another one that reads it.
    """

    architecture: bool | None
    mtp: bool | None
    quantisation: bool | None


class RegistryError(VpatchError):
    """A release has its registries elsewhere, or in another form."""

    code = "checkpoint.unknown-registry"


def files_of(tree: Tree) -> dict[str, bytes]:
    """Return the files of a release that say what it has."""
    there = set(tree.paths())
    wanted = {*FILES, _MODELOPT, _SPECULATORS, *tree.containing(_METHOD_OVERRIDE.encode())}
    return {path: tree.read(path) for path in sorted(wanted & there) if path.startswith("vllm/")}


def support_of(inspection: Inspection, files: Mapping[str, bytes], release: str) -> Support:
    """Compare a checkpoint with a release. `files` are those of `files_of`.

    It reads syntax, and runs nothing. vLLM's `hf_config_override` says which draft model a config
    gets. Its conditions are evaluated on this config; `mtp` is None if they have an unknown form.

    Raises:
        RegistryError: a file is not there, or not as it was in 0.20.0 to 0.33.0.
    """
    try:
        return _support(inspection, files, release)
    except (
        *(KeyError, StopIteration, SyntaxError, ValueError, AttributeError, TypeError),
        *(RecursionError, MemoryError),
    ) as error:
        raise RegistryError(
            f"vpatch cannot read what vLLM {release} has: {type(error).__name__}: {error}",
            hint="name another release; vpatch reads those from 0.20.0 to 0.33.0",
        ) from error


def _support(inspection: Inspection, files: Mapping[str, bytes], release: str) -> Support:
    checkpoint, quantisation = inspection.checkpoint, inspection.quantisation
    architecture = checkpoint.architecture
    known, drafts = _models(ast.parse(files[REGISTRY]))
    types = (checkpoint.config.get("model_type"), checkpoint.language.get("model_type"))
    named = {name for name in types if isinstance(name, str)}
    method = _has_method(quantisation, files) if quantisation else None
    draft = inspection.draft
    if draft is not None and not draft.inside:
        return Support(_has_draft(inspection, files, drafts), None, method)
    has_mtp = inspection.mtp.scheme is not None or inspection.mtp.count > 0
    mtp: bool | None = None
    if draft is not None:
        model = "DSparkV41DraftModel" if architecture == _V41 else "DSparkDraftModel"
        mtp = draft.release is not None and model in drafts and architecture in known
    elif has_mtp and named:
        try:
            reached = _draft_of(ast.parse(files[SPECULATIVE]), inspection)
        except UnreadableOverrideError:
            mtp = None
        else:
            has_gap = any(gap.has(release) for gap in gaps_of(inspection))
            mtp = reached in drafts and not has_gap
    return Support(is_registered(architecture, known) if architecture else None, mtp, method)


def _has_draft(inspection: Inspection, files: Mapping[str, bytes], drafts: set[str]) -> bool:
    """Whether a release registers a draft, under its name or under what it makes of that."""
    word = inspection.checkpoint.config.get("speculators_model_type")
    if isinstance(word, str):
        algorithms = ast.parse(files.get(_SPECULATORS, b""))
        return any(
            isinstance(node, ast.Call) and word in _strings(node.args)
            for node in ast.walk(algorithms)
        )
    architecture = inspection.checkpoint.architecture or ""
    draft = inspection.draft
    if draft is not None and draft.kind == "medusa":
        architecture = "MedusaModel"  # the older ones name none
    prefixes = ("", "Eagle", "Eagle3", "DFlash")
    if drafts & {f"{prefix}{architecture}" for prefix in prefixes}:
        return True
    try:
        return _draft_of(ast.parse(files[SPECULATIVE]), inspection) in drafts
    except UnreadableOverrideError:
        return False


def _has_method(quantisation: Quantisation, files: Mapping[str, bytes]) -> bool | None:
    """Whether a release reads the method's configs; None for one that is not vLLM's."""
    method, algorithm = quantisation.method, quantisation.algorithm
    if method == MODELSLIM_METHOD:
        return None
    if method in WHILE_LOADING:
        return False
    if algorithm is not None and _MODELOPT in files and algorithm not in _algorithms(files):
        return False
    if method in _methods(ast.parse(files[QUANTISATION])):
        return True
    return any(_takes_over(text, method) for text in files.values())


def _algorithms(files: Mapping[str, bytes]) -> set[str]:
    """Return the algorithms of ModelOpt that a release knows."""
    return {
        text
        for name, value in _assignments(ast.parse(files[_MODELOPT]))
        if name in {"QUANT_ALGOS", "LINEAR_ALGOS"}
        for text in _strings(ast.walk(value))
    }


def _takes_over(text: bytes, method: str) -> bool:
    """Whether a class of a file says that it reads the configs of another method."""
    if _METHOD_OVERRIDE.encode() not in text or method.encode() not in text:
        return False
    return any(
        isinstance(node, ast.FunctionDef)
        and node.name == _METHOD_OVERRIDE
        and any(_asks_for(one, method) for one in ast.walk(node))
        for node in ast.walk(ast.parse(text))
    )


def _asks_for(node: ast.AST, method: str) -> bool:
    """Whether it is a comparison of the method's name, as `quant_method == "auto-round"` is."""
    if not isinstance(node, ast.Compare) or not isinstance(node.ops[0], ast.Eq | ast.In):
        return False
    asked = ast.unparse(node.left)
    return "quant_method" in asked and method in _strings(ast.walk(node.comparators[0]))


def _models(registry: ast.Module) -> tuple[set[str], set[str]]:
    """Return the registered architectures, and those of them that are drafts."""
    tables = {name: value for name, value in _assignments(registry) if isinstance(value, ast.Dict)}
    whole = tables[_ALL]
    parts = [one.id for one in whole.values if isinstance(one, ast.Name)]
    keys = {name: _strings(key for key in tables[name].keys if key) for name in parts}
    return set().union(*keys.values()), keys[_DRAFTS]


def _draft_of(module: ast.Module, inspection: Inspection) -> str | None:
    """Return the architecture of the draft that a release makes of a config; None for none."""
    function = next(
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == _OVERRIDE
    )
    try:
        return draft_architecture(function, inspection.checkpoint.config)
    except RefusedConfigError:
        return None


def _methods(module: ast.Module) -> set[str]:
    (expression,) = (value for name, value in _assignments(module) if name == _METHODS)
    return _strings(ast.walk(expression))


def _assignments(module: ast.Module) -> Iterable[tuple[str, ast.expr]]:
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                yield name, value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value


def _strings(nodes: Iterable[ast.AST]) -> set[str]:
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
