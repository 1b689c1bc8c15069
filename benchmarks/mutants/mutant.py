"""What a mutation makes, and what it is given to make it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from mutants.source import Function, Scoped, Source, Span, parsed

# What a mutation does to the meaning, which the oracle confirms.
Mark = Literal["harmless", "curing", "moving", "meaning"]
MARKS: tuple[Mark, ...] = ("harmless", "curing", "moving", "meaning")


@dataclass(frozen=True)
class Mutant:
    """Files that a mutation changed or added, and what an oracle must know of it."""

    files: Mapping[str, bytes]
    names: Mapping[str, str] = field(default_factory=dict)
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Spot:
    """A definition that a patch reads or edits, as a mutation finds it."""

    files: Mapping[str, bytes]
    path: str
    name: str

    @property
    def source(self) -> Source:
        return parsed(self.files[self.path])

    @property
    def node(self) -> Scoped | ast.Module | None:
        """The definition; the module where the spot has no name."""
        return self.source.definition(self.name) if self.name else self.source.tree

    def function(self, rng: Random) -> Function | None:
        """The function, or one of the class."""
        node = self.node
        if isinstance(node, ast.ClassDef | ast.Module):
            found = [n for n in node.body if isinstance(n, Function)]
            return rng.choice(found) if found else None
        return node

    def made(self, spans: list[Span] | None, **more: object) -> Mutant | None:
        """A mutant with spans of the spot's file replaced."""
        data = self.source.edited(spans) if spans else None
        if data is None or data == self.files[self.path]:
            return None
        return Mutant({self.path: data}, **more)  # type: ignore[arg-type]


# None where the mutation has nothing to do at a spot.
Mutation = Callable[[Spot, Random], Mutant | None]


@dataclass(frozen=True)
class Family:
    """A mutation with a name, `group/what`, and what it does to the meaning."""

    name: str
    mark: Mark
    mutate: Mutation


def follow(first: Mutation, second: Mutation) -> Mutation:
    """One mutation after another, at the same spot."""

    def both(spot: Spot, rng: Random) -> Mutant | None:
        one = first(spot, rng)
        if one is None:
            return None
        name = ".".join(one.names.get(part, part) for part in spot.name.split("."))
        two = second(Spot({**spot.files, **one.files}, spot.path, name), rng)
        if two is None:
            return None
        names = {old: two.names.get(new, new) for old, new in one.names.items()}
        return Mutant({**one.files, **two.files}, {**two.names, **names}, one.places + two.places)

    return both
