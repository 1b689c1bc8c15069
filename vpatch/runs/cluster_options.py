"""The options that say where jobs run, and what they mean: this machine, or a Ray cluster."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from vpatch.errors import ConflictingOptionsError, UnusedOptionError, UsageError
from vpatch.util.urls import redact, split_credentials

ATTEMPTS = 3
# There, a user without a password is not a secret; for Azure it is a container.
_WITH_A_USER = {"abfs", "abfss", "ftp", "hdfs", "sftp", "smb", "ssh"}


@dataclass(frozen=True)
class Here:
    """An engine of this machine runs all jobs: what `--engine` says, or None without it."""

    engine: str | None


@dataclass(frozen=True)
class OnCluster:
    """The nodes of a Ray cluster run all jobs.

    Attributes:
        address: the address of the cluster.
        engine: what `--engine` says; None without it. A job of an image names its image itself.
        image: what `--image` says; None without it.
        attempts: how often a job is tried there, before its loss is a finding.
        resume: whether jobs whose results are kept are not run again.
        storage: where nodes leave large files for this machine, as fsspec names it; None for
            Ray's object store.
    """

    address: str
    engine: str | None = None
    image: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False
    storage: str | None = None


@dataclass(frozen=True)
class RunOptions:
    """The options of a command whose jobs may run on a Ray cluster. `where` reads them once."""

    engine: str | None = None
    image: str | None = None
    _: KW_ONLY
    on: str | None = None
    attempts: int = ATTEMPTS
    resume: bool = False
    storage: str | None = None

    def where(self, **alone: object) -> Here | OnCluster:
        """Decide where jobs run; `alone` has options of this machine alone: None if not given.

        Raises:
            UsageError: options have no effect together.
        """
        if self.on is None:
            names = ("attempts", "resume", "storage")
            idle = [name for name in names if getattr(self, name) != getattr(RunOptions, name)]
            if idle:
                raise UnusedOptionError(
                    f"--{' and --'.join(idle)} would have no effect without --cluster",
                    hint="give --cluster ADDRESS, or leave it out",
                )
            return Here(self.engine)
        why = None if self.storage is None else _unfit_storage(self.storage)
        if why is not None:
            raise UsageError(
                f"{redact(str(self.storage)).partition('#')[0]} {why}",
                where="--storage",
                hint="give a folder or one plain URL; each node needs credentials of its own, as "
                "fsspec's package for it says",
                code="cluster.bad-storage",
            )
        for name, value in alone.items():
            if value is not None:
                raise ConflictingOptionsError(
                    f"--{name} and --cluster exclude each other",
                    hint="nodes start engines of their own: give --engine or --image",
                )
        return OnCluster(self.on, self.engine, self.image, self.attempts, self.resume, self.storage)


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
