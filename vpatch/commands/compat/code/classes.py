"""What classes have: their bases in order, and what they inherit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.commands.compat.code.codebase import (
    DefinedPlace,
    IsGone,
    IsHere,
    IsOutside,
    IsUnknown,
    effective,
)
from vpatch.commands.compat.code.libraries import CLOSED
from vpatch.commands.compat.code.outline import Class, Function, Import, Value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.code.codebase import Answer, Codebase
    from vpatch.commands.compat.code.outline import Binding

_OBJECT = frozenset(
    [*dir(object), *dir(type), "__dict__", "__annotations__", "__module__", "__dataclass_fields__"]
)
# Of classes that inherit from each other.
_DEEPEST = 20
# Decorators of classes that add no names but those that _OBJECT has.
_PLAIN_DECORATORS = frozenset(
    [
        *("config", "dataclass", "final", "register", "register_oot", "runtime_checkable"),
        *("total_ordering", "unique"),
    ]
)
Kind = Literal[
    "method",
    "async method",
    "property",
    "static method",
    "class method",
    "value",
    "class",
    "import",
]


@dataclass(frozen=True)
class BaseLine:
    """The classes that a class inherits from, in order, itself first.

    `outside` are the names of bases that vpatch does not read. `open` says why there may be more
    than one can see, or is "".
    """

    places: tuple[DefinedPlace, ...]
    outside: tuple[str, ...]
    open: str


def line_of(code: Codebase, place: DefinedPlace, depth: int = 0) -> BaseLine:
    """Return the bases of a class, in the order in which Python asks them, nearly."""
    key = (place.module, place.name, place.binding.first)
    if key not in code.lines:
        code.lines[key] = _line_of(code, place, depth)
    return code.lines[key]


def _line_of(code: Codebase, place: DefinedPlace, depth: int) -> BaseLine:
    places: list[DefinedPlace] = []
    outside: list[str] = []
    reasons: list[str] = []
    for one in _walk(code, place, depth, outside, reasons):
        # Python asks a base that several classes share after all of them.
        if one in places:
            places.remove(one)
        places.append(one)
    return BaseLine(tuple(places), tuple(dict.fromkeys(outside)), reasons[0] if reasons else "")


def _walk(
    code: Codebase, place: DefinedPlace, depth: int, outside: list[str], reasons: list[str]
) -> Iterator[DefinedPlace]:
    yield place
    one = place.binding
    if not isinstance(one, Class) or depth > _DEEPEST:
        return
    for base in one.bases:
        answer = code.resolve(place.module, base, depth) if base != "?" else IsUnknown("?")
        if isinstance(answer, IsHere) and isinstance(answer.place.binding, Class):
            if not answer.is_sure:
                reasons.append(f"{base} has several definitions, under conditions")
            if answer.place[:2] != place[:2]:
                yield from _walk(code, answer.place, depth + 1, outside, reasons)
        elif isinstance(answer, IsOutside):
            outside.append(answer.name)
        elif base in CLOSED:
            outside.append(base)
        else:
            reasons.append(f"vpatch does not know {place.name}'s base {base}")
    reasons += _reasons(place, one)


def _reasons(place: DefinedPlace, one: Class) -> Iterator[str]:
    if one.is_dynamic:
        yield f"{place.name} sets attributes by names that it computes"
    if not one.members.keys().isdisjoint({"__getattr__", "__getattribute__"}):
        yield f"{place.name} has a __getattr__"
    for decorator in one.decorators:
        if decorator.partition("(")[0].rpartition(".")[2] not in _PLAIN_DECORATORS:
            yield f"the decorator {decorator.partition('(')[0]} may add to {place.name}"
    if one.keywords.get("metaclass", "ABCMeta").rpartition(".")[2] not in {"ABCMeta", "EnumMeta"}:
        yield f"{place.name} has the metaclass {one.keywords['metaclass']}"


def member_of(code: Codebase, place: DefinedPlace, name: str, depth: int = 0) -> Answer:
    """Return what a class has under a name, its own or inherited."""
    return member_in(line_of(code, place, depth), name, place)


def member_in(line: BaseLine, name: str, place: DefinedPlace) -> Answer:
    """Return the first member of a line of classes that has a name."""
    for one in line.places:
        answer = own_member(one, name)
        if answer is not None:
            return answer
    if name in _OBJECT:
        return IsOutside(name)
    for base in line.outside:
        known = CLOSED.get(base.rpartition(".")[2])
        if known is None:
            return IsUnknown(f"{place.name} inherits from {base}")
        if name in known:
            return IsOutside(name)
    if line.open:
        return IsUnknown(line.open)
    return IsGone(f"{place.name} has no {name}", place.dotted)


def own_member(place: DefinedPlace, name: str) -> Answer | None:
    """Return what a class itself has under a name."""
    one = place.binding
    if not isinstance(one, Class):
        return None
    several = [b for b in one.members.get(name, ()) if b.presence != "typing"]
    if several:
        counting = effective(several)
        if all(b.presence == "sometimes" for b in counting):
            return IsUnknown(f"only some conditions define {name} in {place.name}")
        last = counting[-1]
        # A method may say more of the type of what the class only declares.
        set_later = one.attributes.get(name)
        if isinstance(last, Value) and not last.type and set_later is not None:
            last = set_later
        return IsHere(DefinedPlace(place.module, f"{place.name}.{name}", last), len(counting) == 1)
    if name in one.attributes:
        return IsHere(DefinedPlace(place.module, f"{place.name}.{name}", one.attributes[name]))
    return None


def kind_of(binding: Binding) -> Kind:  # noqa: PLR0911 - a list of kinds
    """Return what a member is to those who use it."""
    if isinstance(binding, Class):
        return "class"
    if isinstance(binding, Import):
        return "import"
    if not isinstance(binding, Function):
        return "value"
    names = {one.partition("(")[0].rpartition(".")[2] for one in binding.decorators}
    if names & {"property", "cached_property", "abstractproperty", "classproperty", "getter"}:
        return "property"
    if "staticmethod" in names:
        return "static method"
    if "classmethod" in names:
        return "class method"
    return "async method" if binding.is_async else "method"


def is_abstract(binding: Binding) -> bool:
    return isinstance(binding, Function) and any(
        one.partition("(")[0].rpartition(".")[2].startswith("abstract")
        for one in binding.decorators
    )


def type_of(code: Codebase, place: DefinedPlace) -> Answer:
    """Return the class that a value has, as far as its definition says so."""
    one = place.binding
    named = None
    if isinstance(one, Value):
        named = one.type or one.call
    elif isinstance(one, Function) and kind_of(one) == "property":
        named = one.returns
    if named is None:
        return IsUnknown(f"vpatch does not know the type of {place.name}")
    answer = code.resolve(place.module, named)
    if isinstance(answer, IsHere) and not isinstance(answer.place.binding, Class):
        return IsUnknown(f"vpatch does not know the type of {place.name}")
    return answer
