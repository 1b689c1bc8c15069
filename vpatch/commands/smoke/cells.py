"""A declared smoke plan as cells: each one start of an engine, with everything that it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping  # noqa: TC003 - pydantic reads the annotations
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vpatch.declare.smoke import (
    Cells,
    CellSettings,
    Mode,
    Needs,
    RepeatedPrompt,
    Sampling,
    Timeouts,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.declare.smoke import Smoke

_MERGED = ("flags", "environment", "checks")
_MERGED_MODELS = ("sampling", "timeouts", "needs")
_DEFAULTS: dict[str, Any] = {
    "modes": ("offline", "server"),
    "method": "mtp",
    "tensor_parallel": 1,
    "rounds": 1,
    "max_tokens": 32,
    "long_tokens": 0,
    "sampling": Sampling(),
    "flags": {},
    "environment": {},
    "timeouts": Timeouts(),
    "output_may_differ": False,
    "needs": Needs(),
    "checks": {},
}


@dataclass(frozen=True)
class Cell:
    """One way to run one model.

    `row` counts the declared rows from 0: cells of a row differ in `k` and `mode` alone, and can be
    compared. A prompt is a text, or a sequence of token ids. `suffix` tells cells of several rows
    apart that have the same name otherwise.
    """

    row: int
    model: str
    mode: Mode
    k: int
    method: str
    tensor_parallel: int
    rounds: int
    prompts: tuple[str | tuple[int, ...], ...]
    max_tokens: int
    long_tokens: int
    sampling: Sampling
    timeouts: Timeouts
    flags: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    output_may_differ: bool = False
    needs: Needs = field(default_factory=Needs)
    suffix: str = ""

    @property
    def name(self) -> str:
        parallel = f" tp={self.tensor_parallel}" if self.tensor_parallel > 1 else ""
        return f"{self.model} k={self.k}{parallel} {self.mode}{self.suffix}"

    @property
    def sampling_arguments(self) -> dict[str, Any]:
        """What SamplingParams and the server's requests take, without what is not said."""
        return self.sampling.model_dump(by_alias=False, exclude_none=True)

    @property
    def speculative(self) -> dict[str, str | int] | None:
        return {"method": self.method, "num_speculative_tokens": self.k} if self.k else None


def cells_of(smoke: Smoke, *, rounds: int | None = None) -> list[Cell]:
    """Return the cells of a plan, in order; `rounds` replaces what the plan says."""
    cells = [cell for row, one in enumerate(smoke.cells) for cell in _row(smoke, row, one)]
    names = Counter(cell.name for cell in cells)
    cells = [
        replace(cell, suffix=f" row={cell.row + 1}") if names[cell.name] > 1 else cell
        for cell in cells
    ]
    return [replace(cell, rounds=rounds) for cell in cells] if rounds else cells


def visits(cells: Sequence[Cell]) -> Iterator[tuple[int, Cell]]:
    """Yield each cell as often as it has rounds, every other round backwards.

    What drifts while a run goes on (heat, neighbours) then meets no cell alone.
    """
    for number in range(max((cell.rounds for cell in cells), default=0)):
        again = [cell for cell in cells if cell.rounds > number]
        yield from ((number, cell) for cell in (reversed(again) if number % 2 else again))


def _row(smoke: Smoke, row: int, cells: Cells) -> Iterator[Cell]:
    values = dict(_DEFAULTS)
    values["needs"] = smoke.needs
    for settings in (smoke.defaults, cells):
        for name in CellSettings.model_fields:
            value = getattr(settings, name)
            if value is None:
                continue
            if name in _MERGED:
                values[name] = values[name] | value
            elif name in _MERGED_MODELS:
                further = {key: getattr(value, key) for key in value.model_fields_set}
                if "labels" in further:
                    further["labels"] = (values[name].labels or {}) | (value.labels or {})
                values[name] = values[name].model_copy(update=further)
            else:
                values[name] = value
    modes, declared = values.pop("modes"), smoke.prompts[values.pop("prompts")]
    prompts = [one.tokens() if isinstance(one, RepeatedPrompt) else one for one in declared]
    # k = 0 first, whatever the order: it is what the others are compared with.
    for mode in modes:
        for k in sorted(cells.k):
            yield Cell(row=row, model=cells.model, mode=mode, k=k, prompts=tuple(prompts), **values)
