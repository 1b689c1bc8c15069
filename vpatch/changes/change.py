"""What an import begins with: files before and after a change, whatever it was read from."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vpatch.changes.file_diff import FileDiff


@dataclass(frozen=True)
class FileChange:
    """A file of the tree before and after; `before` is None for a new file."""

    path: str
    before: bytes | None
    after: bytes


@dataclass(frozen=True)
class LeftAside:
    """A file of the source that is not in the patch, with the reason and the number of hunks.

    `diff` is what the source says of it, as text. `lost` says that a part of the source that may
    matter is in no patch then, and that a person must look.
    """

    path: str
    why: str
    hunks: int
    diff: str = ""
    lost: bool = False


@dataclass(frozen=True)
class Message:
    """What the source says of a change: a title, the rest of its text, and threads upstream.

    `threads` are as `OWNER/NAME#1`. `patch_id` is that of the patch from which vpatch made it.
    `author` is the address that a mail or a commit names as its author's.
    """

    title: str = ""
    body: str = ""
    threads: tuple[str, ...] = ()
    patch_id: str | None = None
    author: str = ""


@dataclass(frozen=True)
class DiffedChange:
    """One change of a source as it was read, before anybody knows which release it fits.

    `where` is the place in the source, and `fallback` is for its id, if the message has no title.
    """

    diffs: tuple[FileDiff, ...]
    message: Message
    where: str
    fallback: str
    aside: tuple[LeftAside, ...] = ()


@dataclass(frozen=True)
class SourceChange:
    """One change of a source, which becomes one patch.

    `where` is the place in the source, for people: a file, or a commit. `doubts` are places where
    the source says two things, so that a person must look. `printed` are lines that the source
    printed when it ran.
    """

    id: str
    where: str
    message: Message
    files: tuple[FileChange, ...]
    aside: tuple[LeftAside, ...] = ()
    notes: tuple[str, ...] = field(default=())
    doubts: tuple[str, ...] = field(default=())
    printed: tuple[str, ...] = ()

    @property
    def origin(self) -> str:
        """The source without the folders around it, which are nobody else's business.

        What is written into a patch goes into commits and pull requests.
        """
        path, mark, commit = self.where.rpartition(": ")
        return f"{Path(path or commit).name}{f': {commit}' if mark else ''}"
