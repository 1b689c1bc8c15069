"""A checkout of `vpatch source` that somebody edited, compared with the release that it is of."""

from __future__ import annotations

import shlex
import stat
from typing import TYPE_CHECKING

from vpatch.changes.change import FileChange, LeftAside, Message, SourceChange
from vpatch.changes.message import commit_message, id_of
from vpatch.changes.paths import aside
from vpatch.commands.importing.sources.tree import BUILT, LEFT_OUT, is_text, refuse_large
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.git import checkout as git
from vpatch.git.found import opened_checkout
from vpatch.util.plural import counted, listed
from vpatch.util.untrusted import LARGEST_FILE, plain_path, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from vpatch.changes.stack import Stack
    from vpatch.git.checkout import ChangedPath
    from vpatch.git.command import FoundRepository

_FILE, _EXECUTABLE = 0o100644, 0o100755
_SHOWN = 3
_DIGITS = 12


def from_checkout(
    folder: Path, base: str, stack: Stack, own: Collection[str] = (), begun: str | None = None
) -> list[SourceChange]:
    """Read what a checkout has otherwise than its release: committed, uncommitted and new files.

    `own` are files that a patch changes already: none of them is left aside. `begun` is the commit
    with which somebody began, if that is not `base`.

    Raises:
        UsageError: nothing differs, or it has a change that no patch can make.
    """
    where, name = str(folder), folder.resolve().name
    with opened_checkout(folder) as repo:
        _refuse_hidden(repo, where)
        paths = [
            _with_mode(folder, one)
            for one in git.changed_paths(repo, base)
            if not _is_built(one.path)
        ]
        ignored = [path for path in git.ignored_files(repo) if not _is_built(path)]
        messages = git.messages(repo, base, "HEAD")
        has_more = bool(git.changed_files(repo))
    meant = [one for one in paths if one.path in own or aside(one.path) is None]
    _refuse_impossible(meant, where, folder, begun or base)
    changed: list[FileChange] = []
    left_aside: list[LeftAside] = []
    for one in paths:
        why = None if one.path in own else aside(one.path)
        lost = None if why else _why_lost(folder, one)
        if lost and one.path in own:
            raise UsageError(
                f"the patch changes {one.path}, and of what is there now no patch can be made: "
                f"{lost}",
                where=str(folder / one.path),
                hint="put text there, or take your change of this file back",
                code="importing.unsupported",
            )
        if why or lost:
            left_aside.append(LeftAside(one.path, str(why or lost), 1, lost=bool(lost)))
        else:
            content = read_file(folder / one.path, LARGEST_FILE)
            changed.append(FileChange(one.path, stack.read(one.path), content))
    if not changed:
        raise _nothing_differs(left_aside, ignored, where)
    refuse_large(changed, where)
    message, title = Message(f"What {name} changes"), ""
    if len(messages) == 1 and not has_more:
        message = commit_message(messages[0])
        title = message.title
    notes = tuple(_notes(messages, ignored, base))
    change_id = message.patch_id or id_of(title, name)
    aside_files = tuple(left_aside)
    return [stack.push(SourceChange(change_id, where, message, tuple(changed), aside_files, notes))]


def _is_built(path: str) -> bool:
    """Whether a build made a file: nobody means it to be in a patch."""
    parts = path.rstrip("/").split("/")
    return path in LEFT_OUT or "__pycache__" in parts or any(p.endswith(BUILT) for p in parts)


def _nothing_differs(
    left_aside: Sequence[LeftAside], ignored: Sequence[str], where: str
) -> UsageError:
    reasons = [f"{one.path}: {one.why}" for one in left_aside]
    reasons += [f"{path}: git ignores it" for path in ignored]
    return UsageError(
        "; ".join(["nothing differs from the release", *reasons[:_SHOWN]]),
        where=where,
        hint="edit files below this folder, and run the command again",
        code="importing.nothing-left",
    )


def _notes(messages: Sequence[str], ignored: Sequence[str], base: str) -> Iterator[str]:
    if ignored:
        yield f"git ignores {counted(len(ignored), 'new file')}: {listed(ignored, _SHOWN)}"
    if len(messages) > 1:
        yield (
            f"{counted(len(messages), 'commit')} became one patch; "
            f"--git-range {base[:_DIGITS]}..HEAD makes one of each"
        )


def _with_mode(folder: Path, one: ChangedPath) -> ChangedPath:
    """A path with the mode that git would give it, where git does not know the file."""
    if one.after != git.NEW:
        return one
    mode = (folder / one.path).lstat().st_mode
    is_executable = mode & stat.S_IXUSR
    file_mode = _EXECUTABLE if is_executable else _FILE
    return one._replace(after=file_mode if stat.S_ISREG(mode) else mode)


def _refuse_hidden(repo: FoundRepository, where: str) -> None:
    if hidden := git.hidden_files(repo):
        raise UsageError(
            f"git does not look at files here: {listed(hidden, _SHOWN)}",
            where=where,
            hint="run git update-index --no-skip-worktree --no-assume-unchanged on them",
            code="importing.unsupported",
        )


def _refuse_impossible(paths: Sequence[ChangedPath], where: str, folder: Path, begun: str) -> None:
    files = {_FILE, _EXECUTABLE}
    regular = [one for one in paths if one.after in files and one.before in {0, *files}]
    removed = [one.path for one in paths if not one.after]
    odd = [one.path for one in paths if one.after and one not in regular and not _is_folder(one)]
    modes = [one.path for one in regular if one.before and one.before != one.after]
    executable = [one.path for one in regular if (one.before, one.after) == (0, _EXECUTABLE)]
    named = shlex.join(removed[:_SHOWN])
    back = f"git -C {shlex.quote(str(folder))} checkout {begun[:_DIGITS]} --"
    errors: list[VpatchError] = [
        UsageError(
            f"the checkout {what}: {listed(names, _SHOWN)}", where=where, hint=hint, code=code
        )
        for what, names, hint, code in (
            (
                "removes or renames files",
                removed,
                f"vpatch cannot remove or rename files: {back} {named} brings back what it names",
                "importing.missing-files",
            ),
            (
                "has links or other things that are no files",
                odd,
                "vpatch adds and changes files alone: take them out of the checkout",
                "importing.unsupported",
            ),
            (
                "changes the mode of files",
                modes,
                "vpatch cannot change modes: put them back with chmod",
                "importing.unsupported",
            ),
            (
                "adds executable files",
                executable,
                "vpatch cannot add executable files: take the mode from them with chmod -x",
                "importing.unsupported",
            ),
        )
        if names
    ]
    if errors:
        raise combine(errors)


def _is_folder(one: ChangedPath) -> bool:
    return one.path.endswith("/")


def _why_lost(folder: Path, one: ChangedPath) -> str | None:
    """Why a change cannot be in a patch, though it may matter; None if it can."""
    if _is_folder(one):
        return "it is a git repository of its own"
    try:
        plain_path(one.path).encode()
    except UnicodeEncodeError:
        return "its name is not UTF-8"
    except ValueError:
        return "no file of a patch can have this name"
    return None if is_text(read_file(folder / one.path, LARGEST_FILE)) else "it is not text"
