"""The plan of a benchmark: that of a recipe, with what the command line says instead."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from vpatch.commands.bench.standard import standard_bench
from vpatch.declare.bench import Bench, BenchCells, Shape
from vpatch.errors import BadValueError, MissingOptionError
from vpatch.harness.models import given
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.workspace.context import Context

_DIGITS = 5
_STANDARD = "the standard plan runs (k=0 and k=3, 24 tokens in and 32 out)"
_GIVE = (
    "give --shape IN/OUT and --model PATH|ID, or --plan RECIPE of one that has a plan under bench, "
    "such as vllm-0.23"
)


@dataclass(frozen=True)
class Overrides:
    """What the command line sets in a plan; None or empty leaves the plan as it is."""

    model: str | None
    k: tuple[int, ...]
    concurrency: tuple[int, ...]
    shapes: tuple[Shape, ...]
    prompts: int | None
    repeats: int | None

    def plan(self, context: Context, recipe: str | None, served: Sequence[int] = ()) -> Bench:
        """Return the plan of a recipe with overrides; `served` are the k of running servers.

        Where no recipe has a plan, the standard plan is taken, and a note says so. A model and a
        shape make a plan of their own.

        Raises:
            UsageError: there is no plan for running servers, or the overrides make no plan.
        """
        declared = _declared_bench(context, recipe)
        if declared is None and (not self.shapes or not self.model):
            what = f"the recipe {recipe} has no benchmark plan" if recipe else "there is no plan"
            if served:
                # Loads of any size would go to a server that others may use.
                raise MissingOptionError(what, hint=_GIVE)
            context.progress.note(f"{what}: {_STANDARD}")
            declared = standard_bench()
        fields = {name: getattr(declared, name) for name in Bench.model_fields} if declared else {}
        names = ("concurrency", "shapes", "prompts", "repeats")
        fields |= {name: value for name in names if (value := getattr(self, name))}
        if self.model:
            fields["models"] = {_name_of(self.model): given(self.model)}
        ks = tuple(served) or self._ks(declared)
        if ks:
            models = fields.get("models", {})
            fields["cells"] = tuple(BenchCells(model=name, k=ks) for name in models)
        try:
            return Bench.model_validate(
                {Bench.model_fields[name].alias or name: value for name, value in fields.items()}
            )
        except ValidationError as error:
            # What a recipe says is right already: it is the options.
            raise BadValueError(first_of(error), hint="correct the options") from error

    def refuse_without_plan(self, context: Context, recipe: str) -> None:
        """Refuse a recipe that was named for its plan and has none.

        Raises:
            UsageError: so it is, and the overrides make no plan.
        """
        if _declared_bench(context, recipe) is None and not (self.shapes and self.model):
            raise MissingOptionError(
                f"the recipe {recipe} has no benchmark plan",
                where="--plan",
                hint=f"{_GIVE}; or leave it out: then the standard plan runs",
            )

    def _ks(self, declared: Bench | None) -> tuple[int, ...]:
        """The numbers of speculative tokens of all models; none where the plan's cells stay."""
        if self.k or not self.model:
            return self.k
        cells = declared.cells if declared else ()
        return tuple(sorted({k for one in cells for k in one.k})) or (0,)


def _name_of(model: str) -> str:
    """A name for a checkpoint: that of its folder, as far as a plan can have it."""
    name = Path(model.partition("@")[0]).name
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name).lstrip("._+-") or "model"


def numbers(option: str, text: str | None, *, least: int) -> tuple[int, ...]:
    """Read 1,4,8, or 0..3 for each from 0 to 3; nothing of nothing."""
    values: list[int] = []
    for part in text.split(",") if text else ():
        first, dots, last = part.strip().partition("..")
        if not _is_number(first) or (dots and not _is_number(last)):
            raise BadValueError(
                f"{text!r} is not a list of numbers",
                where=option,
                hint="write it as 1,4,8 or as 0..3",
            )
        values += range(int(first), int(last if dots else first) + 1)
    if text is not None and (not values or min(values) < least or len(set(values)) < len(values)):
        raise BadValueError(
            f"{text!r} has a number below {least}, or one twice",
            where=option,
            hint=f"give different numbers, each at least {least}",
        )
    return tuple(values)


def _is_number(text: str) -> bool:
    # More digits are a slip of the hand, and 0..999999999 fills any memory.
    return text.isdecimal() and len(text) <= _DIGITS


def shape_from(text: str) -> Shape:
    """Read the shape of random prompts, as 1024/128."""
    prompt, _, answer = text.partition("/")
    try:
        return Shape.model_validate({"input": int(prompt), "output": int(answer)})
    except ValueError as error:
        raise BadValueError(
            f"{text!r} is not a shape",
            where="--shape",
            hint="give the tokens of a prompt and of its answer, such as 1024/128, at least 1/2; "
            "declare prompts from a file in a recipe",
        ) from error


def _declared_bench(context: Context, recipe: str | None) -> Bench | None:
    if recipe is None:
        return None
    declared, _ = context.library.read_recipe(context.library.recipe(recipe))
    return declared.bench
