"""Record the code that patches are known on: the definitions that they read, release by release."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.proofs.behaviour_records import refuse_unrecordable, update
from vpatch.errors import UnavailableError, UsageError
from vpatch.library.shapes import SHAPES, BehaviourOnRelease, KnownShape, Shapes
from vpatch.planning.footprint import combined, definitions_read, digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.shape import is_part, nameable
from vpatch.planning.state import Plan, State, overall_changes
from vpatch.planning.view import View
from vpatch.source.memory import ChangedTree
from vpatch.source.spec import parse_vllm
from vpatch.workspace.examples import example_decisions
from vpatch.workspace.selection import with_required

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.library.patch import Patch
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
    for release in _in_order(release for one in wanted.values() for release in one):
        asked = [patch for patch in concerned if release in wanted[patch.id]]
        for patch_id, decision in _decisions(context, asked, release).items():
            read[patch_id][release] = decision
    names = {
        patch_id: {n for d in decisions.values() if d.shape for n in nameable(d.shape.definitions)}
        for patch_id, decisions in read.items()
    }
    whole = _with_names(context, read, names)
    for patch in concerned:
        yield _record(context, patch, read[patch.id], whole[patch.id])


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


def _decisions(context: Context, patches: Sequence[Patch], release: str) -> dict[str, Decision]:
    """What each patch means for a release alone, whatever is recorded."""
    task = context.progress.start(f"Reading the code of vLLM {release}")
    with context.tree(parse_vllm(release)) as tree:
        decided = _plan_alone(context, patches, tree)
    task.done()
    asked = {patch.id for patch in patches}
    return {d.patch.id: d for d in decided if d.patch.id in asked}


def _plan_alone(context: Context, patches: Sequence[Patch], tree: Tree) -> Sequence[Decision]:
    every = with_required([patch.id for patch in patches], context.library)
    unknown = [replace(patch, shapes=None) for patch in every]
    return plan(unknown, tree, findings_for="none", alone={patch.id for patch in every}).decisions


@dataclass(frozen=True)
class _Read:
    """The definitions of a patch in a release, and in what the patch makes of the release."""

    definitions: dict[str, str]
    patched: dict[str, str]


def _with_names(
    context: Context,
    read: Mapping[str, Mapping[str, Decision]],
    names: Mapping[str, set[str]],
) -> dict[str, dict[str, _Read]]:
    """The definitions of each patch in each release, with those that it reads in another one."""
    by_patch: dict[str, dict[str, _Read]] = {patch_id: {} for patch_id in read}
    for release in _in_order(release for one in read.values() for release in one):
        with context.tree(parse_vllm(release)) as tree:
            view = View(tree)
            for patch_id, decisions in read.items():
                decision = decisions.get(release)
                if decision is not None and decision.shape is not None:
                    others = definitions_read([], {}, names[patch_id], view)
                    definitions = combined(others, decision.shape.definitions)
                    patched = _read_patched(context, decision, names[patch_id], tree)
                    by_patch[patch_id][release] = _Read(definitions, patched)
    return by_patch


def _read_patched(
    context: Context, decision: Decision, names: Iterable[str], tree: Tree
) -> dict[str, str]:
    """What the patch reads in the tree that it makes; nothing if it cannot tell that it did."""
    if decision.state is not State.NEEDED:
        return {}
    ids = {patch.id for patch in with_required([decision.patch.id], context.library)}
    before = (
        {}
        if len(ids) == 1
        else overall_changes(Plan(tree.pin, tuple(_plan_alone(context, [decision.patch], tree))))
    )
    files = {path: change.after for path, change in {**before, **decision.changes}.items()}
    after = ChangedTree(tree, files, frozenset(ids))
    again = next(
        d for d in _plan_alone(context, [decision.patch], after) if d.patch.id == decision.patch.id
    )
    if again.state is not State.APPLIED or again.shape is None:
        return {}
    return combined(definitions_read([], {}, names, View(after)), again.shape.definitions)


def _record(
    context: Context,
    patch: Patch,
    read: Mapping[str, Decision],
    whole: Mapping[str, _Read],
) -> RecordedShapes:
    examples = list(example_decisions(replace(patch, shapes=None)))
    known: list[KnownShape] = []
    for release, both in whole.items():
        shape = _known_shape(read[release], release, both, examples)
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
        shapes = {**before.shapes, _TREE: tuple(known)}
        return before.model_copy(
            update={"patch_digest": patch.digest, "shapes": shapes, "behaviour": behaviour}
        )

    shapes = update(context, patch, with_shapes)
    left_out = [(release, d) for release, d in read.items() if release not in whole]
    return RecordedShapes(patch, shapes, tuple(left_out))


def _known_shape(
    decision: Decision,
    release: str,
    both: _Read,
    examples: Sequence[tuple[str, Decision]],
) -> KnownShape:
    same = [
        name
        for name, example in examples
        if (example.state, example.variant) == (decision.state, decision.variant)
        if example.shape is not None
        and example.shape.definitions
        and is_part(example.shape.definitions, both.definitions)
    ]
    return KnownShape(
        releases=(release,),
        state=decision.state,
        variant=decision.variant,
        definitions=both.definitions,
        patched=both.patched,
        examples=tuple(same),
    )


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
