"""git for a new branch in the user's own repository: the work tree and the index stay as they are.

The branch is set once all of its commits are written. Until then, nothing refers to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, UsageError
from vpatch.git.checkout import commit_stream
from vpatch.git.command import list_paths, run, text_from
from vpatch.git.errors import GitError
from vpatch.util.files import replace_file

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from vpatch.git.checkout import NewCommit
    from vpatch.git.command import FoundRepository
    from vpatch.git.fork import Person


# Commits lie here until a branch has them; nobody else looks at it.
_WRITTEN = "refs/vpatch/written"


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


def write_commits(
    repo: FoundRepository, parent: str, commits: Sequence[NewCommit], who: Person, when: datetime
) -> str:
    """Write some commits on top of `parent`, and return the id of the last one; no branch has them.

    Raises:
        UnavailableError: they cannot be written.
    """
    stream = commit_stream(repo, _WRITTEN, parent, commits, who.at(when))
    try:
        # What a run left there that was killed goes.
        run(repo, "fast-import", "--quiet", "--done", "--force", stdin=stream)
    except GitError as error:
        raise UnavailableError(
            f"the commits cannot be written: {error.what}",
            hint="free space on the disk of the repository, then run the command again",
            code="git.unwritable-branch",
        ) from error
    return run(repo, "rev-parse", "--verify", _WRITTEN).decode().strip()


def set_refs(repo: FoundRepository, refs: Mapping[str, tuple[str | None, str | None]]) -> None:
    """Set refs, all or none, each from what it is to what it becomes; None means no ref.

    Raises:
        GitError: one is something else meanwhile.
    """
    lines = []
    for ref, (before, after) in refs.items():
        if before is None:
            lines.append(f"create {ref} {after}")
        elif after is None:
            lines.append(f"delete {ref} {before}")
        else:
            lines.append(f"update {ref} {after} {before}")
    if text_from(repo, "for-each-ref", "--format=%(refname)", _WRITTEN):
        lines.append(f"delete {_WRITTEN}")
    run(repo, "update-ref", "--stdin", stdin="".join(f"{one}\n" for one in lines).encode())


def write_blob(repo: FoundRepository, content: bytes) -> str:
    """Write an object that holds some bytes, and return its id."""
    return run(repo, "hash-object", "-w", "--stdin", stdin=content).decode().strip()


def read_blob(repo: FoundRepository, name: str) -> bytes:
    return run(repo, "cat-file", "blob", name)


def object_at(repo: FoundRepository, ref: str) -> str | None:
    """Return the id that a ref has; None where there is no such ref."""
    return text_from(repo, "for-each-ref", "--format=%(objectname)", ref) or None


def count_commits(repo: FoundRepository, after: str, branch: str) -> int:
    """Count the commits of a branch that another commit does not have."""
    return int(text_from(repo, "rev-list", "--count", f"refs/heads/{branch}", f"^{after}"))


def add_to_index(repo: FoundRepository, paths: Sequence[str]) -> None:
    """Put files of the work tree into the index as they are; those that are gone go."""
    if paths:
        run(repo, "add", "--all", "--", *(f":(top,literal){path}" for path in paths))


def go_back(repo: FoundRepository, tip: str, commit: str, branch: str | None) -> None:
    """Check out a branch, or else a commit, where nothing differs from `tip`.

    Raises:
        GitError: a file is in the way.
    """
    run(repo, "read-tree", "-m", "-u", tip, commit)
    if branch is None:
        run(repo, "update-ref", "--no-deref", "HEAD", commit)
    else:
        run(repo, "symbolic-ref", "HEAD", f"refs/heads/{branch}")
    # It is a copy of ours; the other files are links.
    if repo.own_dir is not None:
        replace_file(repo.own_dir / "HEAD", (repo.git_dir / "HEAD").read_text(encoding="utf-8"))
