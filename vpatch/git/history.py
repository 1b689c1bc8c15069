"""Commits of somebody's repository: their messages, and what each changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.git.command import run
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


def _wrong(what: str, folder: Path, hint: str) -> UsageError:
    return UsageError(what, where=str(folder), hint=hint, code="git.no-such-range")
