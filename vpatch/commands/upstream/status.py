"""What became of a patch upstream, in three answers that are not one another, and what to do.

Whether a thread was merged, whether a release contains what was merged, and whether the pinned tree
shows the effect: each has been taken for another, and a carried change was lost by it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from packaging.specifiers import SpecifierSet
from packaging.version import Version

from vpatch.errors import ExitCode
from vpatch.github.threads import Answer, UnknownThreadError, answer_as_declared
from vpatch.planning.shape import describe_shape
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.declare.patch import Upstream
    from vpatch.errors import VpatchError
    from vpatch.planning.state import Decision, Plan
    from vpatch.source.tree import Pin


_ZERO = Version("0")


@dataclass(frozen=True)
class Known:
    """A declared thread, and what GitHub says of it."""

    declared: Upstream
    answer: Answer

    @classmethod
    def as_declared(cls, declared: Upstream) -> Known | None:
        """Take what is declared for the answer; None where no state is declared."""
        answer = answer_as_declared(declared)
        return cls(declared, answer) if answer else None

    @property
    def disagreements(self) -> Iterator[str]:
        """Yield what the declaration says otherwise."""
        thread = self.answer.thread
        if self.declared.is_ != thread.kind:
            yield f"declared as {_a(self.declared.is_)}, and is {_a(thread.kind)}"
        elif self.declared.state not in {None, thread.state}:
            yield f"declared as {self.declared.state}, and is {thread.state}"
        elif self.declared.release != self.answer.release and self.answer.thread.merged_as:
            declared = self.declared.release or "no release"
            yield f"declared to be in {declared}, and is in {self.answer.release or 'none yet'}"

    @property
    def cures(self) -> bool:
        return self.declared.same and self.answer.thread.state == "merged"


@dataclass(frozen=True)
class Advice:
    """What to do with a patch for a tree; `finding` where it does not add up."""

    action: Literal["drop", "keep", "port"]
    reason: str
    finding: bool = False


@dataclass(frozen=True)
class PatchStatus:
    """A patch for a tree, with its threads; of the unknown ones, why nothing is known."""

    plan: Plan
    decision: Decision
    known: tuple[Known, ...]
    unknown: tuple[tuple[Upstream, VpatchError], ...] = ()

    @property
    def advice(self) -> Advice:
        """What to do. No patch is dropped on code that no record of it has."""
        advice = advise(self.decision, self.plan.pin, self.known, self._missing)
        shape = self.decision.shape
        if advice.action == "drop" and shape is not None and self.decision.may_be_wrong:
            reason = f"{advice.reason}; {describe_shape(shape)}"
            return Advice("keep", f"look again before you drop it: {reason}", finding=True)
        return advice

    @property
    def _missing(self) -> list[str]:
        """Threads that must be known: issues that were never asked for need not be."""
        return [
            one.ref
            for one, error in self.unknown
            if one.is_ != "issue" or not isinstance(error, UnknownThreadError)
        ]

    @property
    def needs_a_person(self) -> bool:
        """Whether a person must act. Threads that a retry may tell of need nobody."""
        advice = self.advice
        refused = any(error.exit_code != ExitCode.ENVIRONMENT for _, error in self.unknown)
        disagree = any(True for known in self.known for _ in known.disagreements)
        return advice.action != "keep" or advice.finding or disagree or refused


def advise(
    decision: Decision, pin: Pin, known: Sequence[Known], unknown: Sequence[str] = ()
) -> Advice:
    """Say what to do, and why; nothing is done. Of `unknown` threads nothing could be asked."""
    state, reason = decision.state, decision.reason
    cures = [one for one in known if one.cures]
    if state is State.UPSTREAMED:
        advice = Advice("drop", f"the tree has the effect: {reason}")
    elif state is State.ABSENT:
        advice = _absent(decision, pin)
    elif state is State.UNTRUSTED:
        advice = Advice("keep", reason, finding=True)
    elif state.is_open:
        advice = Advice("port", reason)
    elif state is State.APPLIED:
        advice = Advice("keep", "the tree carries it")
    elif unknown and not cures:
        threads = ", ".join(unknown)
        advice = Advice("keep", f"the tree needs it, and what became of {threads} is not known")
    else:
        advice = _until(pin.version, cures)
    return advice


def _absent(decision: Decision, pin: Pin) -> Advice:
    """The code is not there: gone for good, not there yet, or somewhere else altogether."""
    if decision.disagreement is not None:
        return Advice("port", f"{decision.disagreement}: {decision.reason}")
    claims = decision.patch.declaration.needed_in
    others = [tree for tree in claims if tree != pin.tree and not _is_never(claims[tree])]
    if others:
        return Advice("keep", f"not for this tree, but for {', '.join(others)}")
    bounds = [one for one in SpecifierSet(claims[pin.tree]) if one.operator in {">=", ">", "~="}]
    if pin.version and any(Version(one.version) > Version(pin.version) for one in bounds):
        return Advice("keep", f"this version is older than what it is for ({claims[pin.tree]})")
    return Advice("drop", f"there is nothing to carry any more: {decision.reason}")


def _is_never(claim: str) -> bool:
    """Whether a range says that no version needs it: '<0'."""
    return any(one.operator == "<" and Version(one.version) <= _ZERO for one in SpecifierSet(claim))


def _until(version: str | None, cures: Sequence[Known]) -> Advice:
    """How long a patch is to be kept that is needed, by what was merged of the same change."""
    if not cures:
        return Advice("keep", "nothing that was merged cures it")
    refs = ", ".join(one.declared.ref for one in cures)
    released = sorted((one.answer.release for one in cures if one.answer.release), key=Version)
    if not released:
        return Advice("keep", f"{refs} is merged, and in no release yet")
    if version is None or Version(version) < Version(released[0]):
        return Advice("keep", f"{refs} is in {released[0]}: drop it when that is pinned")
    reason = f"{refs} is in {released[0]}, and this tree does not have the effect all the same"
    return Advice("keep", f"{reason}: reverted, or not the same change", finding=True)


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
