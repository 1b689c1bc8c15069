"""Record the code that patches are known on: the definitions that they read, release by release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.proofs.behaviour_records import refuse_unrecordable, update
from vpatch.commands.proofs.decision_records import record_decisions
from vpatch.commands.proofs.releases_to_record import VLLM, releases_to_record
from vpatch.errors import UnavailableError
from vpatch.library.shapes import (
    SHAPES,
    BehaviourOnRelease,
    KnownShape,
    Shapes,
    Surrounding,
)
from vpatch.planning.footprint import digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.shape import is_part, nameable
from vpatch.planning.state import Plan, State, overall_changes
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import PypiSpec
from vpatch.workspace.examples import example_decisions
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.code_shape import CodeShape
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class ConflictingRelease:
    """A release that gets no shape, because an apply would stop in it."""

    tree: str
    release: str
    decision: Decision


@dataclass(frozen=True)
class RecordedShapes:
    """What was recorded of a patch."""

    patch: Patch
    shapes: Shapes
    left_out: tuple[ConflictingRelease, ...]


def record_shapes(
    context: Context, patches: Sequence[Patch], vllm: str | None = None
) -> Iterator[RecordedShapes]:
    """Read the shapes of releases of vLLM and of plugins; write shapes.json beside each patch.

    Then `record_decisions` writes what the patches mean for the releases of vLLM.

    Releases that a patch is recorded for already are read again. What is recorded of behaviour
    stays. A release in which the patch conflicts gets no shape.

    Args:
        context: where the patches lie.
        patches: what to record.
        vllm: releases of vLLM with commas between them; by default all, and all of plugins.

    Raises:
        UsageError: a patch came with the installed vpatch, or none has a release to read.
        VpatchError: a source or a patch cannot be read, or a record cannot be written.
    """
    refuse_unrecordable(patches)
    wanted = releases_to_record(context, patches, vllm)
    read = {tree: _read_releases(context, tree, asked) for tree, asked in wanted.items()}
    recorded = {patch_id for asked in wanted.values() for patch_id in asked}
    concerned = [patch for patch in patches if patch.id in recorded]
    for patch in concerned:
        trees = {tree: by_id[patch.id] for tree, by_id in read.items() if patch.id in by_id}
        yield _record(context, patch, trees)
    of_vllm = [patch for patch in concerned if patch.id in wanted.get(VLLM, {})]
    if of_vllm:
        record_decisions(context, of_vllm)


@dataclass(frozen=True)
class _ReadTree:
    """What a patch means for releases of a tree, and what is to be recorded of them."""

    decisions: Mapping[str, Decision]
    shapes: Mapping[str, _Read]


def _read_releases(
    context: Context, tree: str, wanted: Mapping[str, Sequence[str]]
) -> dict[str, _ReadTree]:
    """Read the releases of a tree that are wanted of each patch, by its id."""
    name = "vLLM" if tree == VLLM else tree
    read: dict[str, dict[str, Decision]] = {patch_id: {} for patch_id in wanted}
    in_order = sorted({one for releases in wanted.values() for one in releases}, key=Version)
    for release in in_order:
        task = context.progress.start(f"Reading the code of {name} {release}")
        asked = [patch_id for patch_id, releases in wanted.items() if release in releases]
        with context.tree(PypiSpec(tree, release)) as opened:
            for decision in _plan_alone(context, asked, opened, {}):
                read[decision.patch.id][release] = decision
        task.done()
    names = {
        patch_id: {n for d in decisions.values() if d.shape for n in nameable(d.shape.definitions)}
        for patch_id, decisions in read.items()
    }
    whole: dict[str, dict[str, _Read]] = {patch_id: {} for patch_id in wanted}
    for release in in_order:
        task = context.progress.start(f"Reading what is around it in {name} {release}")
        asked = [patch_id for patch_id, releases in wanted.items() if release in releases]
        with context.tree(PypiSpec(tree, release)) as opened:
            for decision in _plan_alone(context, asked, opened, names):
                if decision.shape is not None:
                    patched = _read_patched(context, decision, names, opened)
                    one = _Read(decision, decision.shape, patched, opened.pin.digest)
                    whole[decision.patch.id][release] = one
        task.done()
    return {patch_id: _ReadTree(read[patch_id], whole[patch_id]) for patch_id in wanted}


def _plan_alone(
    context: Context, ids: Sequence[str], tree: Tree, names: Mapping[str, Collection[str]]
) -> Sequence[Decision]:
    """What each patch means for a tree alone, whatever is recorded. It reads `names` there too."""
    every = with_required(ids, context.library)
    unknown = [replace(p, shapes=_reading(p, tree.pin.tree, names.get(p.id, ()))) for p in every]
    alone = {patch.id for patch in every}
    planned = plan(
        unknown,
        tree,
        findings_for="none",
        alone=alone,
        answers=context.answers,
        surroundings=bool(names),
    )
    return [decision for decision in planned.decisions if decision.patch.id in ids]


def _reading(patch: Patch, tree: str, names: Collection[str]) -> Shapes | None:
    """A record that makes a patch read some definitions wherever they are, and knows no release."""
    if not names:
        return None
    shape = KnownShape(
        releases=("0",), state="", variant=None, definitions=dict.fromkeys(sorted(names), "")
    )
    return Shapes(patch_digest=patch.digest, shapes={tree: (shape,)})


@dataclass(frozen=True)
class _Read:
    """What a patch means for a release, and for what it makes of the release.

    `patched` is None where the patch is not needed, or cannot tell that it was applied.
    """

    decision: Decision
    shape: CodeShape
    patched: CodeShape | None
    archive: str


def _read_patched(
    context: Context, decision: Decision, names: Mapping[str, Collection[str]], tree: Tree
) -> CodeShape | None:
    if decision.state is not State.NEEDED:
        return None
    patch_id = decision.patch.id
    ids = {patch.id for patch in with_required([patch_id], context.library)}
    before = (
        {}
        if len(ids) == 1
        else overall_changes(Plan(tree.pin, tuple(_plan_alone(context, sorted(ids), tree, {}))))
    )
    files = {path: change.after for path, change in {**before, **decision.changes}.items()}
    after = ChangedTree(tree, files, frozenset(ids))
    (again,) = _plan_alone(context, [patch_id], after, names)
    return again.shape if again.state is State.APPLIED else None


def _record(context: Context, patch: Patch, read: Mapping[str, _ReadTree]) -> RecordedShapes:
    """Write what was read of a patch, by the name of the tree."""
    examples = list(example_decisions(replace(patch, shapes=None)))
    known = {tree: _known_shapes(one.shapes, examples) for tree, one in read.items()}

    def with_shapes(before: Shapes) -> Shapes:
        if before.shapes != (patch.shapes.shapes if patch.shapes else {}):
            raise UnavailableError(
                "another vpatch process wrote it meanwhile",
                where=str(patch.folder / SHAPES),
                hint="run the command again",
                code="library.changed-shapes",
            )
        behaviour = {
            tree: {
                release: tuple(
                    _carry_over(one, patch, _decision(read, tree, release)) for one in results
                )
                for release, results in releases.items()
            }
            for tree, releases in before.behaviour.items()
        }
        return before.model_copy(
            update={
                "patch_digest": patch.digest,
                "shapes": known,
                "archives": {
                    tree: {release: whole.archive for release, whole in one.shapes.items()}
                    for tree, one in read.items()
                },
                "surroundings": {tree: _surroundings(one.shapes) for tree, one in read.items()},
                "behaviour": behaviour,
            }
        )

    shapes = update(context, patch, with_shapes)
    left_out = tuple(
        ConflictingRelease(tree, release, decision)
        for tree, one in read.items()
        for release, decision in one.decisions.items()
        if release not in one.shapes
    )
    return RecordedShapes(patch, shapes, left_out)


def _decision(read: Mapping[str, _ReadTree], tree: str, release: str) -> Decision | None:
    return read[tree].decisions.get(release) if tree in read else None


def _known_shapes(
    whole: Mapping[str, _Read], examples: Sequence[tuple[str, Decision]]
) -> tuple[KnownShape, ...]:
    """What was read of the releases of a tree; those that have the same code are one."""
    known: list[KnownShape] = []
    for release, one in whole.items():
        shape = _known_shape(release, one, examples)
        same = next((i for i, one in enumerate(known) if _is_same(one, shape)), None)
        if same is None:
            known.append(shape)
        else:
            together = (*known[same].releases, release)
            known[same] = known[same].model_copy(update={"releases": together})
    return tuple(known)


def _known_shape(release: str, read: _Read, examples: Sequence[tuple[str, Decision]]) -> KnownShape:
    decision = read.decision
    same = [
        name
        for name, example in examples
        if (example.state, example.variant) == (decision.state, decision.variant)
        if example.shape is not None
        and example.shape.definitions
        and is_part(example.shape.definitions, read.shape.definitions)
    ]
    return KnownShape(
        releases=(release,),
        state=decision.state,
        variant=decision.variant,
        definitions=dict(read.shape.definitions),
        patched=dict(read.patched.definitions) if read.patched else {},
        examples=tuple(same),
    )


def _surroundings(whole: Mapping[str, _Read]) -> dict[str, dict[str, Surrounding]]:
    """The definitions around what a patch reads, with the releases that have each digest."""
    releases: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for release, read in whole.items():
        for number, shape in enumerate((read.shape, read.patched)):
            for item in (shape.surroundings or {}).items() if shape else ():
                releases.setdefault(item, ([], []))[number].append(release)
    by_key: dict[str, dict[str, Surrounding]] = {}
    for (key, digest), (pristine, patched) in sorted(releases.items()):
        both = Surrounding(releases=" ".join(pristine), patched=" ".join(patched))
        by_key.setdefault(key, {})[digest] = both
    return by_key


def _is_same(one: KnownShape, other: KnownShape) -> bool:
    return one.model_copy(update={"releases": ()}) == other.model_copy(update={"releases": ()})


def _carry_over(
    result: BehaviourOnRelease, patch: Patch, decision: Decision | None
) -> BehaviourOnRelease:
    """A result for this edition of the patch, if this edition makes the same of the release."""
    if decision is None or result.change_digest is None or result.state != decision.state:
        return result
    if result.change_digest != digest_of_changes(decision.changes):
        return result
    return result.model_copy(update={"patch_digest": patch.digest})
