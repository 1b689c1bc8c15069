"""Repositories that others may have prepared: git reads them, and none of their settings.

A repository's own configuration names programs that git then runs: filters, hooks, monitors,
helpers. So git gets a git folder of ours in a temporary folder. Its settings are ours, and its
objects, refs and index are links to those of the repository.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError, VpatchError
from vpatch.git.command import EXACT_BYTES, USER, FoundRepository, run
from vpatch.git.errors import GitError
from vpatch.util.home import expanded
from vpatch.util.scratch import scratch_folder
from vpatch.util.untrusted import is_path

if TYPE_CHECKING:
    from collections.abc import Iterator

_SHARED_FOLDERS = ("objects", "refs", "reftable")
_SHARED_FILES = ("packed-refs", "shallow")
_URL, _PUSHED = "remote.origin.url", "remote.origin.pushurl"
_TEXT = re.compile(r"[^\x00-\x1f\x7f]+")
# What a file system can do, how objects and refs are stored, who commits, and where `origin` is:
# facts that name no program.
_FACTS = {
    "user.name": _TEXT,
    "user.email": _TEXT,
    _URL: _TEXT,
    _PUSHED: _TEXT,
    "core.filemode": re.compile("true|false"),
    "core.ignorecase": re.compile("true|false"),
    "core.precomposeunicode": re.compile("true|false"),
    "core.symlinks": re.compile("true|false"),
    "extensions.objectformat": re.compile("sha1|sha256"),
    "extensions.refstorage": re.compile("files|reftable"),
}
_GITDIR = "gitdir: "
_IGNORES = ".gitignore"
_SMALL = 1 << 16


class NoRepositoryError(VpatchError):
    """There is no usable git repository where there must be one."""

    code = "git.no-repository"


class StrangerError(UsageError):
    """A folder belongs to another user."""

    code = "git.foreign-owner"


@dataclass(frozen=True)
class _Parts:
    """Where a repository lies: `git_dir` is of one work tree, `common` is shared by all."""

    git_dir: Path
    common: Path
    work_tree: Path | None


@contextmanager
def opened_checkout(folder: Path) -> Iterator[FoundRepository]:
    """Open the repository of a checkout: it lies in `.git` there, and is the user's own.

    Raises:
        NoRepositoryError: the folder holds no repository.
        StrangerError: it belongs to somebody else.
    """
    inside = folder.absolute() / ".git"
    if inside.is_symlink() or not _is_repository(inside):
        raise NoRepositoryError(
            "is not a git checkout: it has no repository of its own in .git",
            where=str(folder),
            hint="give the folder of a checkout that vpatch made, or move it away and apply again",
        )
    refuse_strangers(folder, inside)
    refuse_pipes(folder, folder)
    with _open(_Parts(inside, inside, folder.absolute())) as repo:
        yield repo


@contextmanager
def opened_source(folder: Path) -> Iterator[FoundRepository | None]:
    """Open the repository that a folder lies in, whoever made it; None where there is none."""
    parts = _parts_above(folder.resolve())
    if parts is None:
        yield None
        return
    with _open(parts) as repo:
        yield repo


def other_work_tree(repo: FoundRepository, branch: str) -> Path | None:
    """Return another work tree of the same repository that has a branch checked out, if any.

    A work tree whose folder is gone does not count.
    """
    own = repo.own_dir or repo.git_dir
    common = _common(own)
    linked = common / "worktrees"
    places = [*linked.iterdir()] if linked.is_dir() else []
    for git_dir in [common, *sorted(places)]:
        head = git_dir / "HEAD"
        if git_dir == own or not head.is_file():
            continue
        if _start_of(head) != f"ref: refs/heads/{branch}":
            continue
        if git_dir != common:
            inside = git_dir / "gitdir"
            folder = (
                _path_in(inside, git_dir, _start_of(inside)).parent if inside.is_file() else None
            )
        else:
            folder = common.parent if common.name == ".git" else None
        if folder is not None and folder.is_dir():
            return folder
    return None


def refuse_strangers(*paths: Path) -> None:
    """Refuse what belongs to another user, as git does, unless the user's settings allow it.

    Raises:
        StrangerError: one of the paths is another user's, and no safe.directory names the first.
    """
    own = {os.geteuid()}
    if 0 in own and os.environ.get("SUDO_UID", "").isdigit():
        own.add(int(os.environ["SUDO_UID"]))
    folder = paths[0].resolve()
    if all(path.lstat().st_uid in own for path in paths) or _is_allowed(folder):
        return
    raise StrangerError(
        "belongs to another user",
        where=str(paths[0]),
        hint="copy it to a folder of yours, or, if you trust its owner: "
        f"git config --global --add safe.directory {folder}",
    )


def _is_allowed(folder: Path) -> bool:
    """Whether the user's settings for git name a folder; those of a repository do not count."""
    try:
        listed = run(None, "config", "--null", "--get-all", "safe.directory", env=USER)
    except GitError:
        return False
    allowed = False
    for value in listed.decode(errors="replace").split("\0")[:-1]:
        if not value:
            allowed = False  # an empty value takes back those before it
        elif value == "*" or expanded(value) == folder:
            allowed = True
        elif value.endswith("/*"):
            allowed = allowed or folder.is_relative_to(value[:-2])
    return allowed


def _parts_above(folder: Path) -> _Parts | None:
    for place in (folder, *folder.parents):
        inside = place / ".git"
        if inside.is_file():
            named = _start_of(inside)
            if named.startswith(_GITDIR):
                git_dir = _path_in(inside, place, named.removeprefix(_GITDIR))
                if not (git_dir / "HEAD").is_file():
                    raise NoRepositoryError(
                        "names a repository that is not there",
                        where=str(inside),
                        hint="run git worktree repair, or move the file .git away",
                    )
                return _Parts(git_dir, _common(git_dir), place)
        if _is_repository(inside):
            return _Parts(inside, _common(inside), place)
        if _is_repository(place):
            return _Parts(place, _common(place), None)
    return None


def _common(git_dir: Path) -> Path:
    file = git_dir / "commondir"
    if not file.is_file():
        return git_dir
    return _path_in(file, git_dir, _start_of(file))


def _start_of(file: Path) -> str:
    with file.open("rb") as opened:
        return opened.read(_SMALL).decode(errors="surrogateescape").strip()


def _path_in(file: Path, folder: Path, named: str) -> Path:
    if not is_path(named):
        raise NoRepositoryError(
            "names a folder that cannot exist", where=str(file), hint="move it away, or clone again"
        )
    return Path(os.path.normpath(folder / named))


def _is_repository(folder: Path) -> bool:
    return (
        (folder / "HEAD").is_file() and (folder / "objects").is_dir() and (folder / "refs").is_dir()
    )


@contextmanager
def _open(parts: _Parts) -> Iterator[FoundRepository]:
    with scratch_folder() as ours:
        for folder in dict.fromkeys(
            [*(parts.common / one for one in _SHARED_FOLDERS), parts.git_dir / "refs"]
        ):
            _refuse_odd(folder)
        for label in _SHARED_FOLDERS:
            if (parts.common / label).is_dir():
                (ours / label).symlink_to(parts.common / label)
        _copy_logs(parts.common / "logs", ours / "logs")
        for label in _SHARED_FILES:
            _link(parts.common / label, ours / label)
        # Linked and not copied: git compares the time of an index with those of the files in it.
        for index in (parts.git_dir / "index", *parts.git_dir.glob("sharedindex.*")):
            _link(index, ours / index.name)
        (ours / "HEAD").write_bytes(
            (_start_of(parts.git_dir / "HEAD") + "\n").encode(errors="surrogateescape")
        )
        (ours / "info").mkdir()
        (ours / "info" / "attributes").write_text(EXACT_BYTES, encoding="utf-8")
        _link(parts.common / "info" / "exclude", ours / "info" / "exclude")
        (ours / "config").write_bytes(
            _settings(parts.common / "config", bare=parts.work_tree is None).encode(
                errors="surrogateescape"
            )
        )
        yield FoundRepository(ours, parts.work_tree, parts.git_dir)


def _refuse_odd(folder: Path) -> None:
    """Refuse pipes and the like, at which git would wait, and refs that lie elsewhere.

    A link among the refs can make git read every file of the machine.
    """
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            file = Path(parent, name)
            try:
                mode = file.lstat().st_mode
            except FileNotFoundError:
                continue  # git packed it meanwhile
            if stat.S_ISLNK(mode) and folder.name != "refs":
                mode = file.stat().st_mode if file.exists() else stat.S_IFREG
            if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
                raise NoRepositoryError(
                    "is not a regular file, which a repository needs",
                    where=str(file),
                    hint="remove it, or clone the repository again",
                    code="git.special-file",
                )


def refuse_pipes(work_tree: Path, below: Path) -> None:
    """Refuse a work tree in which git would wait at a .gitignore that is a pipe."""
    above = [folder for folder in below.parents if folder.is_relative_to(work_tree)]
    folders = [*above, *(Path(parent) for parent, _, names in os.walk(below) if _IGNORES in names)]
    for file in (folder / _IGNORES for folder in folders):
        if file.exists() and not stat.S_ISREG(file.stat().st_mode):
            raise NoRepositoryError(
                "is not a regular file",
                where=str(file),
                hint="remove it: git would wait for it",
                code="git.special-file",
            )


def _copy_logs(there: Path, ours: Path) -> None:
    """Copy reflogs: git does not list them through a link."""
    if there.is_symlink():
        return  # whatever is there is no log of this repository
    for parent, _, names in os.walk(there):
        for name in names:
            file = Path(parent, name)
            if stat.S_ISREG(file.lstat().st_mode):
                copy = ours / file.relative_to(there)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, copy)


def _link(there: Path, ours: Path) -> None:
    # Of a pipe, git would wait for somebody who writes.
    if there.exists() and stat.S_ISREG(there.stat().st_mode):
        ours.symlink_to(there)


def _settings(config: Path, *, bare: bool) -> str:
    """Settings of ours, with those facts of the repository's that say how its files lie."""
    listed = b""
    if config.is_file():
        options = ("--no-includes", "--null", "--list", "--file", str(config))
        listed = run(None, "config", *options)
    facts = dict(
        entry.partition("\n")[::2]
        for entry in listed.decode(errors="surrogateescape").split("\0")[:-1]
    )
    known = {key: facts[key] for key, form in _FACTS.items() if form.fullmatch(facts.get(key, ""))}
    # git pushes there, where both are set.
    known |= {_URL: known[_PUSHED]} if _PUSHED in known else {}
    version = "1" if any(key.startswith("extensions.") for key in known) else "0"
    known |= {"core.repositoryformatversion": version, "core.bare": str(bare).lower()}
    lines = []
    for key, value in known.items():
        section, _, name = key.rpartition(".")
        head, dot, inner = section.partition(".")
        head = f'{head} "{inner}"' if dot else head
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'[{head}]\n\t{name} = "{quoted}"\n')
    return "".join(lines)
