"""How definitions of vLLM differ between two releases, for what is new to a target."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.compat.judgement.facts import place_of
from vpatch.workspace.definition_commits import DefinitionCommits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.judgement.release import JudgedRelease
    from vpatch.commands.compat.result import CompatItem, CompatResult
    from vpatch.commands.compat.surface.items import Surface
    from vpatch.planning.outline import Definition
    from vpatch.workspace.definition_commits import Differs, UpstreamCommit
    from vpatch.workspace.upstream_history import UpstreamHistory

_SHOWN = ("gone", "changed", "look again")
# Of one definition: a class may have a thousand.
LONGEST = 120


@dataclass(frozen=True)
class DefinitionDifference:
    """An item that is not in the second release as it is in the first, and the definition's diff.

    `lines` are empty where one of the two has no definition that vpatch reads. `commits` are None
    where nobody was asked for them.
    """

    item: CompatItem
    lines: tuple[str, ...]
    commits: tuple[UpstreamCommit, ...] | None = None


def difference_of(
    old: JudgedRelease,
    new: JudgedRelease,
    surface: Surface,
    result: CompatResult,
    history: UpstreamHistory | None,
) -> Iterator[DefinitionDifference]:
    """Return what is new in the second release, in the order of the target's places."""
    by_place = {(one.kind, one.name, one.spots[0]): one for one in result.items}
    commits = None if history is None else DefinitionCommits(history)
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
        changed_by = None if commits is None else _commits_of(commits, dict(places))
        yield DefinitionDifference(shown, tuple(lines[:LONGEST]), changed_by)


def _commits_of(
    commits: DefinitionCommits, places: Mapping[str, DefinedPlace]
) -> tuple[UpstreamCommit, ...]:
    """Return the commits that changed the syntax of definitions, the oldest first."""
    changing = [
        commit
        for path, place in places.items()
        for commit in commits.changing(path, _differing(place.name))
    ]
    return tuple(sorted(dict.fromkeys(changing), key=lambda one: one.when))


def _differing(name: str) -> Differs:
    return lambda before, after: _part(before, name) != _part(after, name)


def _part(definitions: Iterable[Definition], name: str) -> list[tuple[str, str]]:
    """The digests of a definition, and of what a class has in it."""
    return [
        (one.name, one.digest)
        for one in definitions
        if one.name == name or one.name.startswith(f"{name}.")
    ]
