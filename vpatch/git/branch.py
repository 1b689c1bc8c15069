"""git for a new branch in the user's own repository: the work tree and the index stay as they are.

The branch is set once all of its commits are written. Until then, nothing refers to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, UsageError
from vpatch.git.checkout import commit_stream
from vpatch.git.command import list_paths, run, text_from
from vpatch.git.errors import GitError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vpatch.git.checkout import NewCommit
    from vpatch.git.command import FoundRepository
    from vpatch.git.fork import Person


def head_of(repo: FoundRepository) -> str | None:
    """Return the commit that is checked out; None where there is none yet."""
    try:
        return run(repo, "rev-parse", "--quiet", "--verify", "HEAD^{commit}").decode().strip()
    except GitError:
        return None


def has_branch(repo: FoundRepository, branch: str) -> bool:
    return bool(text_from(repo, "for-each-ref", "--format=%(refname)", f"refs/heads/{branch}"))


def refuse_branch_name(repo: FoundRepository, branch: str) -> None:
    """Refuse what cannot be the name of a branch, before anything takes time.

    Raises:
        UsageError: it cannot.
    """
    try:
        run(repo, "check-ref-format", f"refs/heads/{branch}")
    except GitError as error:
        raise UsageError(
            f"a branch cannot be called {branch!r}",
            hint="give another name, such as vpatch/bump",
            code="git.bad-branch-name",
        ) from error


def files_below(repo: FoundRepository, commit: str, folder: str) -> list[str]:
    """Return the paths of a commit's files in a folder; of all, if the folder is empty."""
    below = ["--", folder] if folder else []
    return list_paths(repo, "ls-tree", "-r", "--name-only", "--full-tree", commit, *below)


def content_at(repo: FoundRepository, commit: str, path: str) -> bytes | None:
    """Return a file's bytes in a commit; None where it has no such file."""
    if path not in files_below(repo, commit, path):
        return None
    return run(repo, "cat-file", "blob", f"{commit}:{path}")


def branch_with(
    repo: FoundRepository, branch: str, parent: str, commits: Sequence[NewCommit]
) -> str | None:
    """Return the last commit of a branch that `add_branch` would make; None if it is another one.

    Who committed it, and when, makes no difference.
    """
    listed = run(repo, "rev-list", "--reverse", f"{parent}..refs/heads/{branch}").decode().split()
    if len(listed) != len(commits):
        return None
    for before, commit, wanted in zip([parent, *listed], listed, commits, strict=False):
        message = run(repo, "log", "-1", "--format=%B", commit).decode().strip()
        paths = set(list_paths(repo, "diff-tree", "-r", "--name-only", before, commit))
        contents = {path: content_at(repo, commit, path) for path in wanted.files}
        is_same = message == wanted.message.strip() and contents == wanted.files
        if not is_same or not paths <= wanted.files.keys():
            return None
    return listed[-1] if listed else None


def add_branch(
    repo: FoundRepository,
    branch: str,
    parent: str,
    commits: Sequence[NewCommit],
    who: Person,
    when: datetime,
) -> str:
    """Make a branch with some commits on top of `parent`, and return the id of the last one.

    Raises:
        UnavailableError: it cannot be written.
    """
    ref = f"refs/heads/{branch}"
    stream = commit_stream(repo, ref, parent, commits, who.at(when))
    try:
        run(repo, "fast-import", "--quiet", "--done", stdin=stream)
    except GitError as error:
        raise UnavailableError(
            f"the branch {branch} cannot be written: {error.what}",
            hint="free space on the disk of the repository, then run the command again",
            code="git.unwritable-branch",
        ) from error
    return run(repo, "rev-parse", "--verify", ref).decode().strip()
