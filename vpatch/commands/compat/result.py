"""What `vpatch compat` returns, and how it is kept as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from vpatch.commands.compat.judgement.verdict import BREAKS, ItemVerdict, State
from vpatch.commands.compat.surface.items import KINDS, ItemKind, Spot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True)
class CompatItem:
    """What a target takes from vLLM, with its verdict in each release, by the release's label.

    `conditions` say when its code runs. `at_import` says that it runs when its module is imported.
    """

    kind: ItemKind
    name: str
    spots: tuple[Spot, ...]
    conditions: tuple[str, ...]
    at_import: bool
    verdicts: Mapping[str, ItemVerdict]

    def breaks_in(self, release: str) -> bool:
        return self.verdicts[release].state in BREAKS


@dataclass(frozen=True)
class CompatRelease:
    """A release that was judged. `is_declared` says that the target declares that it fits."""

    label: str
    digest: str
    is_declared: bool


@dataclass(frozen=True)
class CompatResult:
    """The items of a target, and what each release means for them.

    `base` is the release that the others are compared with, and `base_reason` why. `unread` are
    files that vpatch cannot read, and why. `unjudged` counts what no release can tell about.
    """

    target: str
    version: str | None
    files: int
    unread: Mapping[str, str]
    links: tuple[str, ...]
    base: str | None
    base_reason: str
    releases: tuple[CompatRelease, ...]
    items: tuple[CompatItem, ...]
    unjudged: int

    def count(self, release: str, state: State, kind: ItemKind | None = None) -> int:
        return sum(
            one.verdicts[release].state == state and kind in {None, one.kind} for one in self.items
        )

    def breaks(self, release: str) -> list[CompatItem]:
        return [one for one in self.items if one.breaks_in(release)]

    @property
    def kinds(self) -> list[ItemKind]:
        used = {one.kind for one in self.items}
        return [kind for kind in KINDS if kind in used]

    @property
    def has_findings(self) -> bool:
        """Whether something breaks in a release that the target declares."""
        return any(self.breaks(one.label) for one in self.releases if one.is_declared)

    @property
    def summary(self) -> str:
        """The releases that the target fits, in one sentence."""
        labels = [one.label for one in self.releases]
        counts = {label: len(self.breaks(label)) for label in labels}
        runs = [list(run) for fits, run in groupby(labels, lambda one: not counts[one]) if fits]
        if not labels:
            return "No release was judged."
        if not runs:
            least = min(labels, key=counts.__getitem__)
            names = _names(counts[least])
            return f"Fits no release that was judged; fewest breaks in {least}: {names}"
        run = next((one for one in runs if self.base in one), max(runs, key=len))
        fits = f"Fits {run[0]}" + (f" to {run[-1]}" if len(run) > 1 else "")
        later = labels[labels.index(run[-1]) + 1 :]
        if later:
            return f"{fits}; first break in {later[0]}: {_names(counts[later[0]])}"
        return fits


def _names(count: int) -> str:
    return f"{count} name{'' if count == 1 else 's'}"


def row_of(result: CompatResult) -> dict[str, Any]:
    """Return a result as JSON can have it: each verdict once."""
    table: dict[ItemVerdict, int] = {}
    items = [
        [
            *(one.kind, one.name, [list(spot) for spot in one.spots]),
            *(list(one.conditions), one.at_import),
            {label: table.setdefault(v, len(table)) for label, v in one.verdicts.items()},
        ]
        for one in result.items
    ]
    return {
        **{name: getattr(result, name) for name in _PLAIN},
        "unread": dict(result.unread),
        "links": list(result.links),
        "releases": [[one.label, one.digest, one.is_declared] for one in result.releases],
        "verdicts": [[v.state, v.why, v.where, v.moved] for v in table],
        "items": items,
    }


_PLAIN = ("target", "version", "files", "base", "base_reason", "unjudged")


def result_of(row: dict[str, Any]) -> CompatResult:
    """Return the result of a row."""
    table: Sequence[ItemVerdict] = [ItemVerdict(*one) for one in row["verdicts"]]
    items = tuple(
        CompatItem(
            kind,
            name,
            tuple(Spot(*spot) for spot in spots),
            tuple(conditions),
            at_import,
            {label: table[number] for label, number in verdicts.items()},
        )
        for kind, name, spots, conditions, at_import, verdicts in row["items"]
    )
    return CompatResult(
        **{name: row[name] for name in _PLAIN},
        unread=row["unread"],
        links=tuple(row["links"]),
        releases=tuple(CompatRelease(*one) for one in row["releases"]),
        items=items,
    )
