"""An archive that a package index has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Release:
    """A source archive or a wheel.

    The URL has no credentials: those of its index are added on download.
    """

    project: str
    version: str
    filename: str
    url: str
    sha256: str | None
    size: int | None
    yanked: bool
