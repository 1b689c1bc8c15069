"""What a reference of the target means in a release."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.classes import BaseLine, kind_of, line_of, member_in, type_of
from vpatch.commands.compat.code.codebase import IsGone, IsHere, IsModule, IsOutside, IsUnknown
from vpatch.commands.compat.code.outline import Class, Function
from vpatch.commands.compat.surface.items import ABOVE, CALLED

if TYPE_CHECKING:
    from vpatch.commands.compat.code.codebase import Answer, Codebase, DefinedPlace
    from vpatch.commands.compat.surface.items import Ref

# Decorators under which a function still returns what its annotation names.
_RETURNING = frozenset(["staticmethod", "classmethod", "cache", "lru_cache", "abstractmethod"])


class Evaluated(NamedTuple):
    """What a reference means. `is_bound` says that a method is reached on an instance.

    `is_last` says that the answer is about the last name of the reference, and not about one
    before it. `owner` is the line of classes in which that name was looked for.
    """

    answer: Answer
    is_bound: bool = False
    is_last: bool = True
    owner: BaseLine | None = None
    is_above: bool = False


def evaluate(code: Codebase, ref: Ref) -> Evaluated:
    """Follow a reference; of several beginnings, the first that is not gone counts."""
    results = [_root(code, root) for root in ref.roots]
    result = next((one for one in results if not isinstance(one.answer, IsGone)), results[0])
    for number, step in enumerate(ref.steps):
        if isinstance(result.answer, IsGone | IsUnknown):
            return result._replace(is_last=False)
        result = _step(code, result, step)
        if isinstance(result.answer, IsGone | IsUnknown) and number + 1 < len(ref.steps):
            return result._replace(is_last=False)
    return result


def _root(code: Codebase, root: str) -> Evaluated:
    first, *rest = root.split(".")
    result = Evaluated(code.module(first))
    for number, name in enumerate(rest):
        before = result.answer
        if isinstance(before, IsHere) and not isinstance(before.place.binding, Class):
            result = _step(code, result, name)
        else:
            owner = line_of(code, before.place) if isinstance(before, IsHere) else None
            is_on_the_way = number + 1 < len(rest)
            result = Evaluated(code.step(before, name), owner=owner)
            # An import goes through modules, whatever else has that name in their package.
            is_module = isinstance(result.answer, IsModule)
            if is_on_the_way and isinstance(before, IsModule) and not is_module:
                module = code.module(f"{before.name}.{name}")
                if isinstance(module, IsModule) and _has(code, module, rest[number + 1]):
                    result = Evaluated(module)
        if isinstance(result.answer, IsGone | IsUnknown):
            return result._replace(is_last=number + 1 == len(rest))
    return result


def _has(code: Codebase, module: IsModule, name: str) -> bool:
    return not isinstance(code.name_in(module.name, name), IsGone)


def _step(  # noqa: C901, PLR0911 - one for each form
    code: Codebase, result: Evaluated, step: str
) -> Evaluated:
    answer = result.answer
    if isinstance(answer, IsOutside):
        return Evaluated(IsUnknown("it comes from outside vLLM"))
    if isinstance(answer, IsModule):
        return Evaluated(code.step(answer, step) if step not in {CALLED, ABOVE} else IsUnknown("?"))
    if not isinstance(answer, IsHere):
        return result
    if not answer.is_sure:
        return Evaluated(IsUnknown("it has several definitions, under conditions"))
    if step == CALLED:
        return _called(code, answer.place)
    if step == ABOVE:
        return result._replace(is_above=True)
    place: DefinedPlace = answer.place
    is_class = isinstance(place.binding, Class)
    if not is_class:
        kind = type_of(code, place)
        if not isinstance(kind, IsHere):
            return Evaluated(
                kind if isinstance(kind, IsUnknown) else IsUnknown("its type is outside vLLM")
            )
        place = kind.place
    line = line_of(code, place)
    if result.is_above:
        line = BaseLine(line.places[1:], line.outside, line.open)
        if not line.places:
            return Evaluated(IsUnknown(f"vpatch cannot read the bases of {place.name}"))
    is_bound = result.is_bound or result.is_above or not is_class
    return Evaluated(member_in(line, step, place), is_bound=is_bound, owner=line)


def _called(code: Codebase, place: DefinedPlace) -> Evaluated:
    """Return an instance of a class, or of the class that a function returns."""
    one = place.binding
    if isinstance(one, Class):
        return Evaluated(IsHere(place), is_bound=True)
    if isinstance(one, Function) and one.returns and not one.is_async:
        names = {d.partition("(")[0].rpartition(".")[2] for d in one.decorators}
        if names <= _RETURNING and kind_of(one) != "property":
            answer = code.resolve(place.module, one.returns)
            if isinstance(answer, IsHere) and isinstance(answer.place.binding, Class):
                return Evaluated(answer, is_bound=True)
    return Evaluated(IsUnknown(f"vpatch does not know what {place.name} returns"))
