"""git for the remote of a project's repository: it works with the user's own settings.

Of the repository, the address of `origin` counts, who commits, and its branches. None of its other
settings does, and no hook runs: whoever made the repository may have named any program there.
"""

from __future__ import annotations

import os
import re
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vpatch.git import checkout
from vpatch.git.address import reachable
from vpatch.git.command import HOOKLESS, PATIENT, USER, run
from vpatch.git.errors import GitError
from vpatch.git.found import NoRepositoryError, opened_source, refuse_strangers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.git.command import FoundRepository

ORIGIN = "origin"
# git@github.com:OWNER/NAME.git
_SHORT = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>(?!/).+)")
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def identity(folder: Path) -> tuple[str, str] | None:
    """Return the name and email by which the user commits in `folder`.

    None where one is not set, or cannot be in a commit.
    """
    with opened_source(folder) as repo:
        name, email = _setting(repo, "user.name"), _setting(repo, "user.email")
    if not name or not email or set("<>\n") & set(name + email):
        return None
    return name, email


def remote_url(folder: Path) -> str | None:
    """Return the address that origin is pushed to, as it is written; None without an origin."""
    with opened_source(folder) as repo:
        return _address(repo) if repo is not None else None


def hosted_name(url: str) -> tuple[str, str] | None:
    """Return the host of an address, and OWNER/NAME there; None of an address without both."""
    short = None if "://" in url else _SHORT.fullmatch(url)
    if short is not None:
        host, path = short["host"], short["path"]
    else:
        parts = urlsplit(url)
        host, path = parts.netloc.rpartition("@")[2], parts.path
        if parts.scheme == "ssh":
            host = host.partition(":")[0]
    name = path.strip("/").removesuffix(".git")
    return (host.lower(), name) if host and _NAME.fullmatch(name) else None


def current_branch(folder: Path) -> str | None:
    """Return the branch that is checked out; None if none is."""
    with opened_source(folder) as repo:
        return checkout.current_branch(repo) if repo is not None else None


def tip_there(folder: Path, branch: str) -> str | None:
    """Return the commit of a branch of origin; None if it has no such branch.

    Raises:
        GitError: the remote cannot be read.
        VpatchError: the repository is another user's, or its origin is refused.
    """
    with _open_own(folder) as (repo, address):
        listed = _remote(repo, "ls-remote", "--", address, f"refs/heads/{branch}").decode()
    return listed.partition("\t")[0] or None


def push_new(folder: Path, branch: str) -> None:
    """Push a branch that origin does not have: what somebody else pushed meanwhile stays.

    Raises:
        GitError: the remote refuses, or cannot be reached.
        VpatchError: the repository is another user's, or its origin is refused.
    """
    ref = f"refs/heads/{branch}"
    options = ("--quiet", "--no-verify", "--recurse-submodules=no", f"--force-with-lease={ref}:")
    with _open_own(folder) as (repo, address):
        _remote(repo, "push", *options, "--", address, f"{ref}:{ref}")


@contextmanager
def _open_own(folder: Path) -> Iterator[tuple[FoundRepository, str]]:
    """Open a repository that is the user's own, with the address of its origin."""
    with opened_source(folder) as repo:
        url = _address(repo) if repo is not None else None
        if repo is None or url is None:
            raise NoRepositoryError(
                f"there is no remote {ORIGIN}",
                where=str(folder),
                hint=f"git remote add {ORIGIN} URL",
            )
        place = repo.work_tree or repo.own_dir or repo.git_dir
        refuse_strangers(place, repo.own_dir or place)
        if _borrows(repo.git_dir / "objects"):
            raise NoRepositoryError(
                "its objects lie elsewhere, and a push would send what is there",
                where=str(place),
                hint="git repack -a -d, then remove links and info/alternates in .git/objects",
                code="git.borrowed-objects",
            )
        with reachable(url, place) as address:
            # By its name: an address may have a password, which a list of processes would show.
            yield repo, ORIGIN if address == url else address


def _borrows(objects: Path) -> bool:
    """Whether objects lie elsewhere: behind alternates, or behind a link."""
    place = objects.readlink()  # the folder itself is behind a link of ours
    links = (
        Path(parent, name).is_symlink()
        for parent, folders, files in os.walk(place)
        for name in (*folders, *files)
    )
    return place.is_symlink() or (place / "info" / "alternates").exists() or any(links)


def _address(repo: FoundRepository) -> str | None:
    return _setting(repo, f"remote.{ORIGIN}.url")


def _setting(repo: FoundRepository | None, key: str) -> str | None:
    try:
        value = run(repo, "config", "--get", key, env=USER)
    except GitError as error:
        if error.status != 1:
            raise
        return None
    return value.decode(errors="replace").strip() or None


def _remote(repo: FoundRepository, *args: str) -> bytes:
    return run(repo, *PATIENT, *HOOKLESS, *args, env=USER)
