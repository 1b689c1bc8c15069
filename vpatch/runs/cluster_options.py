"""Options of commands that can run on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.urls import redact, split_credentials

if TYPE_CHECKING:
    from collections.abc import Iterable

ATTEMPTS = 3
# There, a user without a password is not a secret; for Azure it is a container.
_WITH_A_USER = {"abfs", "abfss", "ftp", "hdfs", "sftp", "smb", "ssh"}


@dataclass(frozen=True)
class ClusterOptions:
    """Where the jobs of a command run.

    Attributes:
        on: the address of a cluster; None for this machine.
        attempts: how often a job is tried there, before its loss is a finding.
        resume: whether jobs whose results are kept are not run again.
        storage: where nodes leave large files for this machine, as fsspec names it; None for
            Ray's object store.
    """

    on: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False
    storage: str | None = None

    def refuse_conflicts(self, given: Iterable[str]) -> None:
        """Refuse options that have no effect together; `given` are those of an own machine.

        Raises:
            UsageError: there are some.
        """
        if self.on is None:
            said = {
                "--attempts": self.attempts != ATTEMPTS,
                "--resume": self.resume,
                "--storage": self.storage is not None,
            }
            idle = [name for name, is_given in said.items() if is_given]
            if idle:
                raise UsageError(
                    f"{' and '.join(idle)} would have no effect without --on",
                    hint="give --on ADDRESS, or leave it out",
                    code="cli.unused-option",
                )
            return
        why = None if self.storage is None else _unfit_storage(self.storage)
        if why is not None:
            raise UsageError(
                f"{redact(str(self.storage)).partition('#')[0]} {why}",
                where="--storage",
                hint="give a folder or one plain URL; each node needs credentials of its own, as "
                "fsspec's package for it says",
                code="cluster.bad-storage",
            )
        for name in given:
            raise UsageError(
                f"--{name} and --on exclude each other",
                hint="nodes start engines of their own: give --engine or --image",
                code="cli.conflicting-options",
            )


def _unfit_storage(url: str) -> str | None:
    """Say what of an address must not travel to the nodes; None if it may."""
    # fsspec also takes a path apart there, and opens one kind of storage through another.
    if "::" in url:
        return "is a chain of addresses (::), and only the last one would be shared"
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return None
    if set(rest) & set("?#"):
        return "has a query in it, which may hold a token, and tokens never travel"
    try:
        _, credentials = split_credentials(url)
    except ValueError:
        return "is not an address"
    if credentials is None or (scheme in _WITH_A_USER and not credentials[1]):
        return None
    return "has a password in it, and passwords never travel"
