"""The result of `trust`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from vpatch.console.document import OutputModel
from vpatch.trust.decision import State as TrustState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.trust.store import Content, TrustRecord


class TrustedPathOutput(OutputModel):
    """A folder or file with code, and whether it may run."""

    path: Path
    state: TrustState
    digest: str
    files: dict[str, str]
    """The SHA-256 digest of each file, by its path in the folder."""

    @classmethod
    def of(cls, path: Path, state: TrustState, content: Content) -> Self:
        return cls(path=path, state=state, digest=content.digest, files=content.digests)


class TrustRecordOutput(OutputModel):
    """A decision of the user."""

    kind: Literal["path", "host"]
    name: str
    digest: str
    """Empty for a host."""
    since: str


class TrustOutput(OutputModel):
    """The result of `vpatch trust`."""

    paths: list[TrustedPathOutput]
    """What was trusted, or with `--show` what would be."""
    hosts: list[str]
    """The hosts that were trusted, or with `--show` would be."""
    records: list[TrustRecordOutput]
    """With `--list` all that the user trusts; with `--revoke` what is not trusted any more."""

    @classmethod
    def of_records(cls, records: Iterable[TrustRecord]) -> Self:
        found = [TrustRecordOutput.model_validate(record) for record in records]
        return cls(paths=[], hosts=[], records=found)
