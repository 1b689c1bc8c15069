"""MTP layers: how many a config declares, and which of their tensors are there."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import as_count
from vpatch.checkpoint.modules import any_expert, split_name
from vpatch.checkpoint.schemes import KEYS, SCHEMES, TRUNK, Family, Scheme, family_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import JsonValue

    from vpatch.checkpoint.folder import Checkpoint
    from vpatch.checkpoint.modules import Module

_DEEP = 3


@dataclass(frozen=True)
class DeclaredMtp:
    """One key of a config that counts MTP layers, with the way to it, such as text_config."""

    key: str
    count: int


@dataclass(frozen=True)
class Mtp:
    """The MTP layers of a checkpoint.

    `layers` has each layer's number and the names of its tensors, and `shared` what no layer has
    alone. `scheme` is how they are named; None where there are none. `missing` has modules that
    must be there and are not; `lacking` modules that have a quantised matrix and no scale.
    """

    family: Family | None
    declared: tuple[DeclaredMtp, ...]
    scheme: Scheme | None
    layers: dict[int, tuple[str, ...]]
    shared: tuple[str, ...]
    missing: tuple[str, ...] = ()
    lacking: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return (*(name for names in self.layers.values() for name in names), *self.shared)

    @property
    def count(self) -> int:
        """How many layers the config declares, where it declares any, and vLLM would look for."""
        if self.family is not None and self.family.always is not None:
            return self.family.always
        return max((one.count for one in self._own), default=0)

    @property
    def assumed(self) -> int | None:
        """How many layers vLLM takes of a config without the key; None if it needs the key."""
        return self.family.default if self.family is not None and not self._own else None

    @property
    def _own(self) -> list[DeclaredMtp]:
        """What the key says that vLLM reads for this model; all of them for an unknown one."""
        family = self.family
        if family is None:
            return list(self.declared)
        return [one for one in self.declared if one.key.rpartition(".")[2] == family.key]

    @property
    def has_fixed_count(self) -> bool:
        """Whether vLLM takes a fixed number of layers of this model."""
        return self.family is not None and self.family.always is not None


def find_mtp(checkpoint: Checkpoint, modules: dict[str, Module]) -> Mtp:
    """Look for MTP layers, by the naming of the architecture or else by every known one."""
    family = family_of(checkpoint.architecture)
    declared = tuple(_declarations(checkpoint.config, ""))
    names = [*checkpoint.names(), *(n for lost in checkpoint.missing.values() for n in lost)]
    for scheme in dict.fromkeys([*([family.scheme] if family else []), *SCHEMES]):
        layers, shared = _match_names(scheme, names, checkpoint.layers)
        if layers or shared:
            mtp = Mtp(family, declared, scheme, layers, shared)
            missing = tuple(_missing(mtp, checkpoint, modules))
            own = {split_name(name)[0] for name in mtp.names}
            lacking = tuple(sorted(n for n in own if n in modules and modules[n].lacks_scale))
            return Mtp(family, declared, scheme, layers, shared, missing, lacking)
    return Mtp(family, declared, None, {}, ())


def layer_of(scheme: Scheme, name: str, trunk: int | None) -> int | None:
    """Return the number of the MTP layer that a tensor belongs to, counted from 0."""
    match = scheme.layer.match(name)
    if match is None:
        return None
    number = int(match["layer"])
    if not scheme.behind:
        return number
    return number - trunk if trunk is not None and number >= trunk else None


def _match_names(
    scheme: Scheme, names: Iterable[str], trunk: int | None
) -> tuple[dict[int, tuple[str, ...]], tuple[str, ...]]:
    layers = defaultdict(list)
    shared = []
    for name in sorted(names):
        layer = layer_of(scheme, name, trunk)
        if layer is not None:
            layers[layer].append(name)
        elif scheme.shared is not None and scheme.shared.match(name):
            shared.append(name)
    return {n: tuple(layers[n]) for n in sorted(layers)}, tuple(shared)


def _declarations(config: dict[str, JsonValue], way: str, depth: int = 0) -> Iterator[DeclaredMtp]:
    for key, value in config.items():
        if isinstance(value, dict) and depth < _DEEP and key != "quantization_config":
            yield from _declarations(value, f"{way}{key}.", depth + 1)
        elif key in KEYS and (count := as_count(value)) is not None:
            yield DeclaredMtp(f"{way}{key}", count)


def _missing(mtp: Mtp, checkpoint: Checkpoint, modules: dict[str, Module]) -> Iterator[str]:
    """Name modules that must be there: what joins a layer to the trunk, and what siblings have."""
    scheme = mtp.scheme
    if scheme is None:
        return
    wanted = _children(modules, checkpoint.layers) if scheme.like_trunk else {}
    wanted = {parent: parts.difference(scheme.trunk_alone) for parent, parts in wanted.items()}
    for number in range(max(mtp.count, max(mtp.layers, default=0) + 1)):
        if number not in mtp.layers:
            continue  # said once, and not of each of its modules
        inside = {inner_name(scheme, name) for name in mtp.layers[number]}
        start = _start(scheme, mtp.layers[number][0])
        yield from _absent(start, inside, wanted)
        if scheme.shared is None:
            yield from _without(scheme, start, inside)
    if scheme.shared is not None and mtp.layers:
        inside = {scheme.shared.sub("", name, count=1) for name in mtp.shared}
        yield from _without(scheme, scheme.home, inside)


def _without(scheme: Scheme, start: str, inside: set[str]) -> Iterator[str]:
    """Name what joins a layer to the trunk and is not inside, by the first of its names."""
    for glue in scheme.glue:
        names = glue.split("|")
        if not any(has_module(inside, name) for name in names):
            yield f"{start}{names[0]}"


def _absent(start: str, inside: set[str], wanted: dict[str, set[str]]) -> Iterator[str]:
    """Name what each module inside a layer has in every layer of the trunk, and has not here."""
    here: dict[str, set[str]] = defaultdict(set)
    for name in inside:
        parts = name.split(".")
        for i in range(len(parts)):
            here[".".join(parts[:i])].add(parts[i])
    for parent, children in sorted(here.items()):
        expected = wanted.get(any_expert(parent), set())
        if _one_by_one(expected) != _one_by_one(children):
            continue  # experts in one tensor there, and one by one here: none is missing
        for child in sorted(expected - children):
            yield f"{start}{parent}.{child}" if parent else f"{start}{child}"


def _one_by_one(children: set[str]) -> bool:
    """Whether what is inside a module is numbered, as experts are that have matrices alone."""
    return any(child.isdecimal() for child in children)


def _children(modules: dict[str, Module], trunk: int | None) -> dict[str, set[str]]:
    """Return what every layer of the trunk that has a module has inside it, by the module."""
    counted: dict[str, Counter[str]] = defaultdict(Counter)
    parents: Counter[str] = Counter()
    seen: set[tuple[str, str]] = set()
    for name in modules:
        match = TRUNK.match(name)
        if match is None or trunk is None or int(match["layer"]) >= trunk:
            continue
        before, parts = match[0], name[match.end() :].split(".")
        for i, part in enumerate(parts):
            parent = ".".join(parts[:i])
            if (before + parent, "") not in seen:
                seen.add((before + parent, ""))
                parents[any_expert(parent)] += 1
            if (before + parent, part) not in seen:
                seen.add((before + parent, part))
                counted[any_expert(parent)][part] += 1
    return {
        parent: {child for child, times in children.items() if times == parents[parent]}
        for parent, children in counted.items()
    }


def _start(scheme: Scheme, name: str) -> str:
    match = scheme.layer.match(name)
    return match[0] if match else ""


def inner_name(scheme: Scheme, name: str) -> str:
    """Return the module inside a layer that a tensor belongs to; a tensor of the layer itself."""
    inner = name[len(_start(scheme, name)) :].removeprefix(scheme.left_away)
    return split_name(inner)[0] or inner


def has_module(inside: set[str], module: str) -> bool:
    """Whether one of these names is that of a module, or of a part of it."""
    return any(name == module or name.startswith(f"{module}.") for name in inside)
