"""What the facts of an item in several releases mean for the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.commands.compat.code.signature import IN_PLACE
from vpatch.commands.compat.surface.guards import IMPORT_ERRORS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.commands.compat.judgement.fact import Fact
    from vpatch.commands.compat.surface.items import Item, Spot

State = Literal["holds", "gone", "changed", "look again", "unknown", "not run"]
STATES: tuple[State, ...] = ("holds", "gone", "changed", "look again", "unknown", "not run")
BREAKS: frozenset[State] = frozenset(["gone", "changed"])
# What does not fit is the target's own.
_OWN = frozenset(["override", "patch", "abstract", "initialiser"])
# These may be something else than they seem to be, so some release must have them.
_NEED_EVIDENCE = frozenset(["field", "override", "call"])


@dataclass(frozen=True)
class ItemVerdict:
    """What a release means for an item; `why` is a clause.

    `where` is the place in vLLM, `moved` where a name that is gone is now.
    """

    state: State
    why: str = ""
    where: str = ""
    moved: str = ""


@dataclass(frozen=True)
class JudgedItem:
    """An item with its verdicts, by releases, and all of its places in the target."""

    item: Item
    spots: tuple[Spot, ...]
    verdicts: Mapping[str, ItemVerdict]


def judge(
    item: Item, spots: Sequence[Spot], facts: Mapping[str, Fact], base: str | None
) -> JudgedItem | None:
    """Return the verdicts on an item; None if it is not about vLLM, or nobody can tell at all.

    `base` is the release that the others are compared with.
    """
    counting = [fact for fact in facts.values() if fact.presence != "own"]
    is_there = any(fact.presence == "here" for fact in counting)
    needs_evidence = (
        item.is_soft or item.kind in _NEED_EVIDENCE or any(f.of_class for f in counting)
    )
    if not counting or (needs_evidence and not is_there):
        return None
    # What vpatch can read in no release says nothing.
    is_unknown = all(fact.presence in {"unknown", "lost"} for fact in counting)
    if is_unknown and item.kind not in {"import", "subclass"}:
        return None
    before = facts.get(base) if base else None
    verdicts = {
        release: _verdict(item, fact, None if release == base else before, has_base=bool(base))
        for release, fact in facts.items()
    }
    return JudgedItem(item, tuple(spots), verdicts)


def _verdict(  # noqa: PLR0911 - one for each kind
    item: Item, fact: Fact, before: Fact | None, *, has_base: bool
) -> ItemVerdict:
    verdict = _running(item, fact, before, has_base=has_base)
    if fact.runs is False:
        return ItemVerdict("not run", f"it runs only {', '.join(item.conditions)}", fact.where)
    if item.kind == "override" and verdict.state == "gone":
        return _method_gone(fact, before, has_base=has_base)
    if item.kind == "copy":
        return _copied(item, fact, before)
    if item.kind == "model" and fact.presence == "here":
        is_same = before is None or before.body == fact.body
        why = fact.why if before is None or is_same else f"{fact.why}; in the base, {before.why}"
        return ItemVerdict("holds" if is_same else "look again", why, fact.where)
    if verdict.state == "gone" and _is_caught(item):
        if before is not None and before.presence == "gone":
            return ItemVerdict("holds", f"{verdict.why}; the code catches that", "", verdict.moved)
        return ItemVerdict("look again", f"{verdict.why}; the code catches that", "", verdict.moved)
    return verdict


def _method_gone(fact: Fact, before: Fact | None, *, has_base: bool) -> ItemVerdict:
    """Return the verdict on a method of the target that no base in vLLM has."""
    if before is not None and before.presence == "here":
        return ItemVerdict("gone", fact.why, moved=fact.moved)
    # The release that it is for has none either: it is the target's own method.
    return ItemVerdict("holds" if has_base else "look again", fact.why)


def _copied(item: Item, fact: Fact, before: Fact | None) -> ItemVerdict:
    """Return the verdict on a copy: it runs, whatever became of its origin."""
    if fact.presence == "unknown":
        return ItemVerdict("unknown", f"{item.note}; {fact.why}", fact.where)
    if fact.presence == "gone":
        return ItemVerdict("look again", f"{item.note}; {fact.why}", fact.where, fact.moved)
    if before is not None and before.body != fact.body:
        return ItemVerdict("look again", f"{item.note}, which changed", fact.where)
    return ItemVerdict("holds", item.note, fact.where)


def _is_caught(item: Item) -> bool:
    names = {name for guard in item.guards if guard.kind == "try" for name in guard.names}
    if item.kind == "import":
        return bool(names & IMPORT_ERRORS)
    return bool(names & {"AttributeError", "Exception", "BaseException", ""})


def _running(item: Item, fact: Fact, before: Fact | None, *, has_base: bool) -> ItemVerdict:
    match fact.presence:
        case "own":
            return ItemVerdict("holds", "the target has it itself")
        case "unknown":
            return ItemVerdict("unknown", fact.why, fact.where)
        case "lost":
            return ItemVerdict("unknown", f"what it is reached through is gone: {fact.why}")
        case "gone":
            return ItemVerdict("gone", fact.why, fact.where, fact.moved)
        case "here":
            return _there(item, fact, before, has_base=has_base)


def _there(  # noqa: PLR0911 - in the order of their weight
    item: Item, fact: Fact, before: Fact | None, *, has_base: bool
) -> ItemVerdict:
    if item.kind == "subclass" and fact.what not in {"class", "outside", ""}:
        return ItemVerdict("changed", f"it is a {fact.what}, and no class", fact.where)
    # A branch that does not run in the release that it is for is made for others.
    if before is None or before.presence != "here" or before.runs is False:
        return _without_base(item, fact, before, has_base=has_base)
    # What comes after ", which" tells more of the same problem.
    known = {one.partition(", which ")[0] for one in before.problems}
    fresh = [one for one in fact.problems if one.partition(", which ")[0] not in known]
    unused = [one for one in fresh if fact.callers.get(one) == ""]
    if fresh and len(unused) == len(fresh):
        text = "; ".join(
            f"{_said(item, one)}, which no call in vLLM gives{_how(one)}" for one in unused
        )
        return ItemVerdict("look again", text, fact.where)
    if fresh:
        fresh = [one for one in fresh if one not in unused]
        state: State = "look again" if fact.what == "unchecked" else "changed"
        return ItemVerdict(state, "; ".join(_said(item, one, fact) for one in fresh), fact.where)
    if item.kind == "call" and fact.problems:
        return ItemVerdict(
            "unknown", f"the same in the release it is for: {fact.problems[0]}", fact.where
        )
    is_replaced = item.kind in {"override", "patch"}
    if fact.what != before.what and not is_replaced and _differs(fact.what, before.what):
        # Whoever calls a class may call a function in its place.
        is_soft = {fact.what, before.what} & {"value", "class"}
        state = "look again" if is_soft else "changed"
        return ItemVerdict(state, f"it was a {before.what}, and is a {fact.what}", fact.where)
    notes = [_said(item, note) for note in fact.notes if note not in before.notes]
    for changed, why in (
        (notes, "; ".join(notes)),
        (fact.body != before.body, "its body changed"),
        (fact.bases != before.bases, _bases(before, fact)),
        (_defaults(before, fact) != "", _defaults(before, fact)),
    ):
        if changed:
            return ItemVerdict("look again", why, fact.where)
    return ItemVerdict("holds", "", fact.where)


def _without_base(item: Item, fact: Fact, before: Fact | None, *, has_base: bool) -> ItemVerdict:
    """Return the verdict on what is there, where there is nothing to compare it with."""
    if item.kind == "override" and before is not None and before.presence == "gone":
        return ItemVerdict("look again", "vLLM's class has one of that name now", fact.where)
    if not fact.problems:
        return ItemVerdict("holds", fact.why, fact.where)
    text = "; ".join(_said(item, one) for one in fact.problems)
    if before is None and has_base:
        # In the release that it is for, the target may well know what it does.
        if item.kind == "call":
            return ItemVerdict("unknown", f"in the release that it is for, {text}", fact.where)
        return ItemVerdict("holds", f"meant so, since it is for this release: {text}", fact.where)
    # A method that lacks what nobody gives it breaks nothing.
    state: State = "changed" if item.kind == "call" else "look again"
    return ItemVerdict(state, text, fact.where)


def _how(problem: str) -> str:
    return " by name" if IN_PLACE in problem else ""


def _said(item: Item, problem: str, fact: Fact | None = None) -> str:
    more = fact.callers.get(problem, "") if fact is not None else ""
    text = f"yours {problem}" if item.kind in _OWN else problem
    return f"{text}: {more}" if more else text


def _differs(one: str, other: str) -> bool:
    """Whether two kinds of thing are not the same to those who use them."""
    return bool(one and other) and "outside" not in {one, other} and "unchecked" not in {one, other}


def _bases(before: Fact, after: Fact) -> str:
    def names(fact: Fact) -> str:
        return ", ".join(base.rpartition(".")[2] for base in fact.bases) or "none"

    return f"its bases changed: {names(before)} -> {names(after)}"


def _defaults(before: Fact, after: Fact) -> str:
    """Say which default of a parameter that the call leaves out is another one."""
    changed = [
        f"the default of {name} changed: {before.defaults[name]} -> {default}"
        for name, default in after.defaults.items()
        if before.defaults.get(name, default) != default
    ]
    return "; ".join(changed)
