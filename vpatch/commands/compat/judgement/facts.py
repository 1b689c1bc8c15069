"""What is so of an item in one release: read from the code alone, and compared with nothing."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.classes import (
    is_abstract,
    kind_of,
    line_of,
    member_in,
    own_member,
)
from vpatch.commands.compat.code.codebase import IsGone, IsHere, IsModule, IsOutside, IsUnknown
from vpatch.commands.compat.code.libraries import may_have
from vpatch.commands.compat.code.outline import Class, Function
from vpatch.commands.compat.code.signature import lacking, misfit, optional_names, signature_of
from vpatch.commands.compat.judgement.fact import Fact
from vpatch.commands.compat.judgement.initialisers import initialiser_fact
from vpatch.commands.compat.judgement.operators import operator_fact
from vpatch.commands.compat.judgement.registry import argument_fact, model_fact
from vpatch.commands.compat.surface.items import Ref

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.commands.compat.code.classes import BaseLine
    from vpatch.commands.compat.code.codebase import Answer, DefinedPlace
    from vpatch.commands.compat.code.signature import Call
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.surface.items import Item

_LLM, _ENGINE_ARGS = "vllm.entrypoints.llm.LLM", "vllm.engine.arg_utils.EngineArgs"
# These are gone as well if a module on the way is.
_WHOLE = frozenset(["import", "subclass", "patch", "string"])


def fact_of(release: JudgedRelease, item: Item) -> Fact:
    """Return what a release has of an item."""
    match item.kind:
        case "override":
            fact = _override(release, item)
        case "abstract":
            fact = _abstract(release, item)
        case "initialiser":
            fact = initialiser_fact(release, item)
        case "copy":
            fact = _copy(release, item)
        case "model":
            fact = model_fact(release, item)
        case "argument":
            fact = argument_fact(release, item)
        case "operator":
            fact = operator_fact(release, item.ref.roots[0].removeprefix("torch.ops."))
        case "entry point":
            is_there = release.has_text(item.ref.roots[0])
            fact = Fact("here") if is_there else Fact("gone", "no code of vLLM loads this group")
        case _:
            fact = _reference(release, item)
    return fact._replace(runs=release.runs(item.guards))


def _reference(release: JudgedRelease, item: Item) -> Fact:
    result = release.evaluate(item.ref)
    answer = result.answer
    if result.owner is not None and all(map(release.is_own, result.owner.places)):
        # A class that inherits nothing from vLLM, or whose base nobody can read.
        return Fact("unknown", result.owner.open) if result.owner.open else Fact("own")
    if isinstance(answer, IsHere) and not release.is_own(answer.place):
        return _here(release, item, answer, is_bound=result.is_bound)
    # What cannot be called is reported where it is imported or read.
    is_whole = item.kind in _WHOLE and not item.ref.steps
    is_last = item.kind != "call" and (is_whole or result.is_last)
    fact = _presence(release, answer, is_last=is_last)
    if fact.presence in {"gone", "unknown"} and is_last:
        return _checked(release, item, fact, result.owner)
    return fact


def _presence(release: JudgedRelease, answer: Answer, *, is_last: bool) -> Fact:
    match answer:
        case IsHere(place=place):
            return Fact("own" if release.is_own(place) else "here")
        case IsModule(name=name):
            return Fact("here", where=release.path_of(name), what="module")
        case IsOutside():
            return Fact("here", "it comes from outside vLLM", what="outside")
        case IsGone(why=why):
            return Fact("gone" if is_last else "lost", why)
        case IsUnknown(why=why):
            return Fact("unknown", why)


def _checked(release: JudgedRelease, item: Item, fact: Fact, owner: BaseLine | None) -> Fact:
    """Look again at a name that is not there: somebody may set it from elsewhere."""
    name = item.ref.text.rpartition(".")[2]
    if item.ref.steps:
        name = item.ref.steps[-1]
    is_own = name in release.own_stores and item.ref.text not in release.read_first
    if is_own and item.kind not in {"import", "subclass"}:
        # A module may be read before the target sets the name on it.
        is_read = item.kind == "attribute" and fact.presence == "gone"
        return Fact("unknown", "the target sets it itself") if is_read else Fact("own")
    if owner is None:
        if fact.presence == "gone" and release.sets_on_module(item.ref.roots[0]):
            return Fact("unknown", "code of vLLM sets it on the module")
        return fact._replace(moved=release.moved(name)) if fact.presence == "gone" else fact
    if name in release.heirs_members.get(owner.places[0].dotted, ()):
        return Fact(
            "unknown", f"a class of the target that inherits from it has {name}", of_class=True
        )
    in_sight = any(release.mentions(place.module, name) for place in owner.places)
    may_be = any(may_have(base, name) for base in owner.outside)
    if fact.presence == "unknown" and owner.outside and not (owner.open or in_sight or may_be):
        # Had vLLM a member of that name, its code would have the word.
        fact = Fact("gone", f"neither {owner.places[0].name} nor its bases in vLLM have {name}")
    if fact.presence == "gone" and (in_sight or release.sets_somewhere(name)):
        return Fact("unknown", f"code of vLLM uses the name {name}, and may set it", of_class=True)
    return fact._replace(of_class=True)


def _here(  # noqa: PLR0911 - one for each kind
    release: JudgedRelease, item: Item, answer: IsHere, *, is_bound: bool
) -> Fact:
    place = answer.place
    fact = Fact("here", where=release.where(place), what=_what(place))
    if not answer.is_sure:
        if item.kind in {"import", "attribute", "string", "environment", "field"}:
            return fact._replace(what="")
        return Fact("unknown", "it has several definitions, under conditions", fact.where)
    if item.kind == "subclass":
        bases = tuple(base.dotted for base in line_of(release.code, place).places[1:])
        return fact._replace(bases=bases)
    if item.kind == "call" and item.call is not None:
        signature = signature_of(release.code, place, bound=is_bound)
        if isinstance(signature, str):
            return fact._replace(why=signature, presence="unknown")
        fact = fact._replace(where=release.where(signature.place))
        problem = misfit(item.call, signature.parameters) or _handed_on(release, item.call, place)
        known = set(item.call.keywords)
        positions = {one.name for one in signature.parameters[: item.call.positions]}
        defaults = {
            name: default
            for name, default in optional_names(signature.parameters).items()
            if name not in known | positions
        }
        return fact._replace(problems=(problem,) if problem else (), defaults=defaults)
    if item.kind == "patch":
        return _patched(release, item, fact, place)
    return fact


def _handed_on(release: JudgedRelease, call: Call, place: DefinedPlace) -> str | None:
    """Return which keyword of `LLM(...)` does not fit `EngineArgs`, which gets the rest of them."""
    if place.dotted != _LLM:
        return None
    text = "\n".join(release.lines(place))
    # LLM itself takes those that its code names.
    for name in call.keywords:
        answer = release.evaluate(Ref((f"{_ENGINE_ARGS}.{name}",))).answer
        if isinstance(answer, IsGone) and not re.search(rf"\b{name}\b", text):
            return f"EngineArgs, which gets it, has no {name}"
    return None


def _what(place: DefinedPlace) -> str:
    """Return what a place is: outside a class, a method is a function."""
    kind = kind_of(place.binding)
    return kind if "." in place.name else kind.replace("method", "function")


def _patched(release: JudgedRelease, item: Item, fact: Fact, place: DefinedPlace) -> Fact:
    fact = fact._replace(body=release.body(place))
    one = place.binding
    own = release.code.find(item.own_name) if item.own_name else None
    if isinstance(one, Function) and isinstance(own, IsHere) and own.is_sure:
        new = own.place.binding
        if isinstance(new, Function) and release.is_own(own.place) and not new.decorators:
            return fact._replace(problems=tuple(_differences(one, new)))
    return fact


def _differences(base: Function, own: Function) -> Iterator[str]:
    old, new = kind_of(base), kind_of(own)
    if base.is_async != own.is_async:
        one, other = ("async", "is not") if own.is_async else ("not async", "is")
        yield f"is {one}, and vLLM's {other}"
    elif (old == "property") != (new == "property"):
        yield f"is a {new}, and vLLM's is a {old}"
    if "property" in {old, new}:
        return
    strip = (1 if old != "static method" else 0), (1 if new != "static method" else 0)
    yield from lacking(base.parameters[strip[0] :], own.parameters[strip[1] :])


def _lines(release: JudgedRelease, item: Item) -> tuple[list[BaseLine], str]:
    """Return the lines of the bases of a class of the target, and why one is not known."""
    lines, why = [], ""
    for base in item.bases:
        answer = release.evaluate(base).answer
        if isinstance(answer, IsHere) and isinstance(answer.place.binding, Class):
            line = line_of(release.code, answer.place)
            lines.append(line)
            why = why or line.open or ("" if answer.is_sure else "a base has several definitions")
        elif isinstance(answer, IsGone):
            why = f"a base is gone: {answer.why}"
        else:
            why = why or f"vpatch cannot read the base {base.text}"
    return lines, why


def _override(release: JudgedRelease, item: Item) -> Fact:  # noqa: C901, PLR0911 - in order
    lines, why = _lines(release, item)
    name = item.own_name
    if not any(not release.is_own(place) for line in lines for place in line.places):
        return Fact("lost" if why.startswith("a base is gone") else "own", why)
    for line in lines:
        for place in line.places:
            answer = None if release.is_own(place) else own_member(place, name)
            if isinstance(answer, IsHere) and item.own is not None:
                one = answer.place.binding
                what = kind_of(one)
                fact = Fact("here", where=release.where(answer.place), what=what, of_class=True)
                if not answer.is_sure:
                    return Fact("unknown", f"{place.name}.{name} has several definitions")
                if not isinstance(one, Function):
                    return fact
                differences = tuple(_differences(one, item.own))
                fact = fact._replace(body=release.body(answer.place))
                if name != "__init__":
                    return fact._replace(problems=differences)
                # Whoever makes an object of the target's class knows which arguments that takes.
                return fact._replace(
                    notes=tuple(d for d in differences if d.startswith(("has no", "takes ")))
                )
            if isinstance(answer, IsUnknown):
                return Fact("unknown", answer.why)
    if name.startswith("__"):
        return Fact("own")
    outside = [base for line in lines for base in line.outside if may_have(base, name)]
    if outside:
        return Fact("unknown", f"{outside[0]} may have {name}")
    if why or any(release.mentions(p.module, name) for ln in lines for p in ln.places):
        return Fact("unknown", why or f"the base has the name {name} in its code")
    return Fact("gone", f"no base in vLLM has {name}, which yours would replace", of_class=True)


def _abstract(release: JudgedRelease, item: Item) -> Fact:
    """Return the abstract methods that a class of the target does not implement."""
    if not item.own_name or item.own_name in release.parents:
        return Fact("own")
    answer = release.code.find(item.own_name)
    if not isinstance(answer, IsHere) or not isinstance(answer.place.binding, Class):
        return Fact("own")
    line = line_of(release.code, answer.place)
    in_vllm = [place for place in line.places if not release.is_own(place)]
    if not in_vllm:
        return Fact("own")
    is_checked = any(one.rpartition(".")[2] in {"ABC", "Protocol"} for one in line.outside) or any(
        isinstance(place.binding, Class) and "metaclass" in place.binding.keywords
        for place in line.places
    )
    names = {
        name
        for place in in_vllm
        if isinstance(place.binding, Class)
        for name, several in place.binding.members.items()
        if any(map(is_abstract, several))
    }
    missing = []
    for name in sorted(names):
        member = member_in(line, name, answer.place)
        if isinstance(member, IsHere) and member.is_sure and is_abstract(member.place.binding):
            missing.append(f"does not implement the abstract method {name}")
    if line.open and missing:
        return Fact("unknown", line.open)
    where = release.where(in_vllm[0])
    return Fact(
        "here", where=where, problems=tuple(missing), what="" if is_checked else "unchecked"
    )


def _copy(release: JudgedRelease, item: Item) -> Fact:
    """Return what a release has of the function that the target has a copy of."""
    answer = release.evaluate(item.ref).answer
    if isinstance(answer, IsHere) and isinstance(answer.place.binding, Function):
        where, body = release.where(answer.place), release.body(answer.place)
        return Fact("here", item.note, where, "function", body=body)
    fact = _presence(release, answer, is_last=True)
    if fact.presence != "gone":
        return Fact("unknown", fact.why or f"{item.ref.text} is no function there")
    return fact._replace(moved=release.moved(item.ref.text.rpartition(".")[2]))


def place_of(release: JudgedRelease, item: Item) -> DefinedPlace | None:
    """Return the definition in vLLM that an item is about."""
    place: DefinedPlace | None = None
    if item.kind == "override":
        places = (p for line in _lines(release, item)[0] for p in line.places)
        members = (own_member(p, item.own_name) for p in places if not release.is_own(p))
        place = next((one.place for one in members if isinstance(one, IsHere)), None)
    elif item.kind not in {"abstract", "model", "argument"}:
        answer = release.evaluate(item.ref).answer
        place = answer.place if isinstance(answer, IsHere) else None
    if place is None or release.is_own(place):
        return None
    if item.kind == "call" and isinstance(place.binding, Class):
        member = member_in(line_of(release.code, place), "__init__", place)
        place = member.place if isinstance(member, IsHere) else place
    return place
