"""What to do with a patch at a new release: one of five verdicts, and why."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from vpatch.commands.upstream.status import Known, advise
from vpatch.planning.proven import holds_in
from vpatch.planning.relations import claims
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State
from vpatch.util.plural import counted, listed
from vpatch.workspace.unsettled_recipe import edit_command

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.bump.changed_code import ChangedCode
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin


# States in which `vpatch edit` lays in the change of another release.
_CARRIED = frozenset([State.CONFLICT, State.NOT_DECLARED, State.ABSENT])


class Verdict(StrEnum):
    """What a new release means for a patch."""

    KEEP = "keep"
    # Upstream has the effect.
    RETIRE = "retire"
    # The code, or the defect, is gone.
    NOT_NEEDED = "not needed"
    # The code that it edits or reads changed, or is not that of a release on record.
    LOOK_AGAIN = "look again"
    # The patch does not fit.
    NEEDS_A_PERSON = "needs a person"

    @property
    def is_finding(self) -> bool:
        """Whether a person must act."""
        return self in {Verdict.LOOK_AGAIN, Verdict.NEEDS_A_PERSON}


@dataclass(frozen=True)
class PatchProposal:
    """A patch.yaml that fits both releases: why, its text, and the diff to the present one.

    `names` are those that upstream changed.
    """

    said: str
    text: str
    diff: tuple[str, ...]
    names: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PatchBump:
    """What a new release means for one patch.

    `facts` are the three facts about a patch that is to be retired. `changed` are the definitions
    that differ, in an order of interest; those that only moved are among them. A patch that does
    not fit has a `proposal`, or `no_proposal` says why there is none, and `next` is the command
    with which a person begins to make it fit.
    """

    old: Decision
    new: Decision
    verdict: Verdict
    reason: str
    facts: tuple[str, ...] = ()
    changed: tuple[ChangedCode, ...] = field(default=(), repr=False)
    proposal: PatchProposal | None = None
    no_proposal: str | None = None
    next: str | None = None

    @property
    def id(self) -> str:
        return self.new.patch.id


def judge(
    old: Decision, new: Decision, pins: tuple[Pin, Pin], changed: Sequence[ChangedCode]
) -> PatchBump:
    """Give a verdict on a patch, by the decisions on it in two releases with these pins.

    What is known of the threads upstream is what the patch declares.
    """
    verdict, reason = _verdict(old, new, pins, changed)
    if verdict is not Verdict.NEEDS_A_PERSON and new.shape and new.may_be_wrong:
        # The state may be wrong on code that no record has, so nothing follows from it alone.
        verdict, reason = Verdict.LOOK_AGAIN, f"{reason}; {describe_shape(new.shape)}"
    facts = tuple(_facts(new)) if verdict is Verdict.RETIRE else ()
    return PatchBump(old, new, verdict, reason, facts, tuple(changed))


def with_next(one: PatchBump, pin: Pin) -> PatchBump:
    """Add the next command to a patch that does not fit a release, and has no proposal."""
    is_open = one.verdict is Verdict.NEEDS_A_PERSON and one.proposal is None
    if not is_open or pin.version is None or one.new.state not in _CARRIED:
        return one
    return replace(one, next=edit_command(one.id, pin.version))


def is_decided(decision: Decision, pin: Pin) -> bool:
    """Whether it is clear what a patch means for a release, and the patch claims nothing else."""
    if decision.state is State.ABSENT:
        return claims(decision.patch, pin) is not True
    return not decision.state.is_open


def _verdict(
    old: Decision, new: Decision, pins: tuple[Pin, Pin], changed: Sequence[ChangedCode]
) -> tuple[Verdict, str]:
    known = list(filter(None, map(Known.as_declared, new.patch.declaration.upstream)))
    earlier, advice = advise(old, pins[0], known), advise(new, pins[1], known)
    if new.state is State.UNTRUSTED:
        judgement = Verdict.NEEDS_A_PERSON, f"only code of the patch can tell: {new.reason}"
    elif new.state.is_open:
        judgement = Verdict.NEEDS_A_PERSON, new.reason
    elif new.state is State.UPSTREAMED:
        judgement = Verdict.RETIRE, advice.reason
    elif new.state is State.ABSENT and advice.action == "port":
        judgement = Verdict.NEEDS_A_PERSON, advice.reason
    elif new.state is State.ABSENT and advice.action == "drop":
        gone = [(one.name, one.before.path) for one in changed if one.kind == "gone" and one.before]
        went = (f"{name} went from {path}" for name, path in gone)
        judgement = Verdict.NOT_NEEDED, "; ".join([new.reason, *went])
    elif new.state is State.ABSENT:
        judgement = Verdict.KEEP, advice.reason
    else:
        doubts = list(_doubts(old, new, changed))
        # What was already so in the old release is nothing that the bump brings.
        if advice.finding and not earlier.finding:
            doubts.append(advice.reason)
        verdict = Verdict.LOOK_AGAIN if doubts else Verdict.KEEP
        judgement = verdict, "; ".join(doubts) or "the code that it edits and reads is the same"
    return judgement


def _doubts(old: Decision, new: Decision, changed: Sequence[ChangedCode]) -> Iterator[str]:
    """Why a patch that fits may still be wrong."""
    if old.state not in {State.NEEDED, State.APPLIED}:
        yield f"it was {old.state}, and is needed now"
    if new.disagreement:
        yield new.disagreement
    if old.variant != new.variant and old.state is new.state:
        yield f"it takes the variant {new.variant}, and took {old.variant}"
    if old.places != new.places and old.state is new.state:
        yield f"it edits {counted(new.places, 'place')}, and edited {old.places}"
    real = [one for one in changed if one.kind != "moved" and not one.around]
    edited = sum(one.edited for one in real)
    if edited:
        yield f"upstream changed {counted(edited, 'definition')} that it edits"
    if len(real) > edited:
        number = counted(len(real) - edited, "more definition" if edited else "definition")
        yield f"{'' if edited else 'upstream changed '}{number} that it only reads"
    around = [one.name for one in changed if one.around]
    # A test that holds in the new release has seen what is around the code.
    if around and not holds_in(new, "vllm"):
        yield f"upstream changed code around it: {listed(around, 3)}"


def _facts(new: Decision) -> Iterator[str]:
    """The three facts: the pull request as declared, the release that has it, and the tree."""
    pulls = [one for one in new.patch.declaration.upstream if one.is_ == "pull request"]
    for one in pulls:
        yield f"pull request {one.ref}: {one.state}, {one.relation}, as declared"
    if not pulls:
        yield "pull request: the patch declares none"
    released = dict.fromkeys(one.release for one in pulls if one.release)
    later = f"{', '.join(released)} and later, as declared"
    yield f"release: {later if released else 'the patch declares none'}"
    yield f"tree: {new.reason}"
