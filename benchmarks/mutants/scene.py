"""What an oracle sees: the files of a tree, and what a mutation renamed or added."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mutants.world import CannotSayError, Stub, World, limited

# "defect": all or some of the places have it. "absent": there is nothing that could have it.
Answer = Literal["defect", "cured", "absent"]


@dataclass(frozen=True)
class Scene:
    """A tree for an oracle.

    `runs` are files that were changed or added: imports of them run them. `names` maps names of
    the release to what a mutation calls them. `places` are further definitions to judge, as paths
    and names.
    """

    files: Mapping[str, bytes]
    runs: frozenset[str] = frozenset()
    names: Mapping[str, str] = field(default_factory=dict)
    places: tuple[tuple[str, str], ...] = ()

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def holding(self, pattern: str) -> list[str]:
        """Python files in which a regular expression is found."""
        wanted = re.compile(pattern.encode())
        return sorted(p for p, t in self.files.items() if p.endswith(".py") and wanted.search(t))

    def world(self, *runs: str, **options: Any) -> World:
        return World(self.files.get, frozenset(runs) | self.runs, **options)

    def entries(self, path: str, name: str) -> Iterator[tuple[str, str]]:
        """A definition of the release, and the copies that a mutation made."""
        if path in self.files:
            yield path, self.name(name)
        yield from self.places


class Given(Stub):
    """A stub with some attributes that are known."""

    def __init__(self, world: World, name: str, **known: Any) -> None:
        super().__init__(world, name)
        self.__dict__.update(known)


Oracle = Callable[[Scene], Answer]


def judged(oracle: Oracle, scene: Scene) -> Answer | None:
    """What an oracle answers; None where it cannot say."""
    try:
        with limited():
            return oracle(scene)
    except (CannotSayError, Exception):  # noqa: BLE001 - it ran a mutant
        return None


def together(answers: list[Answer]) -> Answer:
    """One answer for several places: a single one that has the defect decides."""
    if "defect" in answers:
        return "defect"
    return "cured" if "cured" in answers else "absent"
