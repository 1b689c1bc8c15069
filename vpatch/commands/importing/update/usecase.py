"""A source that a patch is of moved on: its newer form becomes the patch, which keeps the rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, SourceChange
from vpatch.changes.paths import aside
from vpatch.commands.edit.fold_in import fold_in, refuse_unfit
from vpatch.commands.edit.series import planned_series, refuse_foreign, required_series
from vpatch.commands.importing.run import ImportRun
from vpatch.commands.importing.sources.own_work import why_not_own
from vpatch.commands.importing.sources.release import opened_source
from vpatch.errors import ConflictingOptionsError, MissingOptionError
from vpatch.util.scratch import scratch_folder
from vpatch.util.unified_diff import unified_diff

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.commands.edit.refresh_result import RefreshedPatch
    from vpatch.commands.edit.series import Series
    from vpatch.commands.importing.request import ImportedPatch, ImportRequest
    from vpatch.commands.importing.sources.release import OpenedSource
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class UpdatedPatch:
    """A patch that gives the newer form of its source.

    `imported` is a patch of the newer form by itself, and `new` the lines of the difference of what
    the patch gives now and what it gave. `why_untrusted` says why nobody trusts it by this.
    """

    imported: ImportedPatch
    patch: RefreshedPatch
    new: tuple[bytes, ...]
    why_untrusted: str | None

    @property
    def needs_a_person(self) -> bool:
        return self.imported.needs_a_person or self.patch.needs_a_person


def update_patch(context: Context, request: ImportRequest) -> UpdatedPatch:
    """Make a patch of the project give what a source gives, which is a newer form of its own.

    All changes of the source become this one patch. It keeps its id, its claims, its comments, and
    the edits that still give their part. Without an id in the request, it is that of the source.

    Raises:
        UsageError: the source cannot be read, or the patch does not apply to its release.
        VpatchError: something cannot be read or written, or no edits are proven.
    """
    with opened_source(context, request) as source:
        patch = context.library.patch(request.patch_id or _id_of(source))
        refuse_foreign(context, patch)
        if patch.codemods:
            context.require_trust([patch])
        patches = required_series(context, patch)
        series = planned_series(context, patches, patch.id, source.tree)
        fitting = source.changes_on(series.tree_below)
        if fitting.upstreamed:
            if series.earlier:
                raise ConflictingOptionsError(
                    f"{source.tree.pin.label} has the change already, and {patch.id} requires "
                    f"{series.earlier[-1].id}",
                    where=str(request.source),
                    hint="name an earlier release that the newer form is for",
                )
            series = planned_series(context, patches, patch.id, fitting.base)
        refuse_unfit(series)
        plain = replace(source.request, releases="none", examples=False)
        with scratch_folder() as staging:
            release = source.tree if fitting.upstreamed else None
            run = ImportRun(context, plain, (), fitting.base, release, staging)
            (imported,) = run.run([_as_one(fitting.changes, patch.id)])
        reason = why_not_own(source.request, fitting.changes)
        # No source has tests or documentation for a patch, so those of the patch stay.
        beside = {p: one.after for p, one in series.decision.changes.items() if aside(p)}
        wanted, effect = {**beside, **imported.proof.files}, imported.draft.effect
        new = tuple(_differences(series, wanted, fitting.base))
        is_own = reason is None
        updated = fold_in(context, series, wanted, effect, request.releases, is_own=is_own)
    return UpdatedPatch(imported, updated, new, reason)


def _id_of(source: OpenedSource) -> str:
    """The id that the one change of a source would get."""
    changes = source.changes_on(source.tree).changes
    if len(changes) != 1:
        raise MissingOptionError(
            f"the source has {len(changes)} changes, and nothing names the patch that they become",
            where=str(source.request.source),
            hint="name it with --id ID",
        )
    return changes[0].id


def _as_one(changes: Sequence[SourceChange], patch_id: str) -> SourceChange:
    """Several changes, each on top of the one before, as one."""
    files: dict[str, FileChange] = {}
    for file in (file for change in changes for file in change.files):
        first = files.get(file.path, file)
        files[file.path] = FileChange(file.path, first.before, file.after)
    return replace(
        changes[0],
        id=patch_id,
        files=tuple(one for one in files.values() if one.before != one.after),
        aside=tuple(one for change in changes for one in change.aside),
        notes=tuple(note for change in changes for note in change.notes),
        doubts=tuple(doubt for change in changes for doubt in change.doubts),
        printed=tuple(line for change in changes for line in change.printed),
    )


def _differences(series: Series, wanted: Mapping[str, bytes], base: Tree) -> Iterator[bytes]:
    """How what a patch is to give of a tree differs from what it gives."""
    before = {path: change.after for path, change in series.decision.changes.items()}
    there = frozenset(base.paths())
    for path in sorted({*before, *wanted}):
        pristine = base.read(path) if path in there else b""
        yield from unified_diff(path, before.get(path, pristine), wanted.get(path, pristine))
