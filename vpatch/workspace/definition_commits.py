"""Which upstream commits changed a definition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.planning.outline import is_python, outline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.workspace.upstream_history import UpstreamHistory

    # Whether the definitions of a file differ in what is asked about, before and after a commit.
    Differs = Callable[[Sequence[Definition], Sequence[Definition]], bool]


@dataclass(frozen=True)
class UpstreamCommit:
    """A commit of upstream: its id, the first line of its message, and when it was made."""

    id: str
    subject: str
    when: int


class DefinitionCommits:
    """The commits between two releases, by what they make of the definitions of a file."""

    def __init__(self, history: UpstreamHistory) -> None:
        self._history = history
        self._known: dict[str, list[tuple[UpstreamCommit, list[list[Definition]]]]] = {}

    def changing(self, path: str, differs: Differs) -> list[UpstreamCommit]:
        """Return the commits after which definitions of a file differ, the oldest first."""
        if path not in self._known:
            self._known[path] = [
                (
                    UpstreamCommit(one.commit, one.subject, one.when),
                    [_outline(path, text) for text in (one.before, one.after)],
                )
                for one in self._history.changes(path)
            ]
        return [commit for commit, (old, new) in self._known[path] if differs(old, new)]


def _outline(path: str, text: bytes | None) -> list[Definition]:
    return [] if text is None else outline(text, python=is_python(path))
