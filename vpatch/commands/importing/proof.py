"""Drafts are proven before anything is written: on the release, twice, and beside git elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from vpatch.deriving.derive import DOCSTRING
from vpatch.deriving.trial import likeness
from vpatch.git.scratch import ScratchRepository
from vpatch.planning.missing_imports import missing_imports
from vpatch.planning.plan import plan, plan_of_sources
from vpatch.planning.state import State, overall_changes
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.importing.draft import Draft
    from vpatch.deriving.trial import Verdict
    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree

    _Files = tuple[tuple[str, bytes], ...]

# What `git apply -3` makes of the original diff.
GitResult = Literal["applies", "conflicts", "no such file"]
_ORDER: tuple[Verdict, ...] = ("exact", "layout", "code")


@dataclass(frozen=True)
class ImportProof:
    """What a patch makes of its release: `files`, by their paths.

    `gives` says how near that is to the source, and `failure` what is wrong, if anything is.
    `notes` are for people.
    """

    gives: Verdict = "exact"
    failure: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def proven(
    patches: Sequence[Patch], drafts: Sequence[Draft], tree: Tree, answers: Answers
) -> list[ImportProof]:
    """Apply patches to the release twice, and compare what they make with what the sources make.

    A source may import what only another one brings: that is a note, and no failure.
    """
    by_id = {draft.change.id: draft for draft in drafts}
    files: dict[str, bytes] = {}
    proofs: dict[str, ImportProof] = {}
    pristine = View(tree, answers=answers)
    for decision in plan_of_sources(patches, tree, answers).decisions:
        patch = decision.patch
        proof = _proof(decision, by_id[patch.id])
        files |= {path: change.after for path, change in decision.changes.items()}
        missing = missing_imports(decision.changes, pristine.over(files))
        notes = [f"{fault}: the patch is a conflict there until it has that" for fault in missing]
        proof = replace(proof, notes=(*proof.notes, *notes))
        if proof.failure is None:
            failure = failure_of_second(without_requires(patch), tree, files, answers)
            proof = proof if failure is None else ImportProof(failure=failure)
        proofs[patch.id] = proof
    return [proofs[draft.change.id] for draft in drafts]


def without_requires(patch: Patch) -> Patch:
    """The patch by itself, on a tree that has what it requires."""
    return replace(patch, declaration=patch.declaration.model_copy(update={"requires": ()}))


def failure_of_second(
    patch: Patch, tree: Tree, files: Mapping[str, bytes], answers: Answers
) -> str | None:
    """Apply a patch to what it made; a later one of the series may change that again."""
    after = ChangedTree(tree, dict(files), frozenset([patch.id]))
    (again,) = plan([patch], after, answers=answers, shapes=False).decisions
    if again.state is State.APPLIED and not again.changes:
        return None
    return f"applied twice, the patch is {again.state}: {again.reason}"


def give_together(
    patches: Sequence[Patch], files: Mapping[str, bytes], tree: Tree, answers: Answers
) -> bool:
    """Whether patches apply in this order, and make these files of the release."""
    together = plan(patches, tree, answers=answers, shapes=False)
    if any(decision.state is not State.NEEDED for decision in together.decisions):
        return False
    return {path: change.after for path, change in overall_changes(together).items()} == files


def _proof(decision: Decision, draft: Draft) -> ImportProof:
    if decision.state is not State.NEEDED:
        return ImportProof(failure=f"the patch is {decision.state} there: {decision.reason}")
    wanted = {file.path: file.after for file in draft.change.files}
    files = {path: change.after for path, change in decision.changes.items()}
    if files.keys() != wanted.keys():
        paths = sorted(files.keys() ^ wanted.keys())
        return ImportProof(failure=f"it does not change the same files: {', '.join(paths)}")
    worst: Verdict = "code" if draft.left_out else "exact"
    docstrings = all(edit.why != DOCSTRING for edit in draft.left_out)
    for path, text in wanted.items():
        is_python = path.endswith(".py")
        verdict = likeness(files[path], text, docstrings=docstrings) if is_python else None
        if files[path] != text and verdict is None:
            return ImportProof(failure=f"it does not make the same of {path}")
        worst = max(worst, verdict or "exact", key=_ORDER.index)
    return ImportProof(worst, files=files, notes=tuple(_notes(decision)))


def _notes(decision: Decision) -> Iterator[str]:
    # pyflakes takes its time to load.
    from vpatch.planning.lint import unused_imports  # noqa: PLC0415

    for path, fault in unused_imports(decision.changes):
        yield f"{path}:{fault.line}  nothing in the file uses the import of {fault.name} any more"


@dataclass(frozen=True)
class OnRelease:
    """What a patch means for another release, and what git makes of the original diff there."""

    version: str
    state: State
    reason: str
    git: GitResult


def on_release(
    patches: Sequence[Patch], drafts: Sequence[Draft], tree: Tree, answers: Answers
) -> list[OnRelease]:
    """Decide on each patch alone for a release, and apply its original diff with `git apply -3`."""
    decisions = decisions_alone(patches, tree, answers)
    version = tree.pin.version or tree.pin.label
    paths = frozenset(tree.paths())
    releases = []
    for draft in drafts:
        decision = decisions[draft.change.id]
        git = _git_result(draft, tree, paths)
        releases.append(OnRelease(version, decision.state, decision.reason, git))
    return releases


def decisions_alone(patches: Sequence[Patch], tree: Tree, answers: Answers) -> dict[str, Decision]:
    """Decide on each patch alone for a release; the decisions by the ids of the patches."""
    ids = {patch.id for patch in patches}
    plans = plan(patches, tree, findings_for="none", alone=ids, answers=answers, shapes=False)
    return {decision.patch.id: decision for decision in plans.decisions}


def _git_result(draft: Draft, tree: Tree, paths: frozenset[str]) -> GitResult:
    """What `git apply -3` makes of a draft's original diff in a tree."""
    files = draft.change.files
    if any(file.before is not None and file.path not in paths for file in files):
        return "no such file"
    sides = (
        tuple((file.path, file.before) for file in files if file.before is not None),
        tuple((file.path, file.after) for file in files),
        tuple((file.path, tree.read(file.path)) for file in files if file.path in paths),
    )
    return "applies" if _applies(*sides) else "conflicts"


@lru_cache(maxsize=64)
def _applies(before: _Files, after: _Files, there: _Files) -> bool:
    """Whether a diff applies to files that are there; many releases have the same ones."""
    with scratch_folder() as folder:
        scratch = ScratchRepository(folder)
        diff = scratch.diff(scratch.state(dict(before)), scratch.state(dict(after)))
        scratch.state(dict(there))
        return not scratch.apply(diff, three_way=True)
