"""The result of `trust`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from vpatch.console.document import OutputModel
from vpatch.trust.decision import State as TrustState


class TrustedPathOutput(OutputModel):
    """A folder or file with code, and whether it may run."""

    path: Path
    state: TrustState
    digest: str
    files: dict[str, str]
    """The SHA-256 digest of each file, by its path in the folder."""


class TrustRecordOutput(OutputModel):
    """A decision of the user."""

    kind: Literal["path", "folder", "host"]
    """`path` is a patch or a file as it was, `folder` is all that is ever in a folder."""
    name: str
    digest: str
    """Empty for a host and for a folder."""
    since: str


class TrustOutput(OutputModel):
    """The result of `vpatch trust`."""

    paths: list[TrustedPathOutput]
    """What was trusted, or with `--dry-run` what would be."""
    folders: list[Path]
    """With `--folder`, the folders that were trusted for good, or with `--dry-run` would be."""
    hosts: list[str]
    """The hosts that were trusted, or with `--dry-run` would be."""
    records: list[TrustRecordOutput]
    """With `--list` all that the user trusts; with `--revoke` what is not trusted any more."""
