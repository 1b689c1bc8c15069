"""Record the code that patches are known on: the definitions that they read, release by release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.proofs.behaviour_records import refuse_unrecordable, update
from vpatch.commands.proofs.decision_records import record_decisions
from vpatch.errors import UnavailableError, UsageError
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
from vpatch.source.spec import parse_vllm
from vpatch.workspace.examples import example_decisions
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from vpatch.library.patch import Patch
    from vpatch.planning.code_shape import CodeShape
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_TREE = "vllm"


@dataclass(frozen=True)
class RecordedShapes:
    """What was recorded of a patch. `left_out` are the releases in which an apply would stop."""

    patch: Patch
    shapes: Shapes
    left_out: tuple[tuple[str, Decision], ...]

    @property
    def known(self) -> tuple[KnownShape, ...]:
        return self.shapes.shapes[_TREE]


def record_shapes(
    context: Context, patches: Sequence[Patch], releases: Sequence[str]
) -> Iterator[RecordedShapes]:
    """Read the shapes of releases of vLLM, and write them to shapes.json beside each patch.

    Then `record_decisions` writes what the patches mean for these releases.

    Releases that a patch is recorded for already are read again. What is recorded of behaviour
    stays. A release in which the patch conflicts gets no shape.

    Raises:
        UsageError: a patch came with the installed vpatch, or none is for vLLM.
        VpatchError: a source or a patch cannot be read, or a record cannot be written.
    """
    refuse_unrecordable(patches)
    concerned = [patch for patch in patches if _TREE in patch.declaration.needed_in]
    _tell_of_others(context, [patch for patch in patches if patch not in concerned], concerned)
    wanted = {patch.id: _releases(patch, releases) for patch in concerned}
    read: dict[str, dict[str, Decision]] = {patch.id: {} for patch in concerned}
    in_order = _in_order(release for one in wanted.values() for release in one)
    for release in in_order:
        task = context.progress.start(f"Reading the code of vLLM {release}")
        asked = [patch.id for patch in concerned if release in wanted[patch.id]]
        with context.tree(parse_vllm(release)) as tree:
            for decision in _plan_alone(context, asked, tree, {}):
                read[decision.patch.id][release] = decision
        task.done()
    names = {
        patch_id: {n for d in decisions.values() if d.shape for n in nameable(d.shape.definitions)}
        for patch_id, decisions in read.items()
    }
    whole: dict[str, dict[str, _Read]] = {patch.id: {} for patch in concerned}
    for release in in_order:
        asked = [patch.id for patch in concerned if release in wanted[patch.id]]
        task = context.progress.start(f"Reading what is around it in vLLM {release}")
        with context.tree(parse_vllm(release)) as tree:
            for decision in _plan_alone(context, asked, tree, names):
                if decision.shape is not None:
                    patched = _read_patched(context, decision, names, tree)
                    one = _Read(decision, decision.shape, patched, tree.pin.digest)
                    whole[decision.patch.id][release] = one
        task.done()
    for patch in concerned:
        yield _record(context, patch, read[patch.id], whole[patch.id])
    record_decisions(context, concerned)


def _tell_of_others(context: Context, others: Sequence[Patch], concerned: Sequence[Patch]) -> None:
    """Only releases of vLLM are read, so patches for plugins alone get no record."""
    if not others:
        return
    names = ", ".join(patch.id for patch in others)
    what = f"nothing is recorded of {names}: `needed-in` does not name {_TREE}"
    if not concerned:
        raise UsageError(
            what,
            where=str(others[0].folder / "patch.yaml"),
            hint=f"add {_TREE} to `needed-in`, if the patch can concern it",
            code="library.nothing-to-record",
        )
    context.progress.note(what)


def _releases(patch: Patch, releases: Sequence[str]) -> list[str]:
    known = (release for shape in _recorded_shapes(patch.shapes) for release in shape.releases)
    return _in_order([*releases, *known])


def _recorded_shapes(shapes: Shapes | None) -> tuple[KnownShape, ...]:
    return shapes.shapes.get(_TREE, ()) if shapes else ()


def _in_order(releases: Iterable[str]) -> list[str]:
    return sorted(set(releases), key=Version)


def _plan_alone(
    context: Context, ids: Sequence[str], tree: Tree, names: Mapping[str, Collection[str]]
) -> Sequence[Decision]:
    """What each patch means for a tree alone, whatever is recorded. It reads `names` there too."""
    every = with_required(ids, context.library)
    unknown = [replace(p, shapes=_reading(p, names.get(p.id, ()))) for p in every]
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


def _reading(patch: Patch, names: Collection[str]) -> Shapes | None:
    """A record that makes a patch read some definitions wherever they are, and knows no release."""
    if not names:
        return None
    shape = KnownShape(
        releases=("0",), state="", variant=None, definitions=dict.fromkeys(sorted(names), "")
    )
    return Shapes(patch_digest=patch.digest, shapes={_TREE: (shape,)})


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


def _record(
    context: Context,
    patch: Patch,
    read: Mapping[str, Decision],
    whole: Mapping[str, _Read],
) -> RecordedShapes:
    examples = list(example_decisions(replace(patch, shapes=None)))
    known: list[KnownShape] = []
    for release, one in whole.items():
        shape = _known_shape(release, one, examples)
        same = next((i for i, one in enumerate(known) if _is_same(one, shape)), None)
        if same is None:
            known.append(shape)
        else:
            together = (*known[same].releases, release)
            known[same] = known[same].model_copy(update={"releases": together})

    def with_shapes(before: Shapes) -> Shapes:
        if _recorded_shapes(before) != _recorded_shapes(patch.shapes):
            raise UnavailableError(
                "another vpatch process wrote it meanwhile",
                where=str(patch.folder / SHAPES),
                hint="run the command again",
                code="library.changed-shapes",
            )
        behaviour = {
            tree: {
                release: tuple(_carry_over(one, patch, read.get(release)) for one in results)
                for release, results in releases.items()
            }
            for tree, releases in before.behaviour.items()
        }
        archives = {release: one.archive for release, one in whole.items()}
        return before.model_copy(
            update={
                "patch_digest": patch.digest,
                "shapes": {**before.shapes, _TREE: tuple(known)},
                "archives": {**before.archives, _TREE: archives},
                "surroundings": {**before.surroundings, _TREE: _surroundings(whole)},
                "behaviour": behaviour,
            }
        )

    shapes = update(context, patch, with_shapes)
    left_out = [(release, d) for release, d in read.items() if release not in whole]
    return RecordedShapes(patch, shapes, tuple(left_out))


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
