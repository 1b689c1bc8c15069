"""How git fails."""

from __future__ import annotations

import re

from vpatch.errors import UnavailableError, VpatchError
from vpatch.util.urls import redact

# What git, curl and ssh print when the network fails, or the server does.
_UNREACHABLE = re.compile(
    "could not resolve (host|proxy)|couldn't connect|failed to connect|could not connect"
    "|connection (timed out|refused|reset|was reset|closed)|network is unreachable"
    "|no route to host|operation (timed out|too slow)|temporary failure in name resolution"
    "|requested url returned error: (408|425|429|5\\d\\d)|early eof|rpc failed"
    "|unexpected disconnect|remote end hung up|empty reply from server|transfer closed"
    "|ssl_|ssl connect|gnutls|ssl certificate problem|certificate verification failed"
    "|tls handshake",
    re.IGNORECASE,
)
_NO_DISK = re.compile(
    "no space left on device|disk quota exceeded|read-only file system", re.IGNORECASE
)
# A 4xx status that stays: not request timeout, too early, or too many requests.
_REFUSED = re.compile(
    r"(returned error:|\bhttp(?: code)?|tunnel failed, response:?) (?!408|425|429)4\d\d\b",
    re.IGNORECASE,
)
# A repository may have any name, such as my_ssl_fork. Do not take the name for git's own words.
_NAMES = re.compile(r"(?<!\w)'[^\n]*?'(?!\w)|\w[\w+.-]*://\S+")


class GitError(VpatchError):
    """A git command failed; `command`, `status` and `stderr` hold no credentials."""

    code = "git.failed"

    def __init__(self, command: str, status: int | None, stderr: str, *, hint: str) -> None:
        self.command = redact(command)
        self.status = status
        self.stderr = redact(stderr).strip()
        outcome = "could not be started" if status is None else f"ended with status {status}"
        super().__init__(f"{self.command} {outcome}: {self.stderr}", hint=hint)

    @property
    def hint_beside(self) -> str | None:
        """What to do where git refuses a path, and nothing is wrong with the place."""
        if "invalid path" in self.stderr.lower():
            return "rename that file in the source or the patch: git refuses its name"
        return None

    @property
    def gist(self) -> str:
        """The line of git's message that says why."""
        lines = self.stderr.splitlines() or [self.what]
        line = next((line for line in lines if line.startswith("fatal: ")), lines[-1])
        return line.removeprefix("fatal: ").removeprefix("error: ")


class GitMissingError(GitError, UnavailableError):
    """There is no git program."""

    code = "git.missing"


class RemoteUnreachableError(GitError, UnavailableError):
    """git cannot reach a remote, or the connection broke."""

    code = "git.remote-unreachable"


class GitDiskError(GitError, UnavailableError):
    """git cannot write, as the disk is full or may not be written to."""

    code = "git.disk"


def failure(command: str, status: int, stderr: str, *, remote: bool) -> GitError:
    """Return the error for a git command that failed; `remote` is for one that reaches a remote."""
    if not remote and _NO_DISK.search(stderr):
        hint = "free space there, or make the disk writable, then run the command again"
        return GitDiskError(command, status, stderr, hint=hint)
    if not remote:
        return GitError(command, status, stderr, hint="see git's message")
    words = _NAMES.sub("", stderr)
    if _UNREACHABLE.search(words) and not _REFUSED.search(words):
        hint = "look at the network and the proxy, then run the command again"
        return RemoteUnreachableError(command, status, stderr, hint=hint)
    hint = "see git's message; git must reach the remote without asking for a password"
    return GitError(command, status, stderr, hint=hint)
