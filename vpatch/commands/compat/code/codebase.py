"""What a dotted name means in a release, with the target's own code beside it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.outline import Class, Function, Import, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.compat.code.classes import BaseLine
    from vpatch.commands.compat.code.outline import Binding, Outline
    from vpatch.commands.compat.code.part import CodePart

# Of imports that lead to imports, and of classes that inherit from each other.
_DEEPEST = 40


class DefinedPlace(NamedTuple):
    """A definition: its module, its qualified name, and what it is."""

    module: str
    name: str
    binding: Binding

    @property
    def dotted(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class IsHere:
    """It is there. `is_sure` is false where only some conditions define it."""

    place: DefinedPlace
    is_sure: bool = True


@dataclass(frozen=True)
class IsModule:
    """It is a module."""

    name: str


@dataclass(frozen=True)
class IsOutside:
    """It is there, and what it is lies outside of the code that vpatch reads."""

    name: str


@dataclass(frozen=True)
class IsGone:
    """It is not there; `last` is the last module or class on the way."""

    why: str
    last: str = ""


@dataclass(frozen=True)
class IsUnknown:
    """It may be there or not, or be one of several; `why` is a clause."""

    why: str


Answer = IsHere | IsModule | IsOutside | IsGone | IsUnknown


class Codebase:
    """The code of a release and of a target, by dotted names."""

    def __init__(self, parts: Sequence[CodePart]) -> None:
        self._parts = {root: part for part in parts for root in part.roots}
        self._names: dict[tuple[str, str], Answer] = {}
        self.lines: dict[tuple[str, str, int], BaseLine] = {}

    def part_of(self, name: str) -> CodePart | None:
        return self._parts.get(name.partition(".")[0])

    def module(self, name: str) -> Answer:
        """Return whether a module is there."""
        part = self.part_of(name)
        if part is None:
            return IsOutside(name)
        if part.has(name):
            return IsModule(name)
        why = part.why_unknown(name)
        return IsGone(f"there is no module {name}", name) if why is None else IsUnknown(why)

    def name_in(self, module: str, name: str, depth: int = 0) -> Answer:
        """Return what a module has under a name."""
        key = (module, name)
        if key not in self._names:
            if depth > _DEEPEST:
                return IsUnknown("its imports lead in a circle")
            # An import of itself, in a circle, asks again meanwhile.
            self._names[key] = IsUnknown("its imports lead in a circle")
            self._names[key] = self._name_in(module, name, depth)
        return self._names[key]

    def _name_in(self, module: str, name: str, depth: int) -> Answer:  # noqa: PLR0911 - in order
        state = self.module(module)
        if not isinstance(state, IsModule):
            return state
        part = self._parts[module.partition(".")[0]]
        outline = part.outline(module)
        submodule = f"{module}.{name}"
        if outline is None:
            return self.module(submodule)
        if outline.error:
            return IsUnknown(f"{part.path(module)} {outline.error}")
        several = [one for one in outline.names.get(name, ()) if _is_bound(one)]
        running = [one for one in several if one.presence != "typing"]
        if running:
            return self._bound(module, name, running, depth)
        if part.has(submodule):
            return IsModule(submodule)
        if name in {"__name__", "__file__", "__doc__", "__path__", "__all__", "__dict__"}:
            return IsOutside(submodule)
        return self._hidden(module, name, several, outline, depth)

    def _hidden(  # noqa: PLR0911 - in the order in which Python looks
        self, module: str, name: str, typing: Sequence[Binding], outline: Outline, depth: int
    ) -> Answer:
        """Return what a module has that binds no such name where one can see it."""
        part = self._parts[module.partition(".")[0]]
        if outline.lazy is not None and name in outline.lazy:
            if not outline.is_lazy_closed:
                return IsUnknown(f"{module} has a __getattr__")
            answer = self._bound(module, name, typing, depth) if typing else IsOutside(name)
            return IsOutside(name) if isinstance(answer, IsGone) else answer
        starred = self._starred(module, name, outline, depth)
        if not isinstance(starred, IsGone):
            return starred
        if outline.lazy is not None and not outline.is_lazy_closed:
            return IsUnknown(f"{module} has a __getattr__")
        if outline.dynamic:
            return IsUnknown(f"{module} binds names that cannot be read: {outline.dynamic}")
        why = part.why_unknown(f"{module}.{name}") if part.is_package(module) else None
        if why is not None:
            return IsUnknown(why)
        extra = ", but for type checkers" if typing else ""
        return IsGone(f"{module} has no {name}{extra}", module)

    def _starred(self, module: str, name: str, outline: Outline, depth: int) -> Answer:
        for star in outline.stars:
            source = self.absolute(module, star)
            part = self.part_of(source)
            exported = None if part is None else part.outline(source)
            if exported is None:
                return IsUnknown(f"{module} takes all names of {source}")
            if exported.exported is not None and name not in exported.exported:
                continue
            if name.startswith("_") and exported.exported is None:
                continue
            answer = self.name_in(source, name, depth + 1)
            if not isinstance(answer, IsGone):
                return answer
        return IsGone("")

    def _bound(self, module: str, name: str, several: Sequence[Binding], depth: int) -> Answer:
        """Follow the bindings of a name to what they mean."""
        counting = effective(several)
        if all(one.presence == "sometimes" for one in counting):
            return IsUnknown("only some conditions define it")
        answers = [self._follow(DefinedPlace(module, name, one), depth) for one in counting]
        different = dict.fromkeys(map(_key, answers))
        if len(different) == 1:
            return answers[-1]
        places = [one for one in answers if isinstance(one, IsHere)]
        return IsHere(places[-1].place, is_sure=False) if places else IsOutside(f"{module}.{name}")

    def _follow(self, place: DefinedPlace, depth: int) -> Answer:
        one = place.binding
        if isinstance(one, Import):
            module = self.absolute(place.module, one.module)
            if self.part_of(module) is None:
                return IsOutside(f"{module}.{one.name}".rstrip("."))
            answer = self.name_in(module, one.name, depth + 1) if one.name else self.module(module)
            is_same = module.partition(".")[0] == place.module.partition(".")[0]
            if isinstance(answer, IsGone) and is_same:
                # A release that imports it has it, wherever that is.
                return IsOutside(f"{module}.{one.name}")
            return answer
        if isinstance(one, Value) and one.alias and one.alias != place.name:
            target = self.resolve(place.module, one.alias, depth + 1)
            if isinstance(target, IsHere) and isinstance(target.place.binding, Class | Function):
                return target
        return IsHere(place)

    def absolute(self, module: str, named: str) -> str:
        """Return the dotted name of a module that another one imports, with dots for levels."""
        level = len(named) - len(named.lstrip("."))
        if not level:
            return named
        part = self.part_of(module)
        parts = module.split(".")
        up = level - 1 if part is not None and part.is_package(module) else level
        base = parts[: len(parts) - up] if up else parts
        return ".".join([*base, named[level:]]).rstrip(".")

    def resolve(self, module: str, dotted: str, depth: int = 0) -> Answer:
        """Return what a dotted name means in the scope of a module."""
        first, *rest = dotted.split(".")
        answer = self.name_in(module, first, depth)
        for name in rest:
            if isinstance(answer, IsOutside):
                answer = IsOutside(f"{answer.name}.{name}")
            else:
                answer = self.step(answer, name, depth)
        return answer

    def find(self, dotted: str) -> Answer:
        """Return what an absolute dotted name means, such as `vllm.config.VllmConfig`."""
        first, *rest = dotted.split(".")
        answer: Answer = self.module(first)
        for name in rest:
            answer = self.step(answer, name)
        return answer

    def step(self, answer: Answer, name: str, depth: int = 0) -> Answer:
        """Return what the attribute of something means."""
        from vpatch.commands.compat.code.classes import member_of  # noqa: PLC0415 - each uses the other

        if isinstance(answer, IsModule):
            return self.name_in(answer.name, name, depth)
        if isinstance(answer, IsHere):
            if isinstance(answer.place.binding, Class):
                return member_of(self, answer.place, name, depth)
            return IsUnknown("vpatch does not know its type")
        if isinstance(answer, IsOutside):
            return IsUnknown("it comes from outside vLLM")
        return answer


def _is_bound(one: Binding) -> bool:
    return not isinstance(one, Value) or one.is_set


def effective(several: Sequence[Binding]) -> Sequence[Binding]:
    """Return the bindings that count: from the last one that is not under a condition."""
    plain = [one for one in several if not _adds_to_another(one)] or several
    last = max((n for n, one in enumerate(plain) if one.presence == "always"), default=0)
    return plain[last:]


def _adds_to_another(one: Binding) -> bool:
    """Whether a function only completes another one: a setter, or a type for its callers."""
    if not isinstance(one, Function):
        return False
    names = {decorator.partition("(")[0].rpartition(".")[2] for decorator in one.decorators}
    return not names.isdisjoint({"setter", "deleter", "overload"})


def _key(answer: Answer) -> object:
    return answer.place[:2] if isinstance(answer, IsHere) else answer
