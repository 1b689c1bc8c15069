"""What people already carry becomes patches of the project: all of it, or nothing."""

from __future__ import annotations

import shlex
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.importing.run import ImportRun
from vpatch.commands.importing.scaffold import present, put_patch, refuse_wrong_id
from vpatch.commands.importing.sources.own_work import why_not_own
from vpatch.commands.importing.sources.release import opened_source
from vpatch.commands.importing.sources.source import distinct_ids
from vpatch.errors import (
    BadValueError,
    VpatchError,
    combine,
)
from vpatch.source.spec import parse_tree
from vpatch.util.garbage import rarely_collected
from vpatch.util.scratch import staging_folder
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.changes.change import SourceChange
    from vpatch.commands.importing.request import ImportedPatch, ImportRequest
    from vpatch.source.spec import TreeSpec
    from vpatch.workspace.context import Context


def import_patches(
    context: Context, request: ImportRequest, output_dir: Path
) -> list[ImportedPatch]:
    """Import patches, prove them on their release, and write them to a folder of patches.

    Raises:
        UsageError: the source cannot be read or does what no patch can do, options exclude each
            other, or a patch of that id is there already.
        VpatchError: a tree cannot be read, or a patch would not do what the source does.
    """
    if request.patch_id is not None:
        refuse_wrong_id(request.patch_id)
    if output_dir.exists() and not output_dir.is_dir():
        raise BadValueError(
            "the patches cannot be written there: it is a file",
            where=str(output_dir),
            hint="name a folder with --output-dir",
        )
    with opened_source(context, request) as source:
        request, tree = source.request, source.tree
        releases = _releases(context, request.releases, source.spec)
        if source.plain is not None:
            _refuse_inside(output_dir, Path(request.source))
        fitting = source.changes_on(tree)
        changes = distinct_ids(fitting.changes, request.patch_id)
        _refuse_present(changes, output_dir)
        with staging_folder(output_dir, "importing") as staging:
            release = tree if fitting.upstreamed else None
            run = ImportRun(context, request, releases, fitting.base, release, staging)
            with rarely_collected():
                results = run.run(changes)
            imported = _put_in_place(results, staging, output_dir)
    if reason := why_not_own(request, changes):
        folders = " ".join(shlex.quote(str(one.folder)) for one in imported)
        context.progress.note(
            f"not trusted, as {reason}: read every file there, then: vpatch trust {folders}"
        )
    else:
        for one in imported:
            context.trust_own(one.folder)
    return imported


def _refuse_inside(output_dir: Path, checkout: Path) -> None:
    if output_dir.resolve().is_relative_to(checkout.resolve()):
        raise BadValueError(
            "the patches would be written into the checkout that they are made from",
            where=str(output_dir),
            hint="run the command in the folder of your project, or name a folder with "
            "--output-dir",
        )


def _releases(context: Context, asked: str | None, spec: TreeSpec) -> tuple[str, ...] | None:
    """The releases of a tree to compare with git; None for those in the cache."""
    if asked is None:
        return None
    if asked == "none":
        return ()
    if spec.tree == "vllm":
        if asked == "all":
            return tuple(context.releases())
        return tuple(exact_release(context, version) for version in asked.split(","))
    if asked == "all":
        raise BadValueError(
            "--releases all is for vLLM",
            hint=f"name releases of {spec.tree}, with commas between them",
        )
    releases = []
    for version in asked.split(","):
        with context.tree(parse_tree(f"{spec.tree}=={version}")) as tree:
            releases.append(str(tree.pin.version))
    return tuple(releases)


def _refuse_present(changes: Sequence[SourceChange], folder: Path) -> None:
    errors: list[VpatchError] = [
        present(folder / change.id) for change in changes if (folder / change.id).exists()
    ]
    if errors:
        raise combine(errors)


def _put_in_place(
    imported: list[ImportedPatch], staging: Path, folder: Path
) -> list[ImportedPatch]:
    """Move the proven patches to their place; none of them stays if one cannot be moved."""
    moved: list[Path] = []
    try:
        for one in imported:
            put_patch(staging / one.id, folder / one.id)
            moved.append(folder / one.id)
    except BaseException:
        for path in moved:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return [replace(one, folder=folder / one.id) for one in imported]
