"""ModelOpt's MIXED_PRECISION: which modules its `quantized_layers` are for, in each release.

The rules are those of ModelOptMixedPrecisionConfig._resolve_quant_algo in vLLM 0.20.0 to 0.33.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vpatch.checkpoint.fused import with_prefix
from vpatch.checkpoint.modules import experts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.checkpoint.fused import Naming, RunTime
    from vpatch.checkpoint.quantisation import Quantisation

_OLDEST = "0.20.0"
_EVERYWHERE = ("FP8", "NVFP4")
"""Algorithms for a layer that each of these releases knows."""
# From 0.25 on, these are known without a packed_modules_mapping.
_SHARDS = {"qkv_proj": ("q_proj", "k_proj", "v_proj"), "gate_up_proj": ("gate_proj", "up_proj")}


class Covered(NamedTuple):
    """Modules by their names in vLLM: those that every release quantises, and what one may."""

    always: frozenset[str]
    ever: frozenset[str]


def covered_by_layers(
    quantisation: Quantisation, naming: Naming, modules: Iterable[RunTime]
) -> Covered:
    """Return the modules that `quantized_layers` names, by the rules of all releases."""
    layers = {
        with_prefix(naming, name): algorithm
        for name, algorithm in quantisation.layer_algorithms.items()
    }
    parents = _parents(layers)
    always, ever = set(), set()
    for module in modules:
        for key, everywhere in _keys(module, layers, parents):
            ever.add(module.name)
            if everywhere and layers[key] in _EVERYWHERE:
                always.add(module.name)
    return Covered(frozenset(always), frozenset(ever))


def _keys(
    module: RunTime, layers: dict[str, str], parents: dict[str, str]
) -> Iterator[tuple[str, bool]]:
    """Yield entries for a module, each with whether every release takes it for that."""
    name = experts_of(module.name) or module.name
    for candidate in _candidates(name):
        # Before 0.22, the name alone was looked for.
        as_it_is = candidate == name
        if candidate in layers:
            yield candidate, as_it_is
        if candidate in parents:
            yield parents[candidate], as_it_is
        if (
            candidate.endswith(".experts")
            and (above := candidate.removesuffix(".experts")) in parents
        ):
            yield parents[above], False
    shards = tuple(part.rpartition(".")[2] for part in module.parts)
    shards = shards or _SHARDS.get(name.rpartition(".")[2], ())
    above = name.rpartition(".")[0]
    for candidate in _candidates(above) if shards else ():
        named = next((f"{candidate}.{s}" for s in shards if f"{candidate}.{s}" in layers), None)
        if named is not None:
            yield named, candidate == above and module.declared == _OLDEST


def _candidates(name: str) -> Iterator[str]:
    yield name
    if name.endswith(".lm_head"):
        yield "lm_head"
    first, second = "language_model.model.", "model.language_model."
    for one, other in ((first, second), (second, first)):
        if name.startswith(one):
            yield other + name.removeprefix(one)


def _parents(layers: dict[str, str]) -> dict[str, str]:
    """Return the first entry below each module that has one."""
    parents: dict[str, str] = {}
    for key in layers:
        parts = key.split(".")
        for count in range(1, len(parts)):
            parents.setdefault(".".join(parts[:count]), key)
    return parents
