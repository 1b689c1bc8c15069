"""What a script left of a copy of the release, read without trust in any of it."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, LeftAside, Message, SourceChange
from vpatch.changes.message import id_of
from vpatch.changes.paths import aside
from vpatch.commands.importing.sources.tree import BUILT, LEFT_OUT, is_text, refuse_large
from vpatch.errors import UsageError
from vpatch.util.plural import listed
from vpatch.util.untrusted import plain_path, read_file
from vpatch.util.visible import visible_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.changes.stack import Stack

# vLLM has 5,000 files and folders.
MOST_FILES = 50_000
MOST_NEW = 1_000
# One file that changed, and all of them.
LARGEST_CHANGED = 16 << 20
LARGEST_CHANGE = 64 << 20
# What editors and tools leave beside a file, such as fix.py.bak, fix.py~, .fix.py.swp and #fix#.
_BACKUP = re.compile(
    r".*~|#.*#|\.#.*|.*\.(bak|orig|rej)([._-]?\d[\w.-]*)?|.*[._-](bak|orig)\.\w+"
    r"|.*\.(backup|old|save|sw[op])",
    re.IGNORECASE,
)
_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
_EXECUTABLE = 0o111


def effect_on_copy(root: Path, stack: Stack, script: Path, printed: str) -> SourceChange:
    """Compare a copy that a script changed with the release.

    No process may write to the copy any more.

    Args:
        root: the copy.
        stack: the release, and the changes before the script's.
        script: what the change is called after.
        printed: what the script printed, to be shown if nothing differs.

    Raises:
        UsageError: nothing differs, files of the release are gone, or a limit is broken.
    """
    where = str(script)
    changed: list[FileChange] = []
    left_aside: list[LeftAside] = []
    notes: list[str] = []
    doubts: list[str] = []
    there: set[str] = set()
    size = 0
    for path, place in sorted(_entries(root, script)):
        mode = place.lstat().st_mode
        before = stack.read(path)
        if not stat.S_ISREG(mode):
            what = _KINDS.get(stat.S_IFMT(mode), "no file")
            left_aside.append(LeftAside(visible_line(path), f"it is {what}", 0, lost=True))
            continue
        there.add(path)
        if mode & _EXECUTABLE:
            doubts.append(f"{visible_line(path)} is executable now, which a patch cannot say")
        content = _content(place, mode, script)
        if content == before:
            continue
        why = _why_useless(path, before)
        lost = why is None and (why := _why_impossible(path, content)) is not None
        if why is not None:
            left_aside.append(LeftAside(visible_line(path), why, 0, lost=lost))
            continue
        changed.append(FileChange(path, before, content))
        size += len(content)
        if size > LARGEST_CHANGE:
            raise limit_broken(f"changed more than {LARGEST_CHANGE} bytes", script)
        if before is None:
            notes.append(f"{path} is a new file")
    gone = {path: aside(path) for path in sorted(set(stack.tree.paths()) - there)}
    useless = {path: why for path, why in gone.items() if why is not None}
    left_aside += [LeftAside(path, f"{why}, and it is gone", 0) for path, why in useless.items()]
    _refuse_gone([path for path in gone if path not in useless], where)
    if not changed:
        shown = "".join(f"\n  left aside: {one.path}: {one.why}" for one in left_aside[:10])
        raise UsageError(
            f"nothing differs from the release{shown}{printed}",
            where=where,
            hint="is --vllm the release that the script is for, and does it look for vllm/ where "
            "--sandbox-path shows it?",
            code="importing.nothing-left",
        )
    number = sum(file.before is None for file in changed)
    if number > MOST_NEW:
        raise limit_broken(f"left {number} new files; vpatch takes {MOST_NEW}", script)
    refuse_large(changed, where)
    return SourceChange(
        id=id_of("", script.stem),
        where=where,
        message=Message(f"What {script.stem} changes"),
        files=tuple(changed),
        aside=tuple(left_aside),
        notes=tuple(notes),
        doubts=tuple(doubts),
    )


def limit_broken(what: str, script: Path, printed: str = "") -> UsageError:
    """Return the error for a script that took more than the sandbox allows."""
    return UsageError(
        f"the script {what}{printed}",
        where=str(script),
        hint="correct the script; or run it yourself on a copy of the release, and give the copy "
        "to --from-tree",
        code="importing.script-limit",
    )


def _entries(root: Path, script: Path) -> Iterator[tuple[str, Path]]:
    """All that is below a folder but folders and bytecode; no link is followed."""
    folders = [root]
    number = 0
    while folders:
        folder = folders.pop()
        try:
            folder.chmod(stat.S_IRWXU)
            with os.scandir(folder) as entries:
                for entry in entries:
                    number += 1
                    if number > MOST_FILES:
                        raise limit_broken(f"left more than {MOST_FILES} files", script)
                    place = Path(entry.path)
                    if not entry.is_dir(follow_symlinks=False):
                        yield place.relative_to(root).as_posix(), place
                    elif entry.name != "__pycache__":
                        folders.append(place)
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise limit_broken("left folders that are nested too deeply", script) from error


def _content(place: Path, mode: int, script: Path) -> bytes:
    if not mode & stat.S_IRUSR:
        place.chmod(stat.S_IRUSR)
    try:
        return read_file(place, LARGEST_CHANGED)
    except OSError as error:
        if error.errno != errno.EFBIG:
            raise
        what = f"left a file of more than {LARGEST_CHANGED} bytes: {visible_line(place.name)}"
        raise limit_broken(what, script) from error


def _why_useless(path: str, before: bytes | None) -> str | None:
    """Why a file need not be in the patch; None if it must."""
    name = path.rpartition("/")[2]
    if _is_rejected(name):
        return None
    if before is None and _BACKUP.fullmatch(name):
        return "a backup"
    if path in LEFT_OUT or any(part.endswith(BUILT) for part in path.split("/")):
        return "a build makes it"
    return aside(path)


def _is_rejected(name: str) -> bool:
    return ".rej" in name.lower()


def _why_impossible(path: str, content: bytes) -> str | None:
    """Why a file cannot be in the patch, though it may matter; None if it can."""
    if _is_rejected(path.rpartition("/")[2]):
        return "hunks that did not apply"
    try:
        plain_path(path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except ValueError:
        return "no file of a patch can have this name"
    return None if is_text(content) else "it is not text"


def _refuse_gone(paths: list[str], where: str) -> None:
    if paths:
        raise UsageError(
            f"the script takes files of the release away: {listed(paths, 3)}",
            where=where,
            hint="vpatch cannot remove or rename files: let the script keep them",
            code="importing.missing-files",
        )
