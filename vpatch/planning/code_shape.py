"""The code that a decision was read from, compared with the releases on record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ChangedDefinition:
    """A definition, as `PATH::QUALIFIED.NAME`, that is not as in the nearest known shape."""

    name: str
    kind: Literal["changed", "added", "removed"]


@dataclass(frozen=True)
class CodeShape:
    """The definitions that a decision was read from, by `PATH::QUALIFIED.NAME`, with digests.

    `known` are the releases for which the patch is recorded with exactly these definitions and this
    state; none for a new shape. Then `nearest` is the release whose definitions differ least, and
    `differing` says how. `stale` says that what is recorded was read with another edition of the
    patch.
    """

    definitions: Mapping[str, str]
    known: tuple[str, ...] = ()
    nearest: str | None = None
    differing: tuple[ChangedDefinition, ...] = ()
    stale: bool = False

    @property
    def is_on_record(self) -> bool:
        """Whether the patch is recorded for any release of the tree."""
        return bool(self.known) or self.nearest is not None
