"""The result of `wheel`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from vpatch.checkout.lockfile import LockFile
from vpatch.output.base import OutputModel

if TYPE_CHECKING:
    from vpatch.wheel.making import MadeWheel


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
    """The name of the official wheel."""
    official_sha256: str
    """The digest of the official wheel, as hexadecimal digits."""
    files: list[str]
    """The files of the package that are patched."""
    other_files: list[str]
    """Files that are not as in the release: the official wheel has them so, and no patch does."""
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
