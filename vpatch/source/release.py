"""An archive that a package index has."""

from __future__ import annotations

from dataclasses import dataclass

from vpatch.errors import VpatchError
from vpatch.util.urls import redact


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


def no_digest(release: Release, *, hint: str) -> VpatchError:
    """Return what to raise where an index does not say the digest of what it has."""
    return VpatchError(
        f"the index gives no sha256 digest of {release.filename} to verify it by",
        where=redact(release.url),
        hint=f"use an index that gives digests, or {hint}",
        code="source.no-digest",
    )
