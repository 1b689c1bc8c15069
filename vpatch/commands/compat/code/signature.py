"""Whether a call fits a signature, and whether a replacement takes what the original takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.classes import kind_of, line_of, member_in
from vpatch.commands.compat.code.codebase import DefinedPlace, IsHere
from vpatch.commands.compat.code.outline import Class, Function, Parameter, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.compat.code.codebase import Codebase

# Decorators that leave the signature as it is.
_TRANSPARENT = frozenset(
    [
        *("abstractmethod", "asynccontextmanager", "cache", "cached_property", "classmethod"),
        *("compile", "contextmanager", "deprecated", "eager_break_during_capture", "final"),
        *("inference_mode", "instrument", "lru_cache", "maybe_transfer_kv_layer", "no_grad"),
        *("override", "property", "staticmethod", "traced", "wraps"),
    ]
)
_DATACLASSES = frozenset(["config", "dataclass"])


@dataclass(frozen=True)
class Call:
    """The arguments of a call. `is_open` says that it hands on `*args` or `**kwargs`."""

    positions: int
    keywords: tuple[str, ...]
    has_star: bool = False
    has_double_star: bool = False


@dataclass(frozen=True)
class Signature:
    """The parameters that a caller gives: without `self`. `place` is where they are written."""

    parameters: tuple[Parameter, ...]
    is_async: bool
    place: DefinedPlace


def signature_of(code: Codebase, place: DefinedPlace, *, bound: bool) -> Signature | str:
    """Return the signature of a function or of a class's constructor, or why it is not known.

    `bound` says that a method is called on an instance.
    """
    one = place.binding
    if isinstance(one, Class):
        return _constructor(code, place)
    if not isinstance(one, Function):
        return f"{place.name} is not a function that vpatch can read"
    strange = [d for d in map(_last, one.decorators) if d not in _TRANSPARENT]
    if strange:
        return f"the decorator {strange[0]} may change the signature"
    kind = kind_of(one)
    if kind == "property":
        return f"{place.name} is a property"
    in_class = "." in place.name
    drops = in_class and (kind == "class method" or (bound and kind != "static method"))
    parameters = one.parameters[1:] if drops and one.parameters else one.parameters
    if drops and one.parameters and one.parameters[0].kind == "star":
        parameters = one.parameters
    return Signature(parameters, one.is_async, place)


def _last(decorator: str) -> str:
    return decorator.partition("(")[0].rpartition(".")[2]


def _constructor(  # noqa: PLR0911 - a list of reasons
    code: Codebase, place: DefinedPlace
) -> Signature | str:
    line = line_of(code, place)
    for number, one in enumerate(line.places):
        if not isinstance(one.binding, Class):
            continue
        if "__new__" in one.binding.members or "metaclass" in one.binding.keywords:
            metaclass = one.binding.keywords.get("metaclass", "")
            if metaclass.rpartition(".")[2] != "ABCMeta":
                return f"{one.name} makes its instances in a way of its own"
        if "__init__" in one.binding.members:
            answer = member_in(line, "__init__", one)
            if isinstance(answer, IsHere) and answer.is_sure:
                return signature_of(code, answer.place, bound=True)
            return f"{one.name}.__init__ has several definitions"
        fields = [d for d in one.binding.decorators if _last(d) in _DATACLASSES]
        if fields:
            if line.open and any(_last(d) not in _DATACLASSES for d in one.binding.decorators):
                return line.open
            return _of_fields(line.places[number:], fields[0])
        if one.binding.decorators:
            return f"the decorator {_last(one.binding.decorators[0])} may change the constructor"
    return f"{place.name} has no __init__ that vpatch can read"


def _of_fields(places: Sequence[DefinedPlace], decorator: str) -> Signature | str:
    """Return the signature that `dataclass` makes of fields, those of the bases first."""
    fields: dict[str, Parameter] = {}
    is_keyword = "kw_only" in decorator
    for place in reversed(places):
        one = place.binding
        if not isinstance(one, Class):
            continue
        if not any(_last(d) in _DATACLASSES for d in one.decorators):
            if one.bases and place is not places[0]:
                return f"{place.name} is not a dataclass"
            continue
        for name, several in one.members.items():
            value = several[-1]
            if not isinstance(value, Value) or name == "_":
                continue
            if not value.is_annotated:
                continue
            if value.is_class_variable or "init=False" in value.options:
                fields.pop(name, None)
                continue
            default = "..." if _has_default(value) else None
            kind = "keyword" if is_keyword or "kw_only" in value.options else "normal"
            fields[name] = Parameter(name, "keyword" if kind == "keyword" else "normal", default)
    ordered = sorted(fields.values(), key=lambda one: one.kind == "keyword")
    return Signature(tuple(ordered), is_async=False, place=places[0])


def _has_default(value: Value) -> bool:
    if not value.is_set:
        return False
    if value.call is not None and value.call.rpartition(".")[2] in {"field", "Field"}:
        names = {one.partition("=")[0] for one in value.options}
        return bool(names & {"default", "default_factory", "**"}) or "positional" in value.options
    return True


def misfit(call: Call, parameters: Sequence[Parameter]) -> str | None:
    """Say how a call does not fit some parameters; None if it does."""
    kinds = {one.kind for one in parameters}
    plain = [one for one in parameters if one.kind in {"positional", "normal"}]
    if call.positions > len(plain) and "star" not in kinds:
        return f"it takes {len(plain)} positional arguments, and gets {call.positions}"
    by_name = {one.name for one in parameters if one.kind in {"normal", "keyword"}}
    strange = [name for name in call.keywords if name not in by_name]
    if strange and "double-star" not in kinds:
        return f"it has no parameter {strange[0]}"
    twice = [one.name for one in plain[: call.positions] if one.name in call.keywords]
    if twice and "double-star" not in kinds:
        return f"it gets {twice[0]} twice"
    passed = {one.name for one in plain[: call.positions]} | set(call.keywords)
    missing = [one.name for one in parameters if one.is_required and one.name not in passed]
    if call.has_star:
        keyword_only = {one.name for one in parameters if one.kind == "keyword"}
        missing = [name for name in missing if name in keyword_only]
    if missing and not call.has_double_star:
        return f"it requires {missing[0]}"
    return None


# A parameter of another name at the same place: only who gives it by name notices.
IN_PLACE = " in place of "


def lacking(original: Sequence[Parameter], replacement: Sequence[Parameter]) -> list[str]:
    """Return what callers of the original may give that a replacement does not take.

    Also what the replacement requires, and callers of the original need not give.
    """
    problems = []
    plain = [one for one in replacement if one.kind in {"positional", "normal"}]
    kinds = {one.kind for one in replacement}
    names = {one.name for one in replacement if one.kind in {"normal", "keyword"}}
    known = {one.name for one in original}
    position = 0
    taken: set[str] = set()
    for one in original:
        if one.kind == "star":
            if "star" not in kinds:
                problems.append(f"does not take *{one.name}")
        elif one.kind == "double-star":
            if "double-star" not in kinds:
                problems.append(f"does not take **{one.name}")
        elif one.kind == "keyword":
            taken.add(one.name)
            if one.name not in names and "double-star" not in kinds:
                problems.append(f"has no parameter {one.name}")
        else:
            by_position = plain[position] if position < len(plain) else None
            taken |= {one.name} if by_position is None else {one.name, by_position.name}
            # A name that is only at the same position does not help who gives it by name.
            is_named = one.name in names or "double-star" in kinds
            is_placed = by_position is not None or "star" in kinds
            if not (is_placed if one.kind == "positional" else is_named):
                is_renamed = by_position is not None and by_position.name not in known
                other = f"takes {by_position.name}{IN_PLACE}" if by_position and is_renamed else ""
                problems.append(f"{other or 'has no parameter '}{one.name}")
            position += 1
    problems += [
        f"requires {one.name}" for one in replacement if one.is_required and one.name not in taken
    ]
    return problems


def optional_names(parameters: Sequence[Parameter]) -> dict[str, str]:
    """Return the defaults of parameters, by their names."""
    return {one.name: one.default for one in parameters if one.default is not None}
