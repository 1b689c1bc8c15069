"""Whether evidence is whole, and for what its command would run now."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.proofs.usecase import proof_plans
from vpatch.commands.smoke.request import smoke_plan_of
from vpatch.errors import ExitCode, UsageError, VpatchError, distinct
from vpatch.evidence.records import BehaviourTestRecord
from vpatch.evidence.store import (
    DAMAGE,
    RECORD,
    EvidenceError,
    all_evidence,
    read_evidence,
    tampered,
)
from vpatch.evidence.subject import differences, subject_trees
from vpatch.runs.matrix import matrix_of
from vpatch.util.digest import digest_of
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.evidence.records import SmokeRecord, SubjectTree
    from vpatch.evidence.store import Evidence
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class VerifiedEvidence:
    """Evidence, the files that somebody changed, and what would be different now.

    `unknown` is the error that left open what would be different; None if it is known.
    """

    evidence: Evidence
    changed: list[str]
    differs: list[str]
    unknown: VpatchError | None = None

    @property
    def holds(self) -> bool:
        return not self.changed and not self.differs and self.unknown is None

    @property
    def state(self) -> str:
        if self.unknown is not None:
            return "not known"
        return "matches" if self.holds else "no longer matches"

    @property
    def exit_code(self) -> ExitCode:
        passed = self.evidence.record.result == "passed"
        return ExitCode.CLEAN if self.holds and passed else ExitCode.FINDINGS


@contextmanager
def _reading(evidence: Evidence) -> Iterator[None]:
    """Turn what comes of a record that is not complete into an error of the evidence."""
    try:
        yield
    except DAMAGE as error:
        raise EvidenceError(
            f"the record is not complete: {type(error).__name__}: {error}",
            where=str(evidence.folder / RECORD),
            hint="move its folder elsewhere",
        ) from error


def verify_evidence(context: Context, evidence: Evidence) -> VerifiedEvidence:
    """Compare evidence with its statement, and with what its command would run now.

    Raises:
        EvidenceError: the record is not complete.
        VpatchError: the environment failed, so it is not known what would run now.
    """
    with _reading(evidence):
        changed = tampered(evidence)
        # What was changed cannot be asked what it was asked for.
        differs = [] if changed else _differences(context, evidence)
    return VerifiedEvidence(evidence, changed, differs)


def verify_named(context: Context, folder: Path) -> VerifiedEvidence:
    """Read the evidence in a folder, and verify it; see `verify_evidence`.

    Raises:
        EvidenceError: it cannot be read.
        VpatchError: the environment failed, so it is not known what would run now.
    """
    return verify_evidence(context, read_evidence(folder))


def verify_all(context: Context, root: Path) -> tuple[list[VerifiedEvidence], list[VpatchError]]:
    """Verify all evidence of a folder, oldest first; one that fails does not hide the others.

    Returns:
        The evidence that can be read, and the errors. An error that several meet is there once.
    """
    readable, damaged = all_evidence(root)
    verified: list[VerifiedEvidence] = []
    errors: list[VpatchError] = [*damaged]
    for evidence in readable:
        try:
            verified.append(verify_evidence(context, evidence))
        except EvidenceError as error:
            errors.append(error)
        except VpatchError as error:
            verified.append(VerifiedEvidence(evidence, [], [], error))
            errors.append(error)
    return verified, distinct(errors)


def unchanged_evidence(folder: Path) -> Evidence:
    """Read evidence whose files are as they were written.

    Raises:
        EvidenceError: it cannot be read, or a file was changed.
    """
    evidence = read_evidence(folder)
    with _reading(evidence):
        changed = tampered(evidence)
    if changed:
        raise EvidenceError(
            f"it was changed since it was written, so it is not shown: {', '.join(changed)}",
            where=str(evidence.folder),
            hint="restore the files, or make the evidence anew",
            code="evidence.changed",
        )
    return evidence


def _difference(what: str, error: VpatchError) -> str:
    """Say what an error means for evidence.

    Raises:
        VpatchError: this error, if the environment failed: that says nothing of the evidence.
    """
    if error.exit_code == ExitCode.ENVIRONMENT:
        raise error
    return f"{what}: {error.what}"


def _differences(context: Context, evidence: Evidence) -> list[str]:
    """Plan anew what the record says that was asked for."""
    record = evidence.record
    if isinstance(record, BehaviourTestRecord):
        return _differences_of_test(context, record)
    asked = record.asked
    # An image and an environment say themselves what is in them.
    if asked.get("image") or asked.get("python"):
        (tree,) = record.subject
        ids = tuple(patch.id for patch in tree.patches)
        request = selection.Request(tree.pin.version, None, (), ids)
    else:
        request = selection.Request(
            asked["vllm"],
            asked["recipe"],
            tuple(asked["tree"]),
            tuple(asked["patch"]),
            library=bool(asked.get("library")),
        )
    try:
        if record.points is not None:
            return _differences_of_points(context, evidence.folder, record, request)
        jobs = _select(context, request, asked.get("point"))
        changes = [*differences(record.subject, _subject_now(context, jobs))]
    except VpatchError as error:
        return [_difference("it cannot be planned", error)]
    recipe = asked["plan"] or asked["recipe"] or jobs[0].recipe
    return changes + _plan_differs(context, record, request, recipe)


def _select(
    context: Context, request: selection.Request, point: str | None
) -> Sequence[selection.Selection]:
    """What is run now: that of a request, or that of a point of its recipe's matrix."""
    if point is None:
        return selection.resolve(request, context.library)
    matrix = matrix_of(context, request)
    points = {one.name: one.jobs for one in matrix.points} if matrix else {}
    if point not in points:
        raise UsageError(
            f"the recipe has no point {point} any more",
            hint="run the matrix again",
            code="library.not-in-recipe",
        )
    return points[point]


def _subject_now(context: Context, jobs: Sequence[selection.Selection]) -> list[SubjectTree]:
    with ExitStack() as stack:
        plans = []
        for job in jobs:
            tree = stack.enter_context(context.tree(job.spec, job.expected_digest))
            plans.append(planned(context, job.patches, tree, to_write=True))
        return subject_trees(plans)


def _differences_of_points(
    context: Context, folder: Path, record: SmokeRecord, request: selection.Request
) -> list[str]:
    """The same of each point of a matrix, which has evidence of its own."""
    changes = []
    for point in record.points or ():
        there = read_evidence(folder / point.folder).record.subject
        jobs = _select(context, request, point.name)
        now = _subject_now(context, jobs)
        changes += [f"{point.name}: {what}" for what in differences(there, now)]
    recipe = record.asked["plan"] or request.recipe
    return changes + _plan_differs(context, record, request, recipe)


def _plan_differs(
    context: Context, record: SmokeRecord, request: selection.Request, recipe: str | None
) -> list[str]:
    try:
        plan = smoke_plan_of(context, recipe)
        point = record.asked.get("point")
        matrix = matrix_of(context, request) if point is not None else None
        for one in matrix.points if matrix is not None else ():
            if matrix is not None and one.name == point:
                plan = matrix.plan_at(plan, one.needs)
    except VpatchError as error:
        return [_difference("its smoke plan is not there any more", error)]
    same = plan.model_dump(mode="json", exclude_none=True) == record.plan
    return [] if same else ["the smoke plan has changed"]


def _differences_of_test(context: Context, record: BehaviourTestRecord) -> list[str]:
    """Plan anew what the test was run on, and look at the test itself."""
    try:
        patch = context.library.patch(record.patch)
        proofs = [p for p in patch.declaration.proof if p.test == record.test.file]
        proof = next((p for p in proofs if p.engine == record.engine.kind), None)
        if proof is None:
            return [f"{patch.id} has no proof {record.test.file} any more"]
        with ExitStack() as stack:
            plans = proof_plans(context, patch, proof, record.asked["vllm"], stack)
        changes = [*differences(record.subject, subject_trees(plans.all_after))]
    except VpatchError as error:
        return [_difference("it cannot be planned", error)]
    if digest_of((patch.folder / proof.test).read_bytes()) != record.test.digest:
        changes.append(f"the test {proof.test} has changed")
    if proof.model_dump(mode="json", exclude_defaults=True) != record.proof:
        changes.append(f"what is declared of the test {proof.test} has changed")
    return changes
