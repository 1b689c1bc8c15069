"""git for the remote of the user's own repository: it works with the user's own settings there.

Unlike in `vpatch.git.found`, the settings of the repository count: they say how to log in, as on a
machine of CI. No hook runs.
"""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from vpatch.git.command import USER, run
from vpatch.git.errors import GitError

if TYPE_CHECKING:
    from pathlib import Path

_PATIENT = ("-c", "http.lowSpeedLimit=1000", "-c", "http.lowSpeedTime=60")
_HOOKLESS = ("-c", f"core.hooksPath={os.devnull}")
# git@github.com:OWNER/NAME.git
_SHORT = re.compile(r"(?:[^@/]+@)?(?P<host>[^:/]+):(?P<path>(?!/).+)")
_NAME = re.compile(r"[\w.-]+/[\w.-]+")


def remote_url(folder: Path, remote: str) -> str | None:
    """Return the address of a remote as it is written; None if there is no such remote."""
    try:
        found = run(None, "-C", str(folder), "config", "--get", f"remote.{remote}.url", env=USER)
    except GitError as error:
        if error.status != 1:
            raise
        return None
    return found.decode(errors="replace").strip() or None


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
    found = run(None, "-C", str(folder), "branch", "--show-current", env=USER)
    return found.decode().strip() or None


def tip_there(folder: Path, remote: str, branch: str) -> str | None:
    """Return the commit of a remote's branch; None if it has no such branch.

    Raises:
        GitError: the remote cannot be read.
    """
    listed = _remote(folder, "ls-remote", "--", remote, f"refs/heads/{branch}").decode()
    return listed.partition("\t")[0] or None


def push_new(folder: Path, remote: str, branch: str) -> None:
    """Push a branch that the remote does not have: what somebody else pushed meanwhile stays.

    Raises:
        GitError: the remote refuses, or cannot be reached.
    """
    ref = f"refs/heads/{branch}"
    options = ("--quiet", "--no-verify", f"--force-with-lease={ref}:")
    _remote(folder, "push", *options, "--", remote, f"{ref}:{ref}")


def _remote(folder: Path, *args: str) -> bytes:
    return run(None, "-C", str(folder), *_PATIENT, *_HOOKLESS, *args, env=USER)
