"""What people already carry becomes patches of the project: all of it, or nothing."""

from __future__ import annotations

import secrets
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from packaging.version import Version

from vpatch.errors import UsageError, VpatchError, combine
from vpatch.importing.claims import claimed_range
from vpatch.importing.drafting import Draft, changed, draft
from vpatch.importing.module_source import from_module
from vpatch.importing.proving import (
    ImportProof,
    OnRelease,
    fits_alone,
    give_together,
    loaded,
    on_release,
    proven,
)
from vpatch.importing.pull_source import from_pull
from vpatch.importing.script_source import DEFAULT_PLACE, from_script
from vpatch.importing.sources import distinct_ids, from_diffs, from_range
from vpatch.importing.stack import Stack
from vpatch.importing.tree_source import from_tree
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.app.context import Context
    from vpatch.importing.change import SourceChange
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree

_TREE = "vllm"


@dataclass(frozen=True)
class ImportRequest:
    """What to import, and how.

    `source` is a path, or the name of a pull request. A script sees the release at `seen_at`.
    `vllm` is the release that the source is for. With `exact`, every byte must be as in the source;
    with `text`, no edit goes by meaning. With `examples`, patches that require no other get the
    files before and after as an example, if they give the same bytes. `releases` are those to
    compare with git, None for all in the cache. The patches go to `output_dir`.
    """

    source: Path | str
    kind: Literal["diff", "range", "tree", "script", "module", "pull"]
    vllm: str
    output_dir: Path
    commits: str | None = None
    patch_id: str | None = None
    exact: bool = False
    text: bool = False
    examples: bool = False
    releases: tuple[str, ...] | None = None
    seen_at: Path = DEFAULT_PLACE


@dataclass(frozen=True)
class ImportedPatch:
    """A patch that was imported, and what is to say of it."""

    draft: Draft
    folder: Path
    proof: ImportProof
    requires: tuple[str, ...]
    releases: tuple[OnRelease, ...]
    notes: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return self.draft.change.id


def import_patches(context: Context, request: ImportRequest) -> list[ImportedPatch]:
    """Import patches, prove them on their release, and write them.

    Raises:
        UsageError: the source cannot be read or does what no patch can do, or a patch of that id is
            there already.
        VpatchError: a tree cannot be read, or a patch would not do what the source does.
    """
    with context.tree(parse_vllm(request.vllm)) as tree:
        if tree.pin.tree != _TREE or tree.pin.version is None:
            raise UsageError(
                f"{request.vllm} is not a release of vLLM",
                hint="give the release that the source is for, such as --vllm 0.23.0",
                code="cli.bad-value",
            )
        changes = distinct_ids(_read(context, request, tree), request.patch_id)
        _refuse_present(changes, request.output_dir)
        staging = request.output_dir / f".importing-{secrets.token_hex(4)}"
        try:
            made = _Import(context, request, tree, staging).run(changes)
            return _put_in_place(made, staging, request.output_dir)
        finally:
            shutil.rmtree(staging, ignore_errors=True)


def _read(context: Context, request: ImportRequest, tree: Tree) -> list[SourceChange]:
    stack = Stack(tree)
    if isinstance(request.source, str):
        return _read_pull(context, request.source, stack)
    if request.kind == "range":
        return from_range(request.source, request.commits or "", stack)
    if request.kind == "tree":
        return from_tree(request.source, stack)
    if request.kind == "script":
        return from_script(request.source, tree, stack, request.seen_at)
    if request.kind == "module":
        return from_module(request.source, stack)
    return from_diffs(request.source, stack)


def _read_pull(context: Context, name: str, stack: Stack) -> list[SourceChange]:
    require("upstream", "an import of a pull request")
    if context.offline:
        raise UsageError(
            "a pull request cannot be read with --offline",
            where=name,
            hint="leave out --offline, or import a .diff that you have",
            code="cli.conflicting-options",
        )
    with ExitStack() as opened:
        return from_pull(name, context.github(opened), stack)


def _refuse_present(changes: Sequence[SourceChange], folder: Path) -> None:
    errors: list[VpatchError] = [
        UsageError(
            f"there is a patch {change.id!r} already",
            where=str(folder / change.id),
            hint="give --id or --output-dir, or remove the one that is there",
            code="importing.exists",
        )
        for change in changes
        if (folder / change.id).exists()
    ]
    if errors:
        raise combine(errors)


@dataclass(frozen=True)
class _Import:
    """One run, in a folder for what is not proven yet."""

    context: Context
    request: ImportRequest
    tree: Tree
    staging: Path

    def run(self, changes: Sequence[SourceChange]) -> list[ImportedPatch]:
        drafts: list[Draft] = []
        errors: list[VpatchError] = []
        task = self.context.progress.start("Finding edits", total=len(changes), unit="changes")
        for number, change in enumerate(changes):
            try:
                below = self._below(changes[:number])
                exact, text = self.request.exact, self.request.text
                drafts.append(draft(change, below, exact=exact, text=text))
            except VpatchError as error:
                errors.append(error)
            task.advance(1)
        task.done()
        if errors:
            raise combine(errors)
        drafts, proofs, notes = self._provable(drafts)
        requires = self._requires(drafts)
        return self._compared(drafts, proofs, requires, notes)

    def _below(self, earlier: Sequence[SourceChange]) -> Tree:
        return changed(self.tree, *earlier) if earlier else self.tree

    def _proofs(
        self, drafts: Sequence[Draft], requires: Mapping[str, Sequence[str]]
    ) -> list[ImportProof]:
        self._write(drafts, requires)
        patches = loaded(self.staging, drafts)
        return proven(patches, drafts, self.tree, self.context.answers)

    def _write(self, drafts: Sequence[Draft], requires: Mapping[str, Sequence[str]]) -> None:
        for one in drafts:
            needed = requires.get(one.change.id, ())
            one.write(self.staging / one.change.id, f">={self.tree.pin.version}", needed)

    def _provable(
        self, drafts: list[Draft]
    ) -> tuple[list[Draft], list[ImportProof], dict[str, str]]:
        """The drafts, each as text if its edits by meaning do not work together."""
        notes: dict[str, str] = {}
        proofs = self._proofs(drafts, _chain(drafts))
        own = {"exact": self.request.exact}
        for plainer in (own | {"merge": False}, {"exact": True}, {"text": True}):
            if self.request.text or not any(proof.failure for proof in proofs):
                break
            for number, proof in enumerate(proofs):
                if proof.failure is not None:
                    change = drafts[number].change
                    below = self._below([one.change for one in drafts[:number]])
                    drafts[number] = draft(change, below, **plainer)
                    if "text" in plainer:
                        notes[change.id] = f"imported as text, as by meaning {proof.failure}"
            proofs = self._proofs(drafts, _chain(drafts))
        errors: list[VpatchError] = [
            _refused(one, proof.failure)
            for one, proof in zip(drafts, proofs, strict=True)
            if proof.failure is not None
        ]
        if errors:
            raise combine(errors)
        return drafts, proofs, notes

    def _requires(self, drafts: Sequence[Draft]) -> dict[str, tuple[str, ...]]:
        """Which patches each one needs: none that fits the release alone, in whatever order."""
        chain = _chain(drafts)
        if not any(chain.values()):
            return chain
        self._write(drafts, {})
        patches = sorted(loaded(self.staging, drafts), key=lambda patch: patch.id)
        files = {file.path: file.after for one in drafts for file in one.change.files}
        answers = self.context.answers
        if not give_together(patches, files, self.tree, answers):
            return chain
        return {
            patch.id: () if fits_alone(patch, self.tree, answers) else chain[patch.id]
            for patch in patches
        }

    def _compared(
        self,
        drafts: Sequence[Draft],
        proofs: Sequence[ImportProof],
        requires: Mapping[str, tuple[str, ...]],
        notes: Mapping[str, str],
    ) -> list[ImportedPatch]:
        self._write(drafts, requires)
        patches = loaded(self.staging, drafts)
        rows = self._rows(patches, drafts)
        found = []
        for number, (one, proof) in enumerate(zip(drafts, proofs, strict=True)):
            releases = tuple(row[number] for row in rows)
            needed = requires.get(one.change.id, ())
            one.write(self.staging / one.change.id, self._claim(releases), needed)
            if self.request.examples and not needed and proof.gives == "exact":
                one.write_example(self.staging / one.change.id)
            more = [notes[one.change.id]] if one.change.id in notes else []
            folder = self.request.output_dir / one.change.id
            found.append(ImportedPatch(one, folder, proof, needed, releases, tuple(more)))
        loaded(self.staging, drafts)
        return found

    def _rows(self, patches: Sequence[Patch], drafts: Sequence[Draft]) -> list[list[OnRelease]]:
        """What each patch means on each of the releases to compare."""
        versions = self._releases()
        if not versions:
            return []
        rows: list[list[OnRelease]] = []
        task = self.context.progress.start(
            "Comparing releases", total=len(versions), unit="releases"
        )
        for version in versions:
            with self.context.tree(parse_vllm(version)) as tree:
                rows.append(on_release(patches, drafts, tree, self.context.answers))
            task.advance(1)
        self.context.answers.save()
        task.done()
        return rows

    def _releases(self) -> list[str]:
        own = self.tree.pin.version
        asked = self.request.releases
        if asked is None:
            asked = self.context.cache.versions(_TREE)
        return [version for version in asked if version != own]

    def _claim(self, releases: Sequence[OnRelease]) -> str:
        origin = Version(str(self.tree.pin.version))
        needed = {
            Version(one.version): one.state in {State.NEEDED, State.CONFLICT, State.BLOCKED}
            for one in releases
        }
        return claimed_range({**needed, origin: True}, origin)


def _chain(drafts: Sequence[Draft]) -> dict[str, tuple[str, ...]]:
    """For each patch the earlier ones that change a file of it."""
    found: dict[str, tuple[str, ...]] = {}
    for number, one in enumerate(drafts):
        own = {file.path for file in one.change.files}
        found[one.change.id] = tuple(
            other.change.id
            for other in drafts[:number]
            if own & {file.path for file in other.change.files}
        )
    return found


def _refused(one: Draft, failure: str) -> VpatchError:
    return VpatchError(
        f"vpatch would not apply the imported patch {one.change.id!r}: {failure}",
        where=one.change.where,
        hint="correct the source: vpatch refuses code that does not compile, and names and imports "
        "that pyflakes finds wrong",
        code="importing.not-provable",
    )


def _put_in_place(made: list[ImportedPatch], staging: Path, folder: Path) -> list[ImportedPatch]:
    """Move the proven patches to their place; none of them stays if one cannot be moved."""
    moved: list[Path] = []
    try:
        for one in made:
            (staging / one.id).rename(folder / one.id)
            moved.append(folder / one.id)
    except BaseException:
        for path in moved:
            shutil.rmtree(path, ignore_errors=True)
        raise
    return [replace(one, folder=folder / one.id) for one in made]
