"""Diffs applied one on top of the other to a release: each becomes a change of whole files."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError, VpatchError, combine
from vpatch.git.scratch import ScratchRepository
from vpatch.importing.change import FileChange, LeftAside, SourceChange
from vpatch.importing.message import id_of
from vpatch.importing.paths import TreePaths, aside
from vpatch.util.nearest_lines import first_difference
from vpatch.util.plural import counted
from vpatch.util.scratch import scratch_folder
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.importing.change import DiffedChange
    from vpatch.importing.difftext import FileDiff
    from vpatch.source.tree import Tree

_FAILED = re.compile(r"^error: patch failed: (.+):(\d+)$", re.MULTILINE)

_MISSING = "the release has no such file"


class Stack:
    """A release and the changes that were read so far, which the next one is on top of."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self.paths = TreePaths.of(tree.paths())
        # Files that changes made, with their newest content.
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        if path in self.files:
            return self.files[path]
        return self._tree.read(path) if path in self.paths.paths else None

    def push(self, change: SourceChange) -> SourceChange:
        """Put a change on top."""
        self.files |= {file.path: file.after for file in change.files}
        return change

    def take(self, change: DiffedChange) -> SourceChange:
        """Apply the diffs of a change, and put it on top.

        Raises:
            UsageError: a diff does not apply, or does what no patch can do.
        """
        kept: dict[str, list[FileDiff]] = {}
        left: list[LeftAside] = []
        errors: list[VpatchError] = []
        where = change.where
        for diff in change.diffs:
            path = self.paths.meant(diff.name)
            why = self._why_aside(diff, path)
            if why is not None:
                missing = why == _MISSING
                left.append(LeftAside(path, why, len(diff.hunks), diff.text(path), missing))
            elif (problem := self._problem(diff, path)) is not None:
                errors.append(_unsupported(f"the diff {problem}: {path}", where))
            else:
                kept.setdefault(path, []).append(diff)
        if errors:
            raise combine(errors)
        if not kept:
            reasons = "; ".join(f"{one.path}: {one.why}" for one in left)
            raise UsageError(
                f"nothing of the diff is for this release ({reasons})",
                where=where,
                hint="name the release that the diff is for with --vllm",
                code="importing.nothing-left",
            )
        before = {path: self.read(path) for path in kept}
        after = self._applied(kept, before, where)
        files = tuple(FileChange(path, before[path], after[path]) for path in kept)
        notes = [note for several in kept.values() for diff in several for note in diff.notes]
        notes += [note for path in kept for note in unsure(path, kept[path], before[path])]
        name = change.message.patch_id or id_of(change.message.title, change.fallback)
        left += change.aside
        return self.push(
            SourceChange(name, where, change.message, files, tuple(left), tuple(notes))
        )

    def _why_aside(self, diff: FileDiff, path: str) -> str | None:
        found = aside(path)
        if found is not None:
            return found
        if diff.old is not None and self.read(path) is None and self.paths.meant(diff.old) == path:
            return _MISSING
        return None

    def _problem(self, diff: FileDiff, path: str) -> str | None:
        """What of a diff no patch can do."""
        if diff.refused is not None:
            return diff.refused
        if diff.new is None:
            return "removes a file"
        if diff.old is not None and self.paths.meant(diff.old) != path:
            return "renames or copies a file"
        try:
            plain_path(path)
        except ValueError as error:
            return f"names no file of a tree ({error})"
        return None

    def _applied(
        self,
        diffs: dict[str, list[FileDiff]],
        before: dict[str, bytes | None],
        where: str,
    ) -> dict[str, bytes]:
        errors: list[VpatchError] = []
        after: dict[str, bytes] = {}
        with scratch_folder() as name:
            scratch = ScratchRepository(Path(name))
            # One by one, as git names the first hunk alone that does not fit.
            for path, several in diffs.items():
                content = before[path]
                scratch.state({} if content is None else {path: content})
                for diff in several:
                    said = apply(scratch, diff, path)
                    if said:
                        place = place_of(path, said, diff, scratch.read([path]).get(path))
                        errors.append(_does_not_apply(place, where, self._tree))
                        break
                else:
                    after |= scratch.read([path])
        if errors:
            raise combine(errors)
        return after


def apply(scratch: ScratchRepository, diff: FileDiff, path: str, *, reverse: bool = False) -> str:
    """Apply a diff, and return what git says if it does not apply."""
    text = diff.text(path).encode()
    # By itself, git takes a hunk without lines below for the end of the file.
    return scratch.apply(text, reverse=reverse) and scratch.apply(
        text, without_context=True, reverse=reverse
    )


def place_of(path: str, said: str, diff: FileDiff, content: bytes | None, sign: str = "-") -> str:
    """The place that git says a diff does not fit, and the line that differs there, for people.

    `sign` is that of the side which `content` should have.
    """
    found = _FAILED.search(said)
    if found is None:
        return f"{path} ({said.strip()})"
    place = f"{path}, the hunk at line {found[2]}"
    lines = (content or b"").decode(errors="replace").splitlines()
    # git names the first hunk that is not there.
    sides = [(hunk.start, hunk.side(sign)) for hunk in diff.hunks]
    start, side = next(((n, side) for n, side in sides if not _places(side, lines)), (1, []))
    differs = first_difference(side, lines, start)
    if differs is None:
        return f"{place}\n  none of its lines is there" if side else place
    return f"{place}\n  {path}:{differs.line}\n{textwrap.indent(str(differs), '    ')}"


def _does_not_apply(place: str, where: str, tree: Tree) -> UsageError:
    return UsageError(
        f"the diff does not apply to {tree.pin.label}: {place}",
        where=where,
        hint="name the release that it was made for with --vllm, or the first one that has it "
        "already, or import what it builds on first",
        code="importing.does-not-apply",
    )


def _unsupported(what: str, where: str) -> UsageError:
    return UsageError(
        what,
        where=where,
        hint="take this file out of the diff, and do by hand what it does: vpatch changes the "
        "contents of text files, and adds files",
        code="importing.unsupported",
    )


def unsure(
    path: str, diffs: Sequence[FileDiff], content: bytes | None, sign: str = "-"
) -> Iterator[str]:
    """Say of hunks that only their line number tells which of several places they mean.

    `sign` is that of the side which `content` has.
    """
    lines = (content or b"").decode(errors="replace").split("\n")
    for hunk in (hunk for diff in diffs for hunk in diff.hunks):
        number = _places(hunk.side(sign), lines)
        if number > 1:
            yield (
                f"{path}, the hunk at line {hunk.start}: its lines are there "
                f"{counted(number, 'time')}; the line number decides"
            )
        elif not hunk.side(sign) and content is not None:
            yield f"{path}, the hunk at line {hunk.start}: only the line number says where it goes"


def _places(side: Sequence[str], lines: Sequence[str]) -> int:
    if not side:
        return 0
    starts = [n for n, line in enumerate(lines) if line == side[0]]
    return sum(lines[n : n + len(side)] == side for n in starts)
