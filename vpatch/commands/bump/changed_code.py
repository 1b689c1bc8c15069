"""A definition that differs between two releases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from vpatch.planning.code_place import CodePlace, difference_of
from vpatch.workspace.definition_commits import UpstreamCommit  # noqa: TC001 - pydantic reads it


@dataclass(frozen=True)
class ChangedCode:
    """A definition that differs between two releases, or that only moved to another file.

    `before` is the pristine code of the old release. `after` is that of the new one. `patched` is
    what the patch makes of `before`; None if it leaves it alone. `ours` is what the patch changes,
    as a diff. `edited` says that the patch edits the definition; otherwise it only reads it.
    `commits` are those of upstream that changed it, the oldest first; None if nobody was asked.
    `around` says that it is only around the code that the patch reads.
    """

    kind: Literal["changed", "renamed", "moved", "gone", "new"]
    edited: bool
    before: CodePlace | None
    patched: CodePlace | None
    after: CodePlace | None
    ours: tuple[str, ...] = ()
    commits: tuple[UpstreamCommit, ...] | None = None
    around: bool = False

    @property
    def name(self) -> str:
        place = self.before or self.after
        return "" if place is None else place.said

    @property
    def upstream(self) -> list[str]:
        """What upstream changed, as the lines of a unified diff."""
        return difference_of(self.before, self.after)

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines upstream added, and how many it removed."""
        body = self.upstream[2:]
        return sum(o[0] == "+" for o in body), sum(o[0] == "-" for o in body)
