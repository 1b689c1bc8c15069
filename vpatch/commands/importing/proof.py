"""Drafts are proven before anything is written: on the release, twice, and beside git elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vpatch.deriving.derive import DOCSTRING
from vpatch.deriving.trial import likeness
from vpatch.git.scratch import ScratchRepository
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.planning.state import State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.trust.decision import NOTHING
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.importing.draft import Draft
    from vpatch.deriving.trial import Verdict
    from vpatch.library.patch import Patch
    from vpatch.planning.answers import Answers
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree

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


def loaded(folder: Path, drafts: Sequence[Draft]) -> list[Patch]:
    """Load the patches of drafts that lie in a folder."""
    return [load_patch(folder / draft.change.id, NOTHING) for draft in drafts]


def proven(
    patches: Sequence[Patch], drafts: Sequence[Draft], tree: Tree, answers: Answers
) -> list[ImportProof]:
    """Apply patches to the release twice, and compare what they make with what the sources make."""
    made = {
        decision.patch.id: decision for decision in plan(patches, tree, answers=answers).decisions
    }
    by_id = {draft.change.id: draft for draft in drafts}
    files: dict[str, bytes] = {}
    found: dict[str, ImportProof] = {}
    for patch_id, decision in made.items():
        proof = _proof(decision, by_id[patch_id])
        files |= {path: change.after for path, change in decision.changes.items()}
        if proof.failure is None:
            proof = _proof_of_second(decision.patch, tree, files, answers) or proof
        found[patch_id] = proof
    return [found[draft.change.id] for draft in drafts]


def _proof_of_second(
    patch: Patch, tree: Tree, files: Mapping[str, bytes], answers: Answers
) -> ImportProof | None:
    """Apply a patch to what it made; a later one of the series may change that again."""
    alone = patch.declaration.model_copy(update={"requires": ()})
    after = ChangedTree(tree, dict(files), frozenset([patch.id]))
    (again,) = plan([replace(patch, declaration=alone)], after, answers=answers).decisions
    if again.state is State.APPLIED and not again.changes:
        return None
    return ImportProof(failure=f"applied twice, the patch is {again.state}: {again.reason}")


def give_together(
    patches: Sequence[Patch], files: Mapping[str, bytes], tree: Tree, answers: Answers
) -> bool:
    """Whether patches apply in this order, and make these files of the release."""
    made = plan(patches, tree, answers=answers)
    if any(decision.state is not State.NEEDED for decision in made.decisions):
        return False
    return {path: change.after for path, change in overall_changes(made).items()} == files


def fits_alone(patch: Patch, tree: Tree, answers: Answers) -> bool:
    """Whether a patch applies to a release without any other."""
    return plan([patch], tree, answers=answers).decisions[0].state is State.NEEDED


def _proof(decision: Decision, draft: Draft) -> ImportProof:
    if decision.state is not State.NEEDED:
        return ImportProof(failure=f"the patch is {decision.state} there: {decision.reason}")
    wanted = {file.path: file.after for file in draft.change.files}
    made = {path: change.after for path, change in decision.changes.items()}
    if made.keys() != wanted.keys():
        paths = sorted(made.keys() ^ wanted.keys())
        return ImportProof(failure=f"it does not change the same files: {', '.join(paths)}")
    worst: Verdict = "code" if draft.left_out else "exact"
    docstrings = all(edit.why != DOCSTRING for edit in draft.left_out)
    for path, text in wanted.items():
        is_python = path.endswith(".py")
        verdict = likeness(made[path], text, docstrings=docstrings) if is_python else None
        if made[path] != text and verdict is None:
            return ImportProof(failure=f"it does not make the same of {path}")
        worst = max(worst, verdict or "exact", key=_ORDER.index)
    return ImportProof(worst, files=made, notes=tuple(_notes(decision)))


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
    ids = {patch.id for patch in patches}
    decided = plan(patches, tree, findings_for="none", alone=ids, answers=answers, shapes=False)
    states = {decision.patch.id: decision for decision in decided.decisions}
    version = tree.pin.version or tree.pin.label
    paths = frozenset(tree.paths())
    found = []
    for draft in drafts:
        decision = states[draft.change.id]
        git = git_result(draft, tree, paths)
        found.append(OnRelease(version, decision.state, decision.reason, git))
    return found


def git_result(draft: Draft, tree: Tree, paths: frozenset[str]) -> GitResult:
    """What `git apply -3` makes of a draft's original diff in a tree."""
    files = draft.change.files
    if any(file.before is not None and file.path not in paths for file in files):
        return "no such file"
    with scratch_folder() as name:
        scratch = ScratchRepository(Path(name))
        old = scratch.state({f.path: f.before for f in files if f.before is not None})
        new = scratch.state({file.path: file.after for file in files})
        diff = scratch.diff(old, new)
        scratch.state({file.path: tree.read(file.path) for file in files if file.path in paths})
        return "conflicts" if scratch.apply(diff, three_way=True) else "applies"
