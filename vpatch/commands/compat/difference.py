"""How definitions of vLLM differ between two releases, for what is new to a target."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.judgement.facts import place_of
from vpatch.planning.outline import is_python, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.result import CompatItem, CompatResult
    from vpatch.commands.compat.surface.items import Surface
    from vpatch.workspace.upstream_history import UpstreamHistory

_SHOWN = ("gone", "changed", "look again")
# Of one definition: a class may have a thousand.
LONGEST = 120


class DefinitionCommit(NamedTuple):
    """A commit of upstream that changed a definition. `when` is in seconds since 1970."""

    when: int
    id: str
    subject: str


@dataclass(frozen=True)
class DefinitionDifference:
    """An item that is not in the second release as it is in the first, and the definition's diff.

    `lines` are empty where one of the two has no definition that vpatch reads. `commits` are None
    where nobody was asked for them.
    """

    item: CompatItem
    lines: tuple[str, ...]
    commits: tuple[DefinitionCommit, ...] | None = None


def difference_of(
    old: JudgedRelease,
    new: JudgedRelease,
    surface: Surface,
    result: CompatResult,
    history: UpstreamHistory | None,
) -> Iterator[DefinitionDifference]:
    """Return what is new in the second release, in the order of the target's places."""
    by_place = {(one.kind, one.name, one.spots[0]): one for one in result.items}
    commits = None if history is None else _Commits(history)
    earlier, later = (one.label for one in result.releases)
    for key, item in surface.items.items():
        shown = by_place.get((item.kind, item.name, surface.places[key][0]))
        if shown is None or shown.verdicts[later].state not in _SHOWN:
            continue
        if shown.verdicts[later].state == shown.verdicts[earlier].state:
            continue
        before, after = place_of(old, item), place_of(new, item)
        lines: list[str] = []
        if before is not None:
            names = old.where(before), new.where(after) if after else "/dev/null"
            texts = old.lines(before), new.lines(after) if after else []
            lines = list(difflib.unified_diff(*texts, *names, lineterm=""))
        places = [(old.path_of(before.module), before)] if before else []
        places += [(new.path_of(after.module), after)] if after else []
        changed_by = None if commits is None else commits.of(dict(places))
        yield DefinitionDifference(shown, tuple(lines[:LONGEST]), changed_by)


class _Commits:
    """The commits between two releases, by files and definitions."""

    def __init__(self, history: UpstreamHistory) -> None:
        self._history = history
        # What each commit makes of a file: the digests of its definitions, before and after.
        self._known: dict[str, list[tuple[DefinitionCommit, list[dict[str, str]]]]] = {}

    def of(self, places: Mapping[str, DefinedPlace]) -> tuple[DefinitionCommit, ...]:
        """Return the commits that changed the syntax of definitions, the oldest first."""
        commits = set()
        for path, place in places.items():
            for commit, (before, after) in self._changes(path):
                if _part(before, place.name) != _part(after, place.name):
                    commits.add(commit)
        return tuple(sorted(commits))

    def _changes(self, path: str) -> list[tuple[DefinitionCommit, list[dict[str, str]]]]:
        if path not in self._known:
            self._known[path] = [
                (
                    DefinitionCommit(one.when, one.commit, one.subject),
                    [_digests(path, text) for text in (one.before, one.after)],
                )
                for one in self._history.changes(path)
            ]
        return self._known[path]


def _digests(path: str, text: bytes | None) -> dict[str, str]:
    definitions = [] if text is None else outline(text, python=is_python(path))
    digests: dict[str, str] = {}
    for one in definitions:
        digests[one.name] = digests.get(one.name, "") + one.digest
    return digests


def _part(digests: Mapping[str, str], name: str) -> dict[str, str]:
    """The digests of a definition, and of what a class has in it."""
    return {n: d for n, d in digests.items() if n == name or n.startswith(f"{name}.")}
