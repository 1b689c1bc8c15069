"""What a release of vLLM has for a checkpoint, read from the release's own registries."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.schemes import family_of
from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from vpatch.checkpoint.inspection import Inspection

REGISTRY = "vllm/model_executor/models/registry.py"
SPECULATIVE = "vllm/config/speculative.py"
QUANTISATION = "vllm/model_executor/layers/quantization/__init__.py"
FILES = (REGISTRY, SPECULATIVE, QUANTISATION)
_ALL = "_VLLM_MODELS"
_DRAFTS = "_SPECULATIVE_DECODING_MODELS"
_METHODS = "QuantizationMethods"
_OVERRIDE = "hf_config_override"


@dataclass(frozen=True)
class Support:
    """What a release has. None: the checkpoint does not say what to look for.

    `architecture`: the release registers the model. `mtp`: it has a draft model for the MTP layers.
    `quantisation`: it knows the method.
    """

    architecture: bool | None
    mtp: bool | None
    quantisation: bool | None


class RegistryError(VpatchError):
    """A release has its registries elsewhere, or in another form."""

    code = "checkpoint.unknown-registry"


def support_of(inspection: Inspection, files: Mapping[str, bytes], release: str) -> Support:
    """Compare a checkpoint with a release. `files` are those of `FILES` that the release has.

    It reads syntax, and runs nothing. vLLM's `hf_config_override` says which draft model a config
    gets; the conditions in it are compared by their names alone, so `mtp` does not know that a
    release refuses some values of a config.

    Raises:
        RegistryError: a file is not there, or not as it was in 0.20.0 to 0.33.0.
    """
    try:
        return _support(inspection, files)
    except (
        *(KeyError, StopIteration, SyntaxError, ValueError, AttributeError, TypeError),
        *(RecursionError, MemoryError),
    ) as error:
        raise RegistryError(
            f"vpatch cannot read what vLLM {release} has: {type(error).__name__}: {error}",
            hint="name another release; vpatch reads those from 0.20.0 to 0.33.0",
        ) from error


def _support(inspection: Inspection, files: Mapping[str, bytes]) -> Support:
    checkpoint, method = inspection.checkpoint, inspection.quantisation
    architecture = checkpoint.architecture
    registry = ast.parse(files[REGISTRY])
    known, drafts = _models(registry)
    types = (checkpoint.config.get("model_type"), checkpoint.language.get("model_type"))
    named = {name for name in types if isinstance(name, str)}
    names = named | {architecture} if architecture else named
    has_mtp = family_of(architecture) is not None or inspection.mtp.scheme is not None
    return Support(
        architecture in known if architecture else None,
        bool(_follow_overrides(ast.parse(files[SPECULATIVE]), names) & drafts)
        if has_mtp and named
        else None,
        method.method in _methods(ast.parse(files[QUANTISATION])) if method else None,
    )


def _models(registry: ast.Module) -> tuple[set[str], set[str]]:
    """Return the registered architectures, and those of them that are drafts."""
    tables = {name: value for name, value in _assignments(registry) if isinstance(value, ast.Dict)}
    whole = tables[_ALL]
    parts = [one.id for one in whole.values if isinstance(one, ast.Name)]
    keys = {name: _strings(key for key in tables[name].keys if key) for name in parts}
    return set().union(*keys.values()), keys[_DRAFTS]


def _follow_overrides(module: ast.Module, names: set[str]) -> set[str]:
    """Follow vLLM's changes of a config, in their order; return all names that it may get."""
    all_names = set(names)
    function = next(
        node
        for node in ast.walk(module)
        if isinstance(node, ast.FunctionDef) and node.name == _OVERRIDE
    )
    for statement in function.body:
        if isinstance(statement, ast.If) and _strings(ast.walk(statement.test)) & all_names:
            all_names |= _strings(node for part in statement.body for node in ast.walk(part))
    return all_names


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
