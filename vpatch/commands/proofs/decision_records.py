"""Record what patches mean for the releases on record, so that nobody need decide it again."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.errors import UnavailableError
from vpatch.library.catalog import root_of
from vpatch.library.decisions import (
    DECISIONS,
    DecisionsOfPatch,
    RecordedDecision,
    RecordedDecisions,
    read_decisions,
    write_decisions,
)
from vpatch.planning.footprint import digest_of_changes
from vpatch.planning.plan import plan
from vpatch.planning.recorded_plan import code_of, series_of
from vpatch.planning.relations import order, required
from vpatch.planning.shape import SHAPED
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.util.filelock import note_of_wait, wait_for_lock
from vpatch.util.own_code import decider_digest
from vpatch.workspace.plan_pool import plans_for
from vpatch.workspace.selection import Selection, with_required

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.library.catalog import Library
    from vpatch.library.patch import Patch
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

_TREE = "vllm"


# The series of all patches that `vpatch status` shows; others have the names of recipes.
_USUAL = "usual"


@dataclass(frozen=True)
class _Decided:
    """What each patch means for a release: alone, and in each series by its name."""

    alone: Mapping[str, Decision]
    in_series: Mapping[str, Mapping[str, Decision]]


def record_decisions(context: Context, patches: Sequence[Patch]) -> None:
    """Decide on patches in the releases on record, and write that into their folder of patches.

    Each is decided on alone, in the series of all patches that `vpatch status` shows, and in that
    of each recipe that lists one of the folder. What is recorded of other patches of the folder
    stays, unless other code decided it.

    Raises:
        UnavailableError: a source cannot be read, or a file cannot be written.
        VpatchError: a source or a patch cannot be read.
    """
    # Shapes were recorded since the library was read.
    context = context.with_library(replace(context.library), uses_records=False)
    by_root: dict[Path, list[Patch]] = defaultdict(list)
    for patch in patches:
        by_root[root_of(patch.folder)].append(patch)
    for root, asked in by_root.items():
        _record(context, root, asked)


def _record(context: Context, root: Path, asked: Sequence[Patch]) -> None:
    known = read_decisions(root, decider_digest()).get(_TREE)
    ids = {*(known.patches if known else ()), *(patch.id for patch in asked)}
    ids &= {one for one, folder in context.library.patches.items() if root_of(folder) == root}
    alone = with_required(sorted(ids), context.library)
    series = dict(_series(context.library, ids))
    archives = {
        release: digest
        for patch in alone
        if patch.shapes
        for release, digest in patch.shapes.archives.get(_TREE, {}).items()
    }
    releases = sorted(archives, key=Version)
    # All cores find what is then known of the contents of files.
    jobs = [Selection(parse_vllm(release), tuple(alone)) for release in releases]
    plans_for(context, jobs, findings_for="none", each_alone=True)
    decided: dict[str, _Decided] = {}
    for release in releases:
        task = context.progress.start(f"Deciding on vLLM {release}")
        with context.tree(parse_vllm(release)) as tree:
            if tree.pin.digest == archives[release]:
                decided[release] = _decide(context, alone, series, tree)
        task.done()
    every = {patch.id: patch for patches in (alone, *series.values()) for patch in patches}
    recorded = RecordedDecisions(
        decider=decider_digest(),
        archives={release: archives[release] for release in decided},
        series={name: series_of(_in_order(name, one)) for name, one in series.items()},
        patches={
            patch.id: one
            for patch in sorted(every.values(), key=lambda patch: patch.id)
            if (one := _of_patch(patch, [*every.values()], decided)) is not None
        },
    )
    lock = context.cache.folder / "locks" / DECISIONS
    with wait_for_lock(
        lock, exclusive=True, on_wait=note_of_wait(DECISIONS, context.progress, "writes")
    ):
        try:
            write_decisions(root, {_TREE: recorded})
        except OSError as error:
            raise UnavailableError(
                f"cannot be written: {error.strerror}",
                where=str(root / DECISIONS),
                hint="correct the permissions of the folder, or free space; then run the command "
                "again",
                code="library.unwritable-shapes",
            ) from error


def _series(library: Library, ids: Container[str]) -> Iterator[tuple[str, list[Patch]]]:
    """The series in which patches are decided on, by their names."""
    usual = with_required(library.usual, library)
    yield _USUAL, [patch for patch in usual if _TREE in patch.relations.needed_in]
    for name, path in sorted(library.recipes.items()):
        listed = library.recipe_selection(path).patches
        if any(patch_id in ids for patch_id in listed) and name != _USUAL:
            patches = library.load(one for one in listed if one in library.patches)
            yield name, [patch for patch in patches if _TREE in patch.relations.needed_in]


def _in_order(name: str, patches: Sequence[Patch]) -> list[Patch]:
    """The patches of a series that meet each other, in the order in which they are decided."""
    apart = _apart(name, patches)
    return [patch for patch in order(patches) if patch.id not in apart]


def _apart(name: str, patches: Sequence[Patch]) -> frozenset[str]:
    """What nobody asked for is decided on alone; who names a recipe asks for all of it."""
    on_request = (p.id for p in patches if p.relations.on_request is not None)
    return frozenset(on_request if name == _USUAL else ())


def _decide(
    context: Context, alone: Sequence[Patch], series: Mapping[str, Sequence[Patch]], tree: Tree
) -> _Decided:
    def decisions(patches: Sequence[Patch], apart: Collection[str]) -> dict[str, Decision]:
        answers = context.answers
        whole = plan(patches, tree, findings_for="none", answers=answers, alone=apart)
        return {decision.patch.id: decision for decision in whole.decisions}

    in_series = {}
    for name, patches in series.items():
        apart = _apart(name, patches)
        decided = decisions(patches, apart)
        in_series[name] = {i: one for i, one in decided.items() if i not in apart}
    return _Decided(decisions(alone, {patch.id for patch in alone}), in_series)


def _of_patch(
    patch: Patch, patches: Sequence[Patch], decided: Mapping[str, _Decided]
) -> DecisionsOfPatch | None:
    code = code_of(patch)
    if code is None:
        return None
    rows: list[RecordedDecision] = []
    for release, one in decided.items():
        places = [(None, one.alone), *one.in_series.items()]
        for name, decisions in places:
            decision = decisions.get(patch.id)
            if decision is not None and _is_recordable(decision, release):
                _add(rows, decision, release, name)
    requires = series_of(required(patch, patches))
    return DecisionsOfPatch(
        digest=patch.digest, requires=requires, code=code, decisions=tuple(rows)
    )


def _add(rows: list[RecordedDecision], decision: Decision, release: str, name: str | None) -> None:
    """Add a release to the row that means the same: of a series, or alone if it has no name."""
    row = RecordedDecision(
        state=decision.state,
        reason=decision.reason,
        variant=decision.variant,
        places=decision.places,
        files=decision.files,
    )
    number = next((n for n, one in enumerate(rows) if one.same_as(row)), len(rows))
    if number == len(rows):
        rows.append(row)
    row = rows[number]
    if name is None:
        changes = {release: digest_of_changes(decision.changes)} if decision.changes else {}
        update = {"releases": (*row.releases, release), "changes": row.changes | changes}
    else:
        those = (*row.in_series.get(name, ()), release)
        update = {"in_series": row.in_series | {name: those}}
    rows[number] = row.model_copy(update=update)


def _is_recordable(decision: Decision, release: str) -> bool:
    """Whether another machine would decide the same."""
    if decision.state in SHAPED:
        return decision.shape is not None and decision.shape.release == release
    # What is told of a codemod.py that fails names its place on this machine.
    return decision.state is not State.UNTRUSTED and not decision.patch.own_code
