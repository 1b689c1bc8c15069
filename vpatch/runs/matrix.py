"""The points of a recipe's matrix: what runs in each, and by which plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from vpatch.declare.bench import Bench, BenchCells
from vpatch.declare.errors import DeclarationError
from vpatch.declare.smoke import Needs, Smoke
from vpatch.errors import MissingOptionError, UnusedOptionError
from vpatch.harness.machine import missing
from vpatch.workspace import selection

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.declare.matrix import MatrixDeclaration
    from vpatch.declare.yamlfile import Positions
    from vpatch.harness.machine import Machine
    from vpatch.progress import Progress
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request, Selection

_Plan = TypeVar("_Plan", Smoke, Bench)


@dataclass(frozen=True)
class MatrixPoint:
    """One combination of a matrix, by its names; None where the matrix does not say it.

    `jobs` are what runs there.
    """

    vllm: str | None
    patches: str | None
    hardware: str | None
    needs: Needs
    jobs: Sequence[Selection]

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.vllm, self.patches, self.hardware))) or "all"

    @property
    def slug(self) -> str:
        return slug_of(self.name)

    @property
    def names(self) -> dict[str, str]:
        """The names that a record has."""
        names = {"vllm": self.vllm, "patches": self.patches, "hardware": self.hardware}
        return {name: value for name, value in names.items() if value is not None}


@dataclass(frozen=True)
class RecipeMatrix:
    """The matrix of a recipe, and its points."""

    declared: MatrixDeclaration
    positions: Positions
    points: Sequence[MatrixPoint]

    def plan_at(self, plan: _Plan, needs: Needs) -> _Plan:
        """Return a plan with the models of the matrix, and with what a kind of machine has.

        Raises:
            DeclarationError: the plan has no such model.
        """
        merged = merged_needs(plan.needs, needs)
        changed: dict[str, Any] = {"needs": merged}
        if self.declared.models is not None:
            for index, name in enumerate(self.declared.models):
                if name not in plan.models:
                    raise DeclarationError(
                        f"{name!r} is not in the models of the plan ({', '.join(plan.models)})",
                        where=self.positions.where(["matrix", "models", index]),
                        hint="name models of the plan",
                        code="declare.wrong-value",
                    )
            changed["cells"] = _cells(plan, self.declared.models)
        return plan.model_copy(update=changed)

    def with_pristine(self) -> RecipeMatrix:
        """Return the same with the pristine trees of each release and kind of machine, first."""
        has = {(p.vllm, p.hardware) for p in self.points if not any(j.patches for j in p.jobs)}
        pristine = {
            (point.vllm, point.hardware): replace(
                point,
                patches="without patches",
                jobs=[replace(job, patches=()) for job in point.jobs],
            )
            for point in self.points
            if (point.vllm, point.hardware) not in has
        }
        return replace(self, points=[*pristine.values(), *self.points])

    def here(self, machine: Machine, kind: str, progress: Progress) -> RecipeMatrix:
        """Return the same with the points that this machine can run; notes name the others.

        Raises:
            UsageError: it can run none of them.
        """
        points, notes = [], []
        for point in self.points:
            lacking = [error.what for error in missing(point.needs, machine, kind)]
            if point.needs.labels:
                lacking.append("only nodes of a cluster have labels")
            if lacking:
                notes.append(f"{point.name} is left out: {'; '.join(lacking)}")
            else:
                points.append(point)
        if not points:
            raise MissingOptionError(
                "this machine can run no point of the matrix:\n    " + "\n    ".join(notes),
                where=self.positions.where(["matrix"]),
                hint="give --cluster ADDRESS, or use a machine that has what the matrix needs",
            )
        for note in notes:
            progress.note(note)
        return replace(self, points=points)


def matrix_of(context: Context, request: Request) -> RecipeMatrix | None:
    """Return the matrix of the recipe that a request names; None if there is none.

    Raises:
        DeclarationError: it names a patch that the recipe does not list.
        UsageError: `--patch` and sets of patches exclude each other.
    """
    if request.recipe is None:
        return None
    library = context.library
    declared, positions = library.read_recipe(library.recipe(request.recipe))
    matrix = declared.matrix
    if matrix is None:
        return None
    if matrix.patches is not None and request.patches:
        raise UnusedOptionError(
            "--patch would have no effect: the matrix of the recipe has sets of patches",
            where=positions.where(["matrix", "patches"]),
            hint="leave out --patch, or change the sets",
        )
    _refuse_unlisted(matrix.patches or {}, declared.patches, positions)
    sets: list[tuple[str | None, Sequence[str] | None]] = [*(matrix.patches or {}).items()]
    hardware: list[tuple[str | None, Needs]] = [*(matrix.hardware or {}).items()]
    points = [
        MatrixPoint(vllm, name, kind, needs, _select(context, request, vllm, patches))
        for (vllm, (name, patches), (kind, needs)) in product(
            matrix.vllm or (None,),
            sets or [(None, request.patches or None)],
            hardware or [(None, Needs())],
        )
    ]
    return RecipeMatrix(matrix, positions, points)


def _refuse_unlisted(
    sets: Mapping[str, Sequence[str]], listed: Sequence[str], positions: Positions
) -> None:
    for name, patches in sets.items():
        for index, patch in enumerate(patches):
            if patch not in listed:
                raise DeclarationError(
                    f"the recipe does not list {patch!r}",
                    where=positions.where(["matrix", "patches", name, index]),
                    hint="add it to the recipe's patches, or correct the id",
                    code="library.not-in-recipe",
                )


def _select(
    context: Context, request: Request, vllm: str | None, patches: Sequence[str] | None
) -> list[Selection]:
    """What a point runs; no patches at all is the pristine tree."""
    asked = replace(request, vllm=vllm, patches=tuple(patches or ()))
    jobs = selection.resolve(asked, context.library, whole_library=vllm is not None)
    # A release of the matrix may need none of the patches, and none of them was named for it.
    jobs = [replace(job, recipe=None) for job in jobs]
    return [replace(job, patches=()) for job in jobs] if patches == () else jobs


def slug_of(text: str) -> str:
    """Return a text as a part of the name of a file."""
    return re.sub(r"[^A-Za-z0-9.]+", "-", text)


def merged_needs(ours: Needs, theirs: Needs) -> Needs:
    """Return ours, with what theirs say instead."""
    further = {key: getattr(theirs, key) for key in theirs.model_fields_set}
    if "labels" in further:
        further["labels"] = (ours.labels or {}) | (theirs.labels or {})
    return ours.model_copy(update=further)


def _cells(plan: Smoke | Bench, models: Sequence[str]) -> tuple[Any, ...]:
    """Each row with each model; rows that are equal then are one."""
    if isinstance(plan, Bench):
        ks = sorted({k for row in plan.cells for k in row.k})
        return tuple(BenchCells(model=model, k=tuple(ks)) for model in models)
    rows = [row.model_copy(update={"model": model}) for model in models for row in plan.cells]
    return tuple(row for number, row in enumerate(rows) if row not in rows[:number])
