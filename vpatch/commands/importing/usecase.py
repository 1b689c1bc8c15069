"""What people already carry becomes patches of the project: all of it, or nothing."""

from __future__ import annotations

import shlex
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.changes.undo import FittedChanges, fitted
from vpatch.checkout.plain import read_plain
from vpatch.commands.importing.request import kind_of, release_named
from vpatch.commands.importing.run import ImportRun
from vpatch.commands.importing.scaffold import present, put_patch, refuse_wrong_id
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.commands.importing.sources.module import from_module
from vpatch.commands.importing.sources.own_work import why_not_own
from vpatch.commands.importing.sources.pull import from_pull
from vpatch.commands.importing.sources.script import DEFAULT_PLACE, from_script
from vpatch.commands.importing.sources.source import distinct_ids, from_diffs, from_range
from vpatch.commands.importing.sources.tree import from_tree
from vpatch.errors import (
    BadValueError,
    ConflictingOptionsError,
    MissingOptionError,
    UnusedOptionError,
    VpatchError,
    combine,
)
from vpatch.source.spec import parse_tree
from vpatch.source.tree import LOCK_FILE
from vpatch.util.extras import require
from vpatch.util.scratch import staging_folder
from vpatch.workspace.checkout import spec_of_pin
from vpatch.workspace.context import exact_release

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.changes.change import DiffedChange, SourceChange
    from vpatch.checkout.plain import PlainCheckout
    from vpatch.commands.importing.request import ImportedPatch, ImportRequest
    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Tree
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
    request = replace(request, kind=request.kind or kind_of(request.source))
    plain = read_plain(Path(request.source)) if request.kind in {"tree", "range"} else None
    spec, digest = _release(request, plain)
    releases = _releases(context, request.releases, spec)
    _refuse_useless(request)
    if plain is not None:
        _refuse_inside(output_dir, Path(request.source))
    if request.patch_id is not None:
        refuse_wrong_id(request.patch_id)
    if output_dir.exists() and not output_dir.is_dir():
        raise BadValueError(
            "the patches cannot be written there: it is a file",
            where=str(output_dir),
            hint="name a folder with --output-dir",
        )
    with context.tree(spec, digest) as tree, limited_time():
        _refuse_unusable(tree)
        if plain is not None and not plain.is_of(tree.pin):
            raise ConflictingOptionsError(
                f"it is a checkout of {plain.source.tree} {plain.source.version}, and the command "
                f"names {tree.pin.version}",
                where=str(request.source),
                hint="leave out --vllm and --tree",
            )
        fitting = _read(context, request, tree, plain)
        changes = distinct_ids(fitting.changes, request.patch_id)
        _refuse_present(changes, output_dir)
        with staging_folder(output_dir, "importing") as staging:
            release = tree if fitting.upstreamed else None
            run = ImportRun(context, request, releases, fitting.base, release, staging)
            imported = _put_in_place(run.run(changes), staging, output_dir)
    if reason := why_not_own(request, changes):
        folders = " ".join(shlex.quote(str(one.folder)) for one in imported)
        context.progress.note(
            f"not trusted, as {reason}: read every file there, then: vpatch trust {folders}"
        )
    else:
        for one in imported:
            context.trust_own(one.folder)
    return imported


def _release(request: ImportRequest, plain: PlainCheckout | None) -> tuple[TreeSpec, str | None]:
    """The release that the source is for, and its digest where a checkout knows it.

    Raises:
        UsageError: nothing says which one.
    """
    if request.vllm is None and request.tree is None:
        if plain is not None:
            return spec_of_pin(plain.source, plain.root), plain.source.digest
        if request.kind == "tree":
            if (Path(request.source) / LOCK_FILE).is_file():
                raise MissingOptionError(
                    "this is a checkout of vpatch apply, and has the changes of patches too",
                    where=str(request.source),
                    hint="make your change in a folder that vpatch source writes; or import it "
                    "with those of the patches, by --vllm VERSION",
                )
            raise MissingOptionError(
                "the folder does not say which release it was made from",
                where=str(request.source),
                hint="name the release with --vllm VERSION; a folder that vpatch source writes "
                "knows it",
            )
    return release_named(request.vllm, request.tree), None


def _refuse_inside(output_dir: Path, checkout: Path) -> None:
    if output_dir.resolve().is_relative_to(checkout.resolve()):
        raise BadValueError(
            "the patches would be written into the checkout that they are made from",
            where=str(output_dir),
            hint="run the command in the folder of your project, or name a folder with "
            "--output-dir",
        )


def _refuse_unusable(tree: Tree) -> None:
    """Refuse a tree to which no patch can refer: without a release, or without a package."""
    name = tree.pin.tree
    if tree.pin.version is None:
        option = "--vllm 0.23.0" if name == "vllm" else f"--tree {name}==VERSION"
        raise BadValueError(
            f"{tree.pin.origin} does not say which release of {name} it is",
            hint=f"give the release that the source is for, such as {option}, or a tag: PATH@TAG",
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


def _read(
    context: Context, request: ImportRequest, tree: Tree, plain: PlainCheckout | None
) -> FittedChanges:
    source = Path(request.source)
    if request.kind == "pull":
        diffed = _read_pull(context, str(request.source))
    elif request.kind == "range":
        diffed = from_range(source, request.commits or "")
    elif request.kind == "diff":
        diffed = from_diffs(source)
    else:
        return FittedChanges(tree, _read_files(request, source, tree, plain))
    return fitted(diffed, tree, upstreamed=request.upstreamed, fuzz=request.fuzz)


def _refuse_useless(request: ImportRequest) -> None:
    """Refuse options that would change nothing."""
    if request.text and request.exact:
        raise ConflictingOptionsError(
            "--text and --exact exclude each other",
            hint="give --text for edits of text only, which keep every byte too, or --exact for "
            "edits by meaning where they keep every byte",
        )
    if request.fuzz and (request.upstreamed or request.kind not in {"diff", "range", "pull"}):
        raise UnusedOptionError(
            "--fuzz would have no effect here: it is for diffs that do not apply to a release",
            hint="leave it out, or import a diff, commits or a pull request without --upstreamed",
        )
    for option, is_there, kind, source in (
        ("--only", bool(request.only), "module", "--from-module"),
        ("--sandbox-path", request.seen_at is not None, "script", "--from-script"),
    ):
        if is_there and request.kind != kind:
            raise UnusedOptionError(
                f"{option} would have no effect without {source}",
                hint=f"leave it out, or name the {kind} with {source}",
            )


def _read_files(
    request: ImportRequest, source: Path, tree: Tree, plain: PlainCheckout | None
) -> list[SourceChange]:
    """Read a source that says what whole files become."""
    if request.upstreamed:
        raise ConflictingOptionsError(
            "--upstreamed is for diffs, commits and pull requests",
            where=str(source),
            hint="leave it out, or import the change as a diff",
        )
    stack = Stack(tree)
    if plain is not None:
        return from_checkout(source, plain.base, stack)
    if request.kind == "tree":
        return from_tree(source, stack)
    if request.kind == "script":
        return from_script(source, stack, request.seen_at or DEFAULT_PLACE)
    return from_module(source, stack, request.only)


def _read_pull(context: Context, name: str) -> list[DiffedChange]:
    require("upstream", "an import of a pull request")
    if context.offline:
        raise ConflictingOptionsError(
            "a pull request cannot be read with --offline",
            where=name,
            hint="leave out --offline, or import a .diff that you have",
        )
    with ExitStack() as opened:
        return from_pull(name, context.github(opened))


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
