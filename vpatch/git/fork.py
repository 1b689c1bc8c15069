"""git for a branch in somebody's fork: a commit on upstream's own, pushed by the user's own means.

Every function here that reaches a remote raises `GitError`, or `ForkError` if it can say what to
do. `repo` is a bare repository of ours.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.git.address import local_path, reachable, refuse_address
from vpatch.git.checkout import NewCommit, commit_stream
from vpatch.git.command import (
    HOOKLESS,
    PATIENT,
    USER,
    WITHOUT_MAINTENANCE,
    init_bare,
    run,
    text_from,
)
from vpatch.git.errors import GitError
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

_NOTES = "refs/vpatch/pushed"
# The code of the error, what git and GitHub say, what it means, and what to do.
_MEANINGS = (
    (
        "git.refused-by-remote",
        ("protected branch", "GH006", "GH013", "pre-receive hook declined", "hook declined"),
        "the fork does not allow a push to this branch",
        "remove the rule that protects it there, or name another fork with --fork",
    ),
    (
        "git.branch-moved",
        ("stale info", "fetch first", "non-fast-forward"),
        "somebody else changed the branch meanwhile",
        "run the command again",
    ),
    (
        "git.refused-by-remote",
        ("shallow update not allowed", "did not receive expected object"),
        "the fork lacks commits of upstream's branch",
        "bring its branch up to date (gh repo sync OWNER/NAME), then run the command again",
    ),
    (
        "git.refused-by-remote",
        (
            "could not read Username",
            "could not read Password",
            "Authentication failed",
            "Permission denied",
            "Permission to ",
            "error: 403",
            "error: 401",
        ),
        "git's credentials do not allow this",
        "set them up (gh auth setup-git, or an ssh key and --fork-url), then run it again",
    ),
    (
        "git.no-such-repository",
        ("not found", "does not appear to be a git repository", "does not exist"),
        "git finds no repository there",
        "check the address, or give another with --fork-url",
    ),
)


class ForkError(VpatchError):
    """A fork cannot be read or written, for a reason with a known remedy."""


@dataclass(frozen=True)
class Person:
    name: str
    email: str

    def at(self, when: datetime) -> str:
        """Return the person and a time as a commit has them."""
        return f"{self.name} <{self.email}> {int(when.timestamp())} +0000"


def open_room(repo: Path) -> None:
    """Make the repository, unless it is there."""
    if not (repo / "HEAD").is_file():
        repo.parent.mkdir(parents=True, exist_ok=True)
        init_bare(repo)


def branch_tip(url: str, branch: str) -> str | None:
    """Return the commit that a remote's branch is at; None where it has no such branch."""
    with _readable(url) as address:
        listed = _remote(None, url, "ls-remote", "--", address, f"refs/heads/{branch}").decode(
            errors="replace"
        )
    return listed.split("\t")[0] if listed else None


def fetch_tip(repo: Path, url: str, branch: str, *, depth: int | None) -> str:
    """Fetch a branch, with as many commits as `depth` says, or all that are not here; its commit.

    Where one was fetched by depth before, what comes after it is fetched and nothing older.
    """
    options = ["fetch", "--quiet", "--no-tags", "--no-recurse-submodules"]
    options += [f"--depth={depth}"] if depth else []
    here = "refs/vpatch/fetched"
    with _readable(url) as address:
        _remote(repo, url, *options, "--", address, f"+refs/heads/{branch}:{here}")
    return run(repo, "rev-parse", "--verify", f"{here}^{{commit}}").decode().strip()


def add_commit(
    repo: Path, parent: str, files: Mapping[str, bytes], message: str, who: Person, when: datetime
) -> str:
    """Put a commit on `parent` that sets some files, and return its id; no branch gets it."""
    ref = "refs/vpatch/made"
    stream = commit_stream(repo, ref, parent, [NewCommit(message, files)], who.at(when))
    run(repo, "fast-import", "--quiet", "--done", "--force", stdin=stream)
    return run(repo, "rev-parse", "--verify", ref).decode().strip()


def tree_of(repo: Path, commit: str) -> str:
    return run(repo, "rev-parse", "--verify", f"{commit}^{{tree}}").decode().strip()


def parent_of(repo: Path, commit: str) -> str | None:
    """Return the one parent of a commit that is here; None where it has none or several."""
    parents = run(repo, "rev-list", "--parents", "--max-count=1", commit).decode().split()[1:]
    return parents[0] if len(parents) == 1 else None


def noted(repo: Path, name: str) -> str | None:
    """Return the commit that was noted under a name; None where there is none."""
    return text_from(repo, "for-each-ref", "--format=%(objectname)", f"{_NOTES}/{name}") or None


def note(repo: Path, name: str, commit: str) -> None:
    """Note a commit under a name, so that the next run knows it."""
    run(repo, "update-ref", f"{_NOTES}/{name}", commit)


def subject_of(repo: Path, commit: str) -> str:
    """Return who made a commit, and its first line."""
    return text_from(repo, "show", "--no-patch", "--format=%an: %s", commit)


def message_of(repo: Path, commit: str) -> str:
    return text_from(repo, "show", "--no-patch", "--format=%B", commit)


def push(repo: Path, url: str, commit: str, branch: str, expected: str | None) -> None:
    """Set a remote's branch to a commit, if it is where it is `expected` to be.

    In a repository on this machine, its own settings and hooks count.
    """
    ref = f"refs/heads/{branch}"
    lease = f"--force-with-lease={ref}:{expected or ''}"
    options = ["push", "--quiet", "--no-verify", lease]
    _remote(repo, url, *options, "--", refuse_address(url), f"{commit}:{ref}")


@contextmanager
def _readable(url: str) -> Iterator[str]:
    path = local_path(refuse_address(url))
    if path is None or not path.is_dir():
        yield url  # git says what is wrong with it
        return
    with reachable(url) as address:
        yield address


def _remote(repo: Path | None, url: str, *args: str) -> bytes:
    try:
        return run(repo, *PATIENT, *WITHOUT_MAINTENANCE, *HOOKLESS, *args, env=USER)
    except GitError as error:
        for code, signs, what, hint in _MEANINGS:
            if any(sign in error.stderr for sign in signs):
                message = f"{what}: {error.gist}"
                raise ForkError(message, where=redact(url), hint=hint, code=code) from error
        raise
