"""The code that a decision was read from, compared with the releases on record."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True)
class ChangedDefinition:
    """A definition, as `PATH::QUALIFIED.NAME`, that is not as in the nearest known shape."""

    name: str
    kind: Literal["changed", "added", "removed"]


class Sureness(StrEnum):
    """How sure a state is, the surest first."""

    # The tree is a release on record, by the digest of its archive.
    ON_RECORD = "on record"
    # The definitions are those of a release on record, and what is around them means the same.
    KNOWN = "known shape"
    # The definitions are those of a release on record, and what is around them is not.
    CHANGED_AROUND = "changed around"
    # The definitions are those of no release on record.
    NEW = "new shape"


UNSURE = frozenset([Sureness.CHANGED_AROUND, Sureness.NEW])


@dataclass(frozen=True)
class CodeShape:
    """The definitions that a decision was read from, by `PATH::QUALIFIED.NAME`, with digests.

    `known` are the releases for which the patch is recorded with exactly these definitions and this
    state; none for a new shape. Those of them in `patched` have the definitions once the patch is
    applied. `nearest` is the release whose definitions differ least from a new shape, and
    `differing` says how. `stale` says that what is recorded was read with another edition of the
    patch.

    `release` is the release on record that the tree is, by the digest of its archive. In any other
    tree, `surroundings` are the definitions around these, with digests of what they mean.
    `compared_with` is the one of `known` whose surroundings differ least, and `around` says how;
    None where no surroundings are recorded.
    """

    definitions: Mapping[str, str]
    known: tuple[str, ...] = ()
    patched: tuple[str, ...] = ()
    nearest: str | None = None
    differing: tuple[ChangedDefinition, ...] = ()
    stale: bool = False
    release: str | None = None
    surroundings: Mapping[str, str] | None = None
    compared_with: str | None = None
    around: tuple[ChangedDefinition, ...] = ()

    @property
    def is_on_record(self) -> bool:
        """Whether the patch is recorded for any release of the tree."""
        return bool(self.known) or self.nearest is not None

    @property
    def sureness(self) -> Sureness:
        if not self.known:
            return Sureness.NEW
        if self.release is not None:
            return Sureness.ON_RECORD
        is_same = self.compared_with is not None and not self.around
        return Sureness.KNOWN if is_same else Sureness.CHANGED_AROUND
