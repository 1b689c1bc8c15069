"""Commits of somebody's repository: their messages, and what each changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.git.command import VPATCH_EMAIL, run
from vpatch.git.errors import GitError
from vpatch.git.found import opened_source

if TYPE_CHECKING:
    from pathlib import Path

_DIFF = ("--no-color", "--no-ext-diff", "--no-textconv", "--full-index", "--find-renames", "-p")


@dataclass(frozen=True)
class CommitText:
    """A commit: its id, its parents, its message, and the diff to its first parent."""

    id: str
    parents: tuple[str, ...]
    message: str
    diff: bytes


def commits_of_range(folder: Path, commits: str) -> list[CommitText]:
    """Read the commits of a range `A..B`, the oldest first.

    Raises:
        UsageError: the folder is in no repository, or the range names no commits of it.
    """
    first, dots, last = commits.partition("..")
    if not dots or not first or not last or commits.startswith("-") or last.startswith((".", "-")):
        raise _wrong(f"{commits!r} is not a range of commits", folder, "write it as A..B")
    with opened_source(folder) as repo:
        if repo is None:
            raise _wrong("is not in a git repository", folder, "name a folder of a repository")
        try:
            options = ("--reverse", "--topo-order", "--parents", "--end-of-options")
            listed = run(repo, "rev-list", *options, commits, "--").decode().splitlines()
        except GitError as error:
            hint = "name commits, tags or branches of that repository"
            raise _wrong(f"has no commits {commits}: {error.gist}", folder, hint) from error
        if not listed:
            raise _wrong(f"{commits} has no commits", folder, "turn A and B around?")
        texts = []
        for line in listed:
            commit, *parents = line.split()
            message = run(repo, "show", "--no-patch", "--format=%B", commit).decode(
                errors="replace"
            )
            diff = run(repo, "diff-tree", "--root", "--no-commit-id", "-r", *_DIFF, commit)
            texts.append(CommitText(commit, tuple(parents), message, diff))
        return texts


def authors_since_base(folder: Path, begun: str | None = None) -> frozenset[str] | None:
    """Return the addresses of who committed on top of a tree that vpatch committed.

    None of a folder in any other repository, or in none. `begun` is a commit of vpatch, whose
    history does not count.
    """
    with opened_source(folder) as repo:
        if repo is None:
            return None
        try:
            commits = ["HEAD"] if begun is None else ["HEAD", f"^{begun}"]
            listed = run(repo, "log", "--format=%ae %ce|%P", *commits, "--")
        except GitError:
            return None  # nothing is committed
    authors: set[str] = set()
    for line in listed.decode(errors="replace").splitlines():
        who, _, parents = line.rpartition("|")
        addresses = {*who.split()}
        if parents:
            authors |= addresses
        elif addresses != {VPATCH_EMAIL}:
            return None
    return frozenset(authors)


def is_committed(path: Path) -> bool:
    """Whether the last commit of a repository has a file, or files of a folder."""
    with opened_source(path if path.is_dir() else path.absolute().parent) as repo:
        if repo is None or repo.work_tree is None:
            return False
        below = path.resolve().relative_to(repo.work_tree.resolve()).as_posix()
        try:
            return bool(run(repo, "ls-tree", "HEAD", "--", below))
        except GitError:
            return False  # nothing is committed


def _wrong(what: str, folder: Path, hint: str) -> UsageError:
    return UsageError(what, where=str(folder), hint=hint, code="git.no-such-range")
