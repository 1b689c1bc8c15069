"""Smoke runs of a recipe's matrix, and smoke runs on a cluster: several requests, one record."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.smoke.joined_record import joined
from vpatch.commands.smoke.point import PointRun
from vpatch.commands.smoke.prove import run_smoke
from vpatch.commands.smoke.request import (
    SmokeResult,
    asked_of,
    interrupted_in,
    planned_smoke,
    smoke_plan_of,
)
from vpatch.errors import VpatchError, combine, distinct
from vpatch.evidence.collecting import collected, dated
from vpatch.evidence.store import LOGS, POINTS, write_evidence
from vpatch.evidence.subject import subject_trees, subject_trees_of_locks
from vpatch.harness.machine import this_machine
from vpatch.runs.targets import (
    PlannedTrees,
    engine_here,
    look_at_image,
    open_target,
    planned_trees,
    refuse_missing,
    require_trust_in_folders,
    trees_in_image,
)
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.prove import OnResult
    from vpatch.commands.smoke.request import SmokeOptions
    from vpatch.declare.smoke import Smoke
    from vpatch.evidence.records import SmokeRecord, SubjectTree
    from vpatch.runs.cluster_options import Here, OnCluster
    from vpatch.runs.matrix import MatrixPoint, RecipeMatrix
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request


@dataclass(frozen=True)
class _Planned:
    """What runs in a point, and by which plan. Without a matrix there is one, without a name."""

    point: MatrixPoint | None
    trees: PlannedTrees
    smoke: Smoke
    subject: Sequence[SubjectTree]
    plan: str | None = None


@dataclass(frozen=True)
class PointsRun:
    """A run of the points of a matrix, or of one plan on a cluster: all of it is one record.

    `matrix` is that of the recipe, if it has one. The evidence lies in a new folder of `root`.
    """

    context: Context
    request: Request
    options: SmokeOptions
    matrix: RecipeMatrix | None
    root: Path
    on_result: OnResult

    def on_cluster(self, where: OnCluster) -> SmokeResult:
        """Run a plan on the nodes of a cluster. Here the trees are planned, and nothing runs."""
        require("ray", "`--cluster`")
        # Only these runs need it.
        from vpatch.cluster.connection import address_of  # noqa: PLC0415
        from vpatch.commands.smoke.cluster import run_smoke_on_cluster  # noqa: PLC0415

        address_of(where.address)
        context, request = self.context, self.request
        with ExitStack() as stack:
            if where.image is not None:
                one, title = self._plan_image(where.image, stack)
                planned = [one]
            elif self.matrix is None:
                selections, smoke = planned_smoke(context, request, self.options)
                trees = planned_trees(context, selections, stack, asked_for=bool(request.patches))
                planned = [_Planned(None, trees, smoke, subject_trees(trees.plans))]
                title = selections[0].recipe or trees.version
            else:
                planned = self._plan_points(self.matrix, stack)
                title = str(request.recipe)
            title = f"{title}-{where.engine or ('image' if where.image else 'cluster')}"

            def make(points: Sequence[PointRun]) -> list[SmokeRecord]:
                progress = context.progress
                return run_smoke_on_cluster(points, where, self.root, progress, self.on_result)

            return self._collect(planned, title, make)

    def _plan_image(self, name: str, stack: ExitStack) -> tuple[_Planned, str]:
        """Ask an image of this machine's engine what is in it; nodes run it by its digest."""
        image, _ = look_at_image(name, stack, gpus=bool(this_machine().gpus))
        plan = self.options.plan_of(self.context, image.lock.recipe)
        smoke = smoke_plan_of(self.context, plan)
        named = self.options.model is not None
        require_trust_in_folders(self.context, plan, smoke.models.values(), named=named)
        subject = subject_trees_of_locks(*image.locks)
        planned = _Planned(None, trees_in_image(image), smoke, subject, plan)
        return planned, image.lock.recipe or image.version

    def matrix_here(self, where: Here, matrix: RecipeMatrix) -> SmokeResult:
        """Run the points of a matrix on this machine, one after the other."""
        context, machine = self.context, this_machine()
        engine, kind = engine_here(context, where.engine, machine)
        matrix = matrix.here(machine, kind, context.progress)
        with ExitStack() as stack:
            planned = self._plan_points(matrix, stack)
            for one in planned:
                models, version = self.options.models(one.smoke).values(), one.trees.version
                refuse_missing(context, one.smoke.needs, models, machine, kind, [version])

            def make(points: Sequence[PointRun]) -> list[SmokeRecord]:
                records = []
                for point in points:
                    with ExitStack() as engines:
                        target = open_target(context, point.trees, engine, engines)
                        tell = self._prefix(point.name)
                        record = run_smoke(
                            point.request, target, point.workdir, context.progress, tell
                        )
                    if interrupted_in(record):
                        raise KeyboardInterrupt
                    records.append(record)
                return records

            return self._collect(planned, f"{self.request.recipe}-{kind}", make, engine)

    def _prefix(self, point: str) -> OnResult:
        return lambda phase, what, checks: self.on_result(phase, f"{point}: {what}", checks)

    def _plan_points(self, matrix: RecipeMatrix, stack: ExitStack) -> list[_Planned]:
        """Plan all points of a matrix.

        Raises:
            VpatchError: a patch stops in some of them; the error names all of that.
        """
        plan = self.options.plan_of(self.context, self.request.recipe)
        jobs = [job for point in matrix.points for job in point.jobs]
        self.context.require_trust([patch for job in jobs for patch in job.patches], plan)
        smoke = smoke_plan_of(self.context, plan)
        planned: list[_Planned] = []
        errors: list[VpatchError] = []
        for point in matrix.points:
            try:
                trees = planned_trees(self.context, point.jobs, stack, asked_for=False)
            except VpatchError as error:
                errors.append(error)
            else:
                subject = subject_trees(trees.plans)
                planned.append(_Planned(point, trees, matrix.plan_at(smoke, point.needs), subject))
        if errors:
            raise combine(distinct(errors))
        return planned

    def _collect(
        self,
        planned: Sequence[_Planned],
        title: str,
        make: Callable[[Sequence[PointRun]], list[SmokeRecord]],
        engine: str | None = None,
    ) -> SmokeResult:
        """Let `make` run all points, and write their evidence into a new folder."""
        name = self.options.name or dated(title)
        numbered = self.options.name is None
        with collected(self.root, name, numbered=numbered) as collecting:
            folder = collecting.workdir
            runs = [self._run(one, collecting.name, folder, engine) for one in planned]
            records = make(runs)
            if self.matrix is None:
                (record,) = records
            else:
                record = self._join(planned, records, collecting.name)
                write_evidence(folder, record)
        return SmokeResult(record, self.root / collecting.name)

    def _run(self, one: _Planned, name: str, folder: Path, engine: str | None) -> PointRun:
        asked = asked_of(self.context, self.request, self.options)
        if engine is not None:
            asked["engine"] = engine
        if one.trees.image is not None:
            asked["plan"] = one.plan
        point = one.point
        if point is not None:
            asked["point"] = point.name
            folder = folder / POINTS / point.slug
            (folder / LOGS).mkdir(parents=True)
        name = point.slug if point else name
        request = self.options.smoke_request(
            self.context, name, one.smoke, this_machine(), one.subject, asked
        )
        return PointRun(request, one.trees, folder, point.name if point else "")

    def _join(
        self, planned: Sequence[_Planned], records: Sequence[SmokeRecord], name: str
    ) -> SmokeRecord:
        points = [one.point for one in planned if one.point is not None]
        named = [
            {"name": point.name, "folder": f"{POINTS}/{point.slug}", **point.names}
            for point in points
        ]
        plan = smoke_plan_of(self.context, self.options.plan or self.request.recipe)
        return joined(records, named, name=name, plan=plan)
