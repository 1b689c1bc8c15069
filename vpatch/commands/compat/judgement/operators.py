"""Operators: those that the target uses, and those that modules name on import."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from vpatch.commands.compat.code.part import module_at
from vpatch.commands.compat.code.read import UnreadableError, parse
from vpatch.commands.compat.judgement.fact import Fact
from vpatch.commands.compat.surface.items import Item, Ref, Spot
from vpatch.operators.import_time import NamedOperator, operators_named
from vpatch.operators.lack import LACKS, lack_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.items import Surface
    from vpatch.commands.compat.target import CompatTarget

_QUESTION = "the operators that a module names on import, form 1"
_NOT_NAMED = Fact("here", "no module needs it to be imported")


def operator_fact(release: JudgedRelease, name: str) -> Fact:  # noqa: PLR0911 - in order
    """Return whether vLLM or the target defines an operator such as `_C.silu_and_mul`."""
    namespace, _, last = name.partition(".")
    if last in release.own_operators or release.built_operators.has(name, any_overload=True):
        return Fact("own")
    if _is_replaced(release, namespace):
        return Fact("unknown", f"the target builds {namespace} itself, perhaps without {last}")
    word = re.escape(last)
    text = "\n".join(release.texts(last))
    registered = rf"[\"'](?:{re.escape(namespace)}::)?{word}(?:\(|[\"'])"
    if re.search(registered, text) or re.search(rf"\bdef {word}\(", text):
        return Fact("here", what="operator")
    native = release.native_text
    if native is None:
        return Fact("unknown", "operators are compiled, and this vLLM is built")
    if last in release.registered_operators:
        return Fact("here", what="operator")
    if last in native or last in text:
        return Fact("unknown", f"the sources have the name {last}, and no definition")
    return Fact("gone", f"no source of vLLM defines {name}")


def _is_replaced(release: JudgedRelease, namespace: str) -> bool:
    """Whether the target builds a namespace in the place of vLLM's build of it.

    No process has two libraries that both own it, or that register the same operator in it.
    """
    built = release.built_operators
    return namespace in built.whole or (
        namespace in built.places
        and not release.registered_operators.isdisjoint(built.names_in(namespace))
    )


def operator_facts(
    release: JudgedRelease, target: CompatTarget, surface: Surface
) -> dict[Item, Fact]:
    """Return what the target's build lacks of what vLLM's and its own modules name on import."""
    facts: dict[Item, tuple[int, Fact]] = {}
    namespaces = {one for one in surface.built.places if _is_replaced(release, one)}
    for is_own, path, named in _named(release, target, namespaces):
        namespace = named.name.partition(".")[0]
        if namespace in namespaces:
            weight, fact = _fact(surface, namespace, path, named, is_own=is_own)
            spot = Spot(path, named.line) if is_own else Spot(*surface.built.places[namespace])
            ref = Ref((f"torch.ops.{named.name}",))
            item = Item("operator", named.name, spot, ref, own_name="own" if is_own else "vllm")
            if weight and (item not in facts or facts[item][0] < weight):
                facts[item] = weight, fact
    return {item: fact for item, (_, fact) in facts.items()}


def add_operators(surface: Surface, facts: list[list[Fact]], named: list[dict[Item, Fact]]) -> None:
    """Add the operators of some releases to the items, and to the facts of each release."""
    for item in sorted({one for several in named for one in several}, key=lambda one: one.name):
        if item.key not in surface.items:
            for of_release, several in zip(facts, named, strict=True):
                of_release.append(several.get(item, _NOT_NAMED))
        surface.add(item)


def _named(
    release: JudgedRelease, target: CompatTarget, namespaces: set[str]
) -> Iterator[tuple[bool, str, NamedOperator]]:
    for path in sorted({path for one in namespaces for path in release.holding(one)}):
        for row in release.ask(_QUESTION, path, _rows):
            name, line, is_any, asked, not_asked, condition = row
            named = NamedOperator(name, line, is_any, tuple(asked), tuple(not_asked), condition)
            yield False, path, named
    for path in target.modules.values():
        if any(one.encode() in target.files[path] for one in namespaces):
            yield from ((True, path, NamedOperator(*row)) for row in _rows(target.files[path]))


def _rows(source: bytes) -> list[Any]:
    if b"torch" not in source:
        return []
    try:
        return [list(one) for one in operators_named(parse(source))]
    except (UnreadableError, RecursionError):
        return []


def _fact(
    surface: Surface, namespace: str, path: str, named: NamedOperator, *, is_own: bool
) -> tuple[int, Fact]:
    lack, why = lack_of(surface.built, named)
    others = sorted(one for one in surface.kernels if one.rpartition(".")[2].startswith(namespace))
    if named.name.partition(".")[2] in surface.operators:
        return LACKS.index("here"), Fact("own")
    if lack == "gone" and (others or namespace in surface.libraries):
        lack, why = "perhaps", f"unless {others[0] if others else 'its Python code'} registers it"
    whose = "its module" if is_own else "vLLM's module"
    text = f"{whose} {module_at(path)} names it when it is imported, and the target's build"
    where = "" if is_own else f"{path}:{named.line}"
    match lack:
        case "not run" | "here":
            fact = Fact("here", where=where)
        case "unknown":
            fact = Fact("unknown", f"{text} may not have it: {why}", where)
        case "perhaps":
            fact = Fact("here", "", where, "unchecked", (f"{text} does not have it ({why})",))
        case "gone":
            fact = Fact("gone", f"{text} does not have it", where)
    return LACKS.index(lack), fact
