"""What each advisory means for a tree, judged by the decisions on the patches that cure it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

from vpatch.commands.audit.places import changed_places
from vpatch.library.advisories import SEVERITIES
from vpatch.planning.proven import proof_of, proven_in_recipe
from vpatch.planning.shape import cured_alike
from vpatch.planning.state import State

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from vpatch.library.advisories import Advisory
    from vpatch.library.patch import Cured
    from vpatch.library.shapes import Shapes
    from vpatch.planning.state import Decision, Finding, Plan


class Status(StrEnum):
    """What an advisory means for a tree, the worst first. The words are those of VEX.

    `unknown` is vpatch's own: it has no patch that could read the answer from the code.
    """

    AFFECTED = "affected"
    UNDER_INVESTIGATION = "under_investigation"
    UNKNOWN = "unknown"
    FIXED = "fixed"
    NOT_AFFECTED = "not_affected"


@dataclass(frozen=True)
class AuditFinding:
    """What one advisory means for one tree.

    `reason` says why, in a sentence. `places` are where the code shows it. `claimed` is whether the
    advisory's range has the version; None where the tree has no version. `severity` is one of
    `SEVERITIES`, or None where nobody says it.
    """

    advisory: Advisory
    status: Status
    reason: str
    decisions: tuple[Decision, ...] = ()
    places: tuple[Finding, ...] = ()
    claimed: bool | None = None
    severity: str | None = None

    @property
    def remark(self) -> str | None:
        """How the advisory's range and the code disagree; None where they agree."""
        if self.claimed is None or not self.decisions:
            return None
        if self.status is Status.AFFECTED and not self.claimed:
            return "the advisory's range does not have this version; the code does"
        if self.status is Status.NOT_AFFECTED and self.claimed:
            return "the advisory's range has this version; the code does not"
        return None


@dataclass(frozen=True)
class _Verdict:
    status: Status
    reason: str


def judge(
    advisories: Iterable[Advisory],
    plan: Plan,
    *,
    locked: Collection[str] = (),
    trust_untested: bool = False,
) -> tuple[AuditFinding, ...]:
    """Judge advisories by a plan that has a decision on each patch that resolves one of them.

    Args:
        advisories: what to judge.
        plan: decisions on the code that is really there, each for itself.
        locked: ids of the patches that a lock says the code carries. If the code does not show one,
            it is not cured.
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
        findings.append(_finding(advisory, curing, plan, locked, trust_untested=trust_untested))
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
    if not curing:
        status, reason = Status.UNKNOWN, advisory.not_carried or "vpatch has no patch for it"
        if claimed is False:
            status = Status.NOT_AFFECTED
            reason = "its range does not have this version; the code was not read"
        return AuditFinding(advisory, status, reason, claimed=claimed, severity=severity)
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
        case State.ABSENT if decision.new_shape and not proven_in_recipe(decision, tree):
            reason = f"{name} is absent, on code that nobody has checked: {decision.reason}"
            return _Verdict(Status.UNDER_INVESTIGATION, reason)
        case State.ABSENT:
            return _Verdict(Status.NOT_AFFECTED, decision.reason)
        case _:
            reason = f"{name} is {decision.state}: {decision.reason}"
            return _Verdict(Status.UNDER_INVESTIGATION, reason)


def _judge_cure(decision: Decision, tree: str, *, trust_untested: bool) -> _Verdict:
    name, shapes = decision.patch.id, decision.patch.shapes
    upstreamed = _alike(decision, tree, State.UPSTREAMED)
    if upstreamed:
        return _Verdict(Status.FIXED, f"vLLM {upstreamed[0]} has the fix, and this is its code")
    patched = _alike(decision, tree, State.NEEDED)
    held = (_held(shapes, tree, patched) if shapes else None) or proven_in_recipe(decision, tree)
    if held is not None:
        return _Verdict(Status.FIXED, f"{name} is applied, and its test holds: {held}")
    if patched:
        reason = f"{name} is applied, and no behaviour test has shown that it cures exactly this"
    elif decision.state is State.APPLIED:
        reason = f"{name} is applied, on code that nobody has tested it on"
    else:
        reason = f"the code has the cure of {name}, in a form that nobody has tested"
    if trust_untested:
        return _Verdict(Status.FIXED, reason)
    return _Verdict(Status.UNDER_INVESTIGATION, reason)


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
    """Whether a tree is affected by a problem of at least a severity; an unknown one counts."""
    if finding.status is not Status.AFFECTED:
        return False
    return finding.severity is None or SEVERITIES.index(finding.severity) >= SEVERITIES.index(least)
