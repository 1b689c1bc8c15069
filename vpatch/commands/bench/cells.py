"""A declared benchmark plan as what is done in turn: servers, and the loads on each."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from vpatch.declare.bench import Shape

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from vpatch.declare.bench import Bench
    from vpatch.declare.smoke import Timeouts

# Of the sides of a benchmark.
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_SEEDS = 2**31
_WARM_UP_TOKENS = 128
_T = TypeVar("_T")


@dataclass(frozen=True)
class Load:
    """Prompts of a shape, `concurrency` of them under way at once; `seed` chooses the prompts."""

    shape: Shape
    concurrency: int
    prompts: int
    seed: int

    @property
    def name(self) -> str:
        return f"{self.shape.name} c={self.concurrency}"


@dataclass(frozen=True)
class BenchCell:
    """One way to serve one model: a `smoke.launch.Launch`. For a running server `k` is its own."""

    model: str
    k: int
    method: str
    tensor_parallel: int
    timeouts: Timeouts
    flags: Mapping[str, JsonValue] = field(default_factory=dict, hash=False)
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def name(self) -> str:
        return f"{self.model} k={self.k}"

    @property
    def speculative(self) -> dict[str, str | int] | None:
        return {"method": self.method, "num_speculative_tokens": self.k} if self.k else None


@dataclass(frozen=True)
class ServerRun:
    """One server of a side, and the loads that it gets one after the other.

    `repeat` counts from 0, and `side` is the place of what is measured among all sides.
    """

    repeat: int
    side: int
    cell: BenchCell
    loads: tuple[Load, ...]


def cells_of(bench: Bench) -> list[BenchCell]:
    """Return the cells of a plan, those of a model by k."""
    return [
        BenchCell(
            model=cells.model,
            k=k,
            method=bench.method,
            tensor_parallel=bench.tensor_parallel,
            timeouts=bench.timeouts,
            flags=bench.flags,
            environment=bench.environment,
        )
        for cells in bench.cells
        for k in sorted(cells.k)
    ]


def loads_of(bench: Bench, repeat: int, salt: str = "") -> list[Load]:
    """Return the loads of a repeat, the same for every cell and side.

    No two have a seed in common: a server that keeps the prefixes of its prompts would answer the
    second from memory. With another `salt` they are others, for servers that have seen these.
    """
    return [
        Load(
            shape=shape,
            concurrency=concurrency,
            prompts=bench.prompts * concurrency,
            seed=_seed(shape.name, concurrency, repeat, salt),
        )
        for shape in bench.shapes
        for concurrency in bench.concurrency
    ]


def warm_up_of(loads: Sequence[Load], longest: int | None = None) -> Load:
    """Return what a server gets before its loads: other prompts, as many at once as will be.

    They are random ones for prompts from a file as well, which would be warm by themselves then;
    `longest` is how many tokens the model takes, if that is known.
    """
    most = max(loads, key=lambda load: load.concurrency)
    shape, seed = most.shape, _seed("warm-up", *(load.seed for load in loads))
    if shape.dataset != "random":
        workdir = _WARM_UP_TOKENS if longest is None else longest - shape.output
        shape = Shape(input=max(1, min(_WARM_UP_TOKENS, workdir)), output=shape.output)
    return Load(shape, most.concurrency, most.concurrency, seed)


def schedule(
    sides: Sequence[Sequence[BenchCell]], bench: Bench, salt: str = ""
) -> Iterator[ServerRun]:
    """Yield every server of some sides, in an order in which drift meets no cell and no side alone.

    Every side has as many cells. Those of one place come one right after the other, each time in
    the other order than before, and every other repeat is backwards.
    """
    for repeat in range(bench.repeats):
        loads = loads_of(bench, repeat, salt)
        groups = [tuple(loads)] if bench.share_server else [(load,) for load in loads]
        cells = list(zip(*sides, strict=True))
        places = list(enumerate((of_sides, group) for of_sides in cells for group in groups))
        for number, (of_sides, group) in _turn(places, repeat):
            for side in _turn(range(len(sides)), number + repeat):
                yield ServerRun(repeat, side, of_sides[side], tuple(_turn(group, repeat)))


def side_names(count: int) -> list[str]:
    """Return the names of so many sides; one alone needs none."""
    return list(LETTERS[:count]) if count > 1 else [""]


def _turn(items: Sequence[_T], number: int) -> Iterable[_T]:
    return reversed(items) if number % 2 else items


def _seed(*parts: object) -> int:
    """The same on every machine, for records are compared only where the prompts were the same."""
    words = [str(part) for part in parts if part != ""]
    digest = hashlib.sha256(" ".join(words).encode()).digest()
    return int.from_bytes(digest[:8], "big") % _SEEDS
