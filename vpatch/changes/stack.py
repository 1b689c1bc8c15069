"""Diffs applied one on top of the other to a release: each becomes a change of whole files."""

from __future__ import annotations

import re
import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, LeftAside, SourceChange
from vpatch.changes.fuzzy import laid_in
from vpatch.changes.message import id_of
from vpatch.changes.paths import TreePaths, aside
from vpatch.changes.time_limit import check_time
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.git.scratch import ScratchRepository
from vpatch.util.nearest_lines import first_difference
from vpatch.util.plural import counted
from vpatch.util.scratch import scratch_folder
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.changes.change import DiffedChange
    from vpatch.changes.file_diff import FileDiff
    from vpatch.changes.paths import Place
    from vpatch.source.tree import Tree

_FAILED = re.compile(r"^error: patch failed: (.+):(\d+)$", re.MULTILINE)

# As much as is derived in minutes: the time grows faster than the lines.
_MOST_LINES = 20_000


class Stack:
    """A release and the changes that were read so far, which the next one is on top of.

    With `fuzz`, a diff that git does not take is laid in with `patch`, and a person must look.
    """

    def __init__(self, tree: Tree, *, fuzz: bool = False) -> None:
        self.tree = tree
        self._fuzz = fuzz
        self.paths = TreePaths.of(tree)
        # Files that changes made, with their newest content.
        self.files: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        if path in self.files:
            return self.files[path]
        return self.tree.read(path) if path in self.paths.paths else None

    def push(self, change: SourceChange) -> SourceChange:
        """Put a change on top."""
        self.files |= {file.path: file.after for file in change.files}
        return change

    def take(self, change: DiffedChange) -> SourceChange:
        """Apply the diffs of a change, and put it on top.

        Raises:
            UsageError: a diff does not apply, or does what no patch can do.
        """
        diffs: dict[str, list[FileDiff]] = {}
        left_aside: list[LeftAside] = list(change.aside)
        errors: list[VpatchError] = []
        where = change.where
        places = self.places(change)
        for diff, place in zip(change.diffs, places, strict=True):
            path, shown = place.path, diff.text(place.path)
            is_there = path in diffs or path in self.files or path in self.paths.paths
            if (why := aside(path)) is not None:
                left_aside.append(LeftAside(path, why, len(diff.hunks), shown))
            elif (why := self._why_lost(diff, place, is_there=is_there)) is not None:
                left_aside.append(LeftAside(path, why, len(diff.hunks), shown, lost=True))
            elif (problem := self._problem(diff, place)) is not None:
                errors.append(_unsupported(f"the diff {problem}: {path}", where))
            else:
                # What adds all lines of a file that is not there makes a new file.
                is_new = diff.may_create and not is_there
                diffs.setdefault(path, []).append(replace(diff, old=None) if is_new else diff)
        if errors:
            raise combine(errors)
        if not diffs:
            reasons = "; ".join(f"{one.path}: {one.why}" for one in left_aside)
            raise UsageError(
                f"nothing of the diff is for this release ({reasons})",
                where=where,
                hint="name the release that the diff is for with --vllm",
                code="importing.nothing-left",
            )
        before = {path: self.read(path) for path in diffs}
        after, moves = self._apply(diffs, before, where)
        files = tuple(FileChange(path, before[path], after[path]) for path in diffs)
        doubts = [*(note for diff in change.diffs for note in diff.notes), *moves]
        lacking = {
            place.path.removesuffix(place.tail)
            for place in places
            if place.path in diffs and place.path != place.tail
        }
        notes = [
            f"the paths in the diff lack {each}: they are taken as below it" for each in lacking
        ]
        notes += [note for path in diffs for note in unsure(path, diffs[path], before[path])]
        name = change.message.patch_id or id_of(change.message.title, change.fallback)
        return self.push(
            SourceChange(
                name, where, change.message, files, tuple(left_aside), tuple(notes), tuple(doubts)
            )
        )

    def places(self, change: DiffedChange) -> list[Place]:
        """The place in the tree that each diff of a change means."""
        return self.paths.places(change.diffs, self.files)

    def _why_lost(self, diff: FileDiff, place: Place, *, is_there: bool) -> str | None:
        """Why the release has no place for a diff that may matter."""
        if place.why is not None:
            return place.why
        is_renamed = diff.old is not None and not place.is_named(diff.old)
        is_refused = diff.refused is not None or place.path in self.tree.links
        if is_there or is_renamed or is_refused or diff.may_create:
            return None
        return "the release has no such file"

    def _problem(self, diff: FileDiff, place: Place) -> str | None:
        """What of a diff no patch can do."""
        path = place.path
        problems = {
            "removes a file": diff.new is None,
            "renames or copies a file": diff.old is not None and not place.is_named(diff.old),
            "changes what is a symbolic link in the release": any(
                path == link or path.startswith(f"{link}/") for link in self.tree.links
            ),
            f"adds or removes more than {_MOST_LINES} lines of a file": (
                diff.old is not None and diff.changed_lines > _MOST_LINES
            ),
            "needs a file and a folder of one name": self._is_in_the_way(path),
        }
        try:
            plain_path(path)
        except ValueError as error:
            problems[f"names no file of a tree ({error})"] = True
        return diff.refused or next((what for what, holds in problems.items() if holds), None)

    def _is_in_the_way(self, path: str) -> bool:
        parts = path.split("/")
        parents = ["/".join(parts[:n]) for n in range(1, len(parts))]
        files = (self.paths.paths, self.files)
        return path in self.paths.folders or any(p in each for p in parents for each in files)

    def _apply(
        self,
        diffs: dict[str, list[FileDiff]],
        before: dict[str, bytes | None],
        where: str,
    ) -> tuple[dict[str, bytes], list[str]]:
        """What the diffs make of files, and the hunks that `patch` moved."""
        errors: list[VpatchError] = []
        after: dict[str, bytes] = {}
        moves: list[str] = []
        with scratch_folder() as folder:
            scratch = ScratchRepository(folder)
            # One by one, as git names the first hunk alone that does not fit.
            for path, several in diffs.items():
                check_time()
                content = before[path]
                scratch.state({} if content is None else {path: content})
                for diff in several:
                    reply = apply(scratch, diff, path)
                    if not reply:
                        continue
                    content = scratch.read([path]).get(path)
                    laid = None if content is None else laid_in(diff, path, content)
                    if laid is None or not self._fuzz:
                        place = place_of(path, reply, diff, content)
                        is_near = laid is not None
                        errors.append(_does_not_apply(place, where, self.tree, is_near=is_near))
                        break
                    scratch.state({path: laid[0]})
                    moves += laid[1]
                else:
                    after |= scratch.read([path])
        if errors:
            raise combine(errors)
        return after, moves


def apply(scratch: ScratchRepository, diff: FileDiff, path: str, *, reverse: bool = False) -> str:
    """Apply a diff, and return what git says if it does not apply."""
    text = diff.text(path).encode()
    # By itself, git takes a hunk without lines below for the end of the file.
    return scratch.apply(text, reverse=reverse) and scratch.apply(
        text, without_context=True, reverse=reverse
    )


def place_of(path: str, reply: str, diff: FileDiff, content: bytes | None, sign: str = "-") -> str:
    """The place that git says a diff does not fit, and the line that differs there, for people.

    `sign` is that of the side which `content` should have.
    """
    match = _FAILED.search(reply)
    if match is None:
        return f"{path} ({reply.strip()})"
    place = f"{path}, the hunk at line {match[2]}"
    lines = (content or b"").decode(errors="replace").splitlines()
    # git names the first hunk that is not there.
    sides = [(hunk.start, hunk.side(sign)) for hunk in diff.hunks]
    start, side = next(((n, side) for n, side in sides if not _places(side, lines)), (1, []))
    differs = first_difference(side, lines, start)
    if differs is None:
        return f"{place}\n  none of its lines is there" if side else place
    return f"{place}\n  {path}:{differs.line}\n{textwrap.indent(str(differs), '    ')}"


def _does_not_apply(place: str, where: str, tree: Tree, *, is_near: bool) -> UsageError:
    """The error; `is_near` says that `patch` takes the diff with fuzz."""
    further = "; or give --fuzz, as patch takes it where lines around it differ" if is_near else ""
    return UsageError(
        f"the diff does not apply to {tree.pin.label}: {place}",
        where=where,
        hint="name the release that it was made for with --vllm, or the first one that has it "
        f"already, or import what it builds on first{further}",
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
