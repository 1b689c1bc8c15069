"""What an import is asked for, and what it gives."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.plain import read_plain
from vpatch.commands.importing.sources.pull import pull_named
from vpatch.commands.importing.sources.tree import is_tree
from vpatch.errors import ConflictingOptionsError
from vpatch.planning.state import State
from vpatch.workspace.selection import one_tree

if TYPE_CHECKING:
    from vpatch.commands.importing.draft import Draft
    from vpatch.commands.importing.proof import ImportProof, OnRelease
    from vpatch.source.spec import TreeSpec

SourceKind = Literal["diff", "range", "tree", "script", "module", "pull"]


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and how.

    Attributes:
        source: a path, or the name of a pull request, such as vllm-project/vllm#44821.
        vllm: the vLLM that the source is for, or the first release that has it already; a checkout
            of `vpatch source` knows it.
        tree: the same for a plugin or a library, such as `NAME==VERSION`, in place of `vllm`.
        kind: what the source is; by default a diff, a folder of diffs, a pull request, or a changed
            tree.
        commits: of a `range`, the commits, as `A..B`.
        patch_id: the id of the patch, if there is one.
        exact: whether every byte must be as in the source, comments too.
        text: whether no edit goes by meaning.
        examples: whether patches that require no other get the files before and after as an
            example; a note says of the others why not.
        releases: those to compare with git: several with commas, `all`, or `none`; by default
            those in the cache.
        upstreamed: whether the release must have the change already; else vpatch finds out.
        fuzz: whether a diff that git does not take is laid in with GNU patch.
        seen_at: where a script sees the release, if not at the usual place.
        only: the names of what to take of a module; by default all.
    """

    source: Path | str
    vllm: str | None = None
    tree: str | None = None
    kind: SourceKind | None = None
    commits: str | None = None
    patch_id: str | None = None
    exact: bool = False
    text: bool = False
    examples: bool = False
    releases: str | None = None
    upstreamed: bool = False
    fuzz: bool = False
    seen_at: Path | None = None
    only: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImportedPatch:
    """A patch that was imported, and what is to say of it."""

    draft: Draft
    folder: Path
    proof: ImportProof
    requires: tuple[str, ...]
    releases: tuple[OnRelease, ...]
    notes: tuple[str, ...] = ()
    # The release that it was taken from, if that has it already.
    upstreamed_in: str | None = None

    @property
    def id(self) -> str:
        return self.draft.change.id

    @property
    def unrecognised(self) -> OnRelease | None:
        """What the patch is in the release that has it already, if that is not `upstreamed`."""
        own = (one for one in self.releases if one.version == self.upstreamed_in)
        return next((one for one in own if one.state is not State.UPSTREAMED), None)

    @property
    def needs_a_person(self) -> bool:
        """Whether something of the source is not in the patch, or is not recognised."""
        change = self.draft.change
        is_partial = bool(change.doubts) or any(file.lost for file in change.aside)
        return is_partial or self.unrecognised is not None


def release_named(vllm: str | None, tree: str | None) -> TreeSpec:
    """The tree that `--vllm` or `--tree` names; see `one_tree`."""
    return one_tree(vllm, tree, Path(), "import")


def kind_of(source: Path | str) -> SourceKind:
    """Return what a source is if nobody says so: a changed tree, a pull request, or a diff."""
    path = Path(source)
    if path.is_dir() and (read_plain(path) is not None or is_tree(path)):
        return "tree"
    is_pull = not path.exists() and pull_named(str(source)) is not None
    return "pull" if is_pull else "diff"


def source_named(
    source: str | None,
    commits: str | None,
    *,
    tree: Path | None,
    module: Path | None,
    script: Path | None,
) -> tuple[Path | str, SourceKind]:
    """The one source that is named, and what it is; see `kind_of`.

    Raises:
        UsageError: none is named, or several are.
    """
    sources: list[tuple[Path | str | None, SourceKind]] = [
        (tree, "tree"),
        (module, "module"),
        (script, "script"),
    ]
    if commits is not None:
        sources.append((Path(source or "."), "range"))
    elif source is not None:
        kind = kind_of(source)
        sources.append((source if kind == "pull" else Path(source), kind))
    named = [(place, kind) for place, kind in sources if place is not None]
    if len(named) != 1:
        raise ConflictingOptionsError(
            "name one source",
            hint="give a diff, a folder or a pull request, or --git-range A..B, "
            "--from-tree DIR, --from-module FILE or --from-script SCRIPT",
        )
    return named[0]
