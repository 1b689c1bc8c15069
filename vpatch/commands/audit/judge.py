"""What each advisory means for a tree, judged by the decisions on the patches that cure it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from vpatch.commands.audit.places import changed_places
from vpatch.library.cvss import SEVERITIES
from vpatch.planning.proven import proof_of, proven_in_recipe
from vpatch.planning.shape import basis_of, cured_alike, describe_shape
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import date

    from vpatch.commands.audit.signs import SignReading
    from vpatch.library.advisories import Advisory
    from vpatch.library.patch import Cured
    from vpatch.library.shapes import Shapes
    from vpatch.planning.state import Decision, Finding, Plan
    from vpatch.source.tree import Pin


class Status(StrEnum):
    """What an advisory means for a tree, the worst first. The words are those of VEX.

    `unknown` is vpatch's own: it has no patch that could read the answer from the code.
    """

    AFFECTED = "affected"
    UNDER_INVESTIGATION = "under_investigation"
    UNKNOWN = "unknown"
    FIXED = "fixed"
    NOT_AFFECTED = "not_affected"


# Nobody has shown that these do no harm.
OPEN = (Status.AFFECTED, Status.UNDER_INVESTIGATION, Status.UNKNOWN)


@dataclass(frozen=True)
class Acceptance:
    """A project accepts an advisory up to a day, that day included. `where` is the entry's line.

    Once it is `expired`, the advisory counts again.
    """

    id: str
    reason: str
    until: date
    where: str
    expired: bool

    @property
    def sentence(self) -> str:
        """What it says now, for people."""
        if self.expired:
            return f"counts again, as it was accepted until {self.until}: {self.reason}"
        return f"accepted until {self.until}: {self.reason}"


@dataclass(frozen=True)
class AuditFinding:
    """What one advisory means for one tree.

    `reason` says why, in a sentence. `places` are where the code shows it. `claimed` is whether the
    advisory's range has the version; None where the tree has no version. `severity` is one of
    `SEVERITIES`, or None where nobody says it. `accepted` is the project's entry for it: it changes
    nothing of the code, and so not the status. `reading` is what the code says of an advisory that
    no patch cures, where vpatch knows a line to look for.
    """

    advisory: Advisory
    status: Status
    reason: str
    decisions: tuple[Decision, ...] = ()
    places: tuple[Finding, ...] = ()
    claimed: bool | None = None
    severity: str | None = None
    accepted: Acceptance | None = None
    reading: SignReading | None = None

    @property
    def is_accepted(self) -> bool:
        """Whether the project accepts it, and the day has not passed."""
        return self.accepted is not None and not self.accepted.expired

    @property
    def note(self) -> str:
        """`reason`, and the project's entry: that somebody accepts a hole does not close it."""
        if self.accepted is None:
            return self.reason
        return f"{self.reason}; the project says: {self.accepted.sentence}"

    @property
    def was_read(self) -> bool:
        """Whether the state comes from the code, and not from a range alone."""
        return bool(self.decisions) or self.reading is not None

    @property
    def remark(self) -> str | None:
        """How the code disagrees with the advisory's range, or with what a patch declares."""
        if not self.was_read:
            return None
        if self.status is Status.AFFECTED and self.claimed is False:
            return "the advisory's range does not have this version; the code does"
        if self.status is Status.NOT_AFFECTED and self.claimed:
            return "the advisory's range has this version; the code does not"
        return next((d.disagreement for d in self.decisions if d.disagreement), None)


@dataclass(frozen=True)
class _Verdict:
    status: Status
    reason: str


def judge(
    advisories: Iterable[Advisory],
    plan: Plan,
    *,
    locked: Collection[str] = (),
    readings: Mapping[str, SignReading] | None = None,
    trust_untested: bool = False,
) -> tuple[AuditFinding, ...]:
    """Judge advisories by a plan that has a decision on each patch that resolves one of them.

    Args:
        advisories: what to judge.
        plan: decisions on the code that is really there, each for itself.
        locked: ids of the patches that a lock says the code carries. If the code does not show one,
            it is not cured.
        readings: what the code says of advisories that no patch cures, by their ids.
        trust_untested: take a patch as a cure that no behaviour test has shown to be one.

    Returns:
        One finding for each advisory, in their order.
    """
    by_name: dict[str, list[tuple[Decision, Cured]]] = {}
    for decision in plan.decisions:
        for one in decision.patch.cures:
            for name in {one.id, *one.aliases}:
                by_name.setdefault(name, []).append((decision, one))
    findings = []
    for advisory in advisories:
        pairs = [pair for name in sorted(advisory.names) for pair in by_name.get(name, ())]
        curing = {decision.patch.id: (decision, cured) for decision, cured in pairs}
        if curing:
            finding = _finding(advisory, curing, plan, locked, trust_untested=trust_untested)
        else:
            finding = _without_patch(advisory, plan.pin, (readings or {}).get(advisory.id))
        findings.append(finding)
    return tuple(findings)


def _finding(
    advisory: Advisory,
    curing: Mapping[str, tuple[Decision, Cured]],
    plan: Plan,
    locked: Collection[str],
    *,
    trust_untested: bool,
) -> AuditFinding:
    version = plan.pin.version
    claimed = advisory.covers(version) if version else None
    severities = [resolves.severity for _, resolves in curing.values() if resolves.severity]
    severity = advisory.severity or (severities[0] if severities else None)
    decisions = tuple(decision for decision, _ in curing.values())
    verdicts = [
        _verdict(one, plan.pin.tree, locked, trust_untested=trust_untested) for one in decisions
    ]
    # A problem that several patches cure is as bad as the worst of them.
    worst = min(verdicts, key=lambda one: list(Status).index(one.status))
    places = tuple(
        place
        for decision, verdict in zip(decisions, verdicts, strict=True)
        if verdict.status is worst.status
        for place in _places(decision)
    )
    return AuditFinding(advisory, worst.status, worst.reason, decisions, places, claimed, severity)


def _without_patch(advisory: Advisory, pin: Pin, reading: SignReading | None) -> AuditFinding:
    claimed = advisory.covers(pin.version) if pin.version else None
    # A build between two releases has some of the code of each.
    is_outside = claimed is False and pin.version and not Version(pin.version).is_devrelease
    places: tuple[Finding, ...] = ()
    if reading is not None:
        verdict = _verdict_of_sign(reading, pin, is_outside=bool(is_outside))
        places = tuple(one for one in (reading.fix or reading.defect,) if one and one.path)
    elif is_outside:
        reason = "its range does not have this version; the code was not read"
        verdict = _Verdict(Status.NOT_AFFECTED, reason)
    else:
        reason = advisory.not_carried or "vpatch has no patch for it"
        if pin.version and claimed is None:
            reason = f"{reason}; its range names commits, and not this release"
        verdict = _Verdict(Status.UNKNOWN, reason)
    return AuditFinding(
        advisory,
        verdict.status,
        verdict.reason,
        places=places,
        claimed=claimed,
        severity=advisory.severity,
        reading=reading,
    )


def _verdict_of_sign(reading: SignReading, pin: Pin, *, is_outside: bool) -> _Verdict:
    """A line alone proves nothing of code that nobody read, but for the defect."""
    is_on_record = reading.is_on_record(pin)
    if reading.fix is not None:
        reason = f"{reading.fix.where if reading.fix.path else 'the code'} has upstream's fix"
        status = Status.FIXED
    elif reading.defect is not None:
        return _Verdict(Status.AFFECTED, f"no patch cures it; {_cure(reading.sign.fixed, pin)}")
    else:
        reason, status = "the code that it is about is not there", Status.NOT_AFFECTED
    if is_on_record:
        return _Verdict(status, f"{reason}; vLLM {pin.version} was read")
    if is_outside:
        return _Verdict(Status.NOT_AFFECTED, f"its range does not have this version; {reason}")
    return _Verdict(Status.UNDER_INVESTIGATION, f"{reason}, on code that nobody has checked")


def _cure(fixed: str | None, pin: Pin) -> str:
    if fixed is None:
        return "no release that was read has a fix"
    if pin.version and Version(pin.version) >= Version(fixed):
        return f"the defect was gone in {fixed}"
    return f"use {fixed} or later"


def _places(decision: Decision) -> Iterator[Finding]:
    """What the patch would change, or else where it was looked for."""
    if decision.changes:
        yield from changed_places(decision)
    else:
        yield from (one for one in decision.findings if one.path)


def _verdict(
    decision: Decision, tree: str, locked: Collection[str], *, trust_untested: bool
) -> _Verdict:
    name = decision.patch.id
    match decision.state:
        case State.CONFLICT if name in locked:
            reason = f"the lock names {name}, and the code does not have all of it"
            return _Verdict(Status.AFFECTED, f"{reason}; run vpatch check: {decision.reason}")
        case State.NEEDED:
            return _Verdict(Status.AFFECTED, f"{name} is needed: {decision.reason}")
        case State.APPLIED | State.UPSTREAMED:
            return _judge_cure(decision, tree, trust_untested=trust_untested)
        case State.ABSENT:
            return _judge_absence(decision, tree)
        case _:
            reason = f"{name} is {decision.state}: {decision.reason}"
            return _Verdict(Status.UNDER_INVESTIGATION, reason)


def _judge_absence(decision: Decision, tree: str) -> _Verdict:
    name = decision.patch.id
    if decision.disagreement:
        return _Verdict(Status.UNDER_INVESTIGATION, f"{name} is absent: {decision.disagreement}")
    if decision.shape is None or (decision.is_unsure and not proven_in_recipe(decision, tree)):
        reason = f"{name} is absent, on code that nobody has checked: {decision.reason}"
        return _Verdict(Status.UNDER_INVESTIGATION, f"{reason}{_doubt(decision)}")
    return _Verdict(Status.NOT_AFFECTED, f"{decision.reason}; {basis_of(decision.shape)}")


def _judge_cure(decision: Decision, tree: str, *, trust_untested: bool) -> _Verdict:
    name, shape, shapes = decision.patch.id, decision.shape, decision.patch.shapes
    in_recipe = proven_in_recipe(decision, tree)
    if shape is not None and in_recipe is not None:
        reason = f"{name} is applied, and its test holds: {in_recipe}; {basis_of(shape)}"
        return _Verdict(Status.FIXED, reason)
    upstreamed: tuple[str, ...] = ()
    patched: tuple[str, ...] = ()
    if not decision.is_unsure:
        upstreamed = _alike(decision, tree, State.UPSTREAMED)
        patched = _alike(decision, tree, State.NEEDED)
    held = _held(shapes, tree, patched) if shapes else None
    if shape is not None and held is not None and not upstreamed:
        reason = f"{name} is applied, and its test holds: {held}; {basis_of(shape)}"
        return _Verdict(Status.FIXED, reason)
    if decision.disagreement and decision.state is State.UPSTREAMED:
        reason = f"{name} is upstreamed: {decision.disagreement}"
        return _Verdict(Status.UNDER_INVESTIGATION, reason)
    if shape is not None and upstreamed:
        reason = f"vLLM {upstreamed[0]} has the fix, and this is its code; {basis_of(shape)}"
        return _Verdict(Status.FIXED, reason)
    if patched:
        reason = f"{name} is applied, and no behaviour test has shown that it cures exactly this"
    elif decision.state is State.APPLIED:
        reason = f"{name} is applied, on code that nobody has tested it on"
    else:
        reason = f"the code has the cure of {name}, in a form that nobody has tested"
    # Whoever trusts a patch that has no record knows it. On other code than that of its record, or
    # with other code around it, nobody does.
    if trust_untested and not decision.may_be_wrong:
        return _Verdict(Status.FIXED, reason)
    return _Verdict(Status.UNDER_INVESTIGATION, f"{reason}{_doubt(decision)}")


def _doubt(decision: Decision) -> str:
    """How the code, or the code around it, differs from the record; empty without a record."""
    is_known = decision.shape is not None and decision.may_be_wrong
    return f"; {describe_shape(decision.shape)}" if decision.shape and is_known else ""


def _alike(
    decision: Decision, tree: str, by: Literal[State.NEEDED, State.UPSTREAMED]
) -> tuple[str, ...]:
    """The releases on record with the same cured code; see `cured_alike`."""
    shape, shapes = decision.shape, decision.patch.shapes
    if shape is None or shapes is None or shapes.patch_digest != decision.patch.digest:
        return ()
    return cured_alike(shape.definitions, shapes.shapes.get(tree, ()), by)


def _held(shapes: Shapes, tree: str, releases: Sequence[str]) -> str | None:
    proofs = (proof_of(shapes, tree, release) for release in releases)
    return next((proof.sentence for proof in proofs if proof.by == "behaviour"), None)


def is_open(finding: AuditFinding, least: str) -> bool:
    """Whether a problem of at least a severity affects a tree, and the project does not accept it.

    An unknown severity counts.
    """
    if finding.status is not Status.AFFECTED or finding.is_accepted:
        return False
    return finding.severity is None or SEVERITIES.index(finding.severity) >= SEVERITIES.index(least)
