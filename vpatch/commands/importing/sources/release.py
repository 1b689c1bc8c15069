"""A source is opened beside the release that it is for."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.changes.stack import Stack
from vpatch.changes.time_limit import limited_time
from vpatch.changes.undo import FittedChanges, fitted
from vpatch.checkout.plain import read_plain
from vpatch.commands.importing.request import kind_of, release_named
from vpatch.commands.importing.sources.checkout import from_checkout
from vpatch.commands.importing.sources.module import from_module
from vpatch.commands.importing.sources.pull import from_pull
from vpatch.commands.importing.sources.script import DEFAULT_PLACE, from_script
from vpatch.commands.importing.sources.source import from_diffs, from_range
from vpatch.commands.importing.sources.tree import from_tree
from vpatch.errors import (
    BadValueError,
    ConflictingOptionsError,
    MissingOptionError,
    UnusedOptionError,
)
from vpatch.source.tree import LOCK_FILE
from vpatch.util.extras import require
from vpatch.workspace.checkout import spec_of_pin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.changes.change import DiffedChange, SourceChange
    from vpatch.checkout.plain import PlainCheckout
    from vpatch.commands.importing.request import ImportRequest
    from vpatch.source.spec import TreeSpec
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class OpenedSource:
    """A source, and the release that it is for. `plain` is a checkout of `vpatch source`."""

    context: Context
    request: ImportRequest
    plain: PlainCheckout | None
    spec: TreeSpec
    tree: Tree

    def changes_on(self, tree: Tree) -> FittedChanges:
        """The changes of the source on top of the release, or of what patches made of it.

        Raises:
            UsageError: it cannot be read, or does what no patch can do.
        """
        return _read(self.context, self.request, tree, self.plain)


@contextmanager
def opened_source(context: Context, request: ImportRequest) -> Iterator[OpenedSource]:
    """Open the release of a source; what is done inside has a limit of time.

    Raises:
        UsageError: the options exclude each other, or nothing says which release it is.
        VpatchError: the release cannot be read.
    """
    request = replace(request, kind=request.kind or kind_of(request.source))
    plain = read_plain(Path(request.source)) if request.kind in {"tree", "range"} else None
    spec, digest = _release(request, plain)
    _refuse_useless(request)
    with context.tree(spec, digest) as tree, limited_time():
        _refuse_unusable(tree)
        if plain is not None and not plain.is_of(tree.pin):
            raise ConflictingOptionsError(
                f"it is a checkout of {plain.source.tree} {plain.source.version}, and the command "
                f"names {tree.pin.version}",
                where=str(request.source),
                hint="leave out --vllm and --tree",
            )
        yield OpenedSource(context, request, plain, spec, tree)


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


def _refuse_unusable(tree: Tree) -> None:
    """Refuse a tree to which no patch can refer: without a release, or without a package."""
    name = tree.pin.tree
    if tree.pin.version is None:
        option = "--vllm 0.23.0" if name == "vllm" else f"--tree {name}==VERSION"
        raise BadValueError(
            f"{tree.pin.origin} does not say which release of {name} it is",
            hint=f"give the release that the source is for, such as {option}, or a tag: PATH@TAG",
        )


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
