"""The use case `bench`: put loads on servers, and write a record with tables and a page."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bench.plan import Overrides, numbers, shape_from
from vpatch.commands.bench.run import BenchRequest, datasets_of, run, write_shown
from vpatch.commands.bench.sides import Opening, subjects_of
from vpatch.errors import ConflictingOptionsError
from vpatch.evidence.collecting import collected, dated, refuse_name
from vpatch.harness.machine import this_machine
from vpatch.runs.cluster_options import OnCluster, RunOptions
from vpatch.runs.matrix import matrix_of
from vpatch.util.extras import require
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from vpatch.commands.bench.measure import LoadRun
    from vpatch.commands.bench.schema import BenchRecord, PointRecord
    from vpatch.commands.bench.sides import Subjects
    from vpatch.errors import VpatchError
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request

_KIND = "a benchmark"


@dataclass(frozen=True)
class BenchOptions(RunOptions):
    """What is measured, and what is measured otherwise than the plan says.

    Attributes:
        engine: `cpu`, `cuda`, or the path of a Python; by default `cuda` if there is a GPU.
        image: the tag of an image that `vpatch build-image` built.
        urls: servers that run, one for each k.
        before: whether the pristine trees are measured too, as the first side.
        compare: two sides, as `A,B`: versions or folders, `pristine:VERSION`, `image:TAG`, URLs.
        plan: the recipe whose benchmark plan is taken; by default that of the source.
        model: a checkpoint instead of the plan's.
        k: numbers of speculative tokens, as `0,2` or `0..3`.
        concurrency: numbers of requests at once, as `1,4,8`.
        shapes: input and output tokens of random prompts, as `1024/128`.
        prompts: the number of prompts for each of the concurrent requests.
        repeats: how often each load is measured.
        port: the port of the servers; by default a free one.
        name: the name of the record; by default the recipe, the engine and the time.
        on: the address of a Ray cluster that measures, instead of this machine.
        attempts: how often a job is tried there, before its loss is a fault.
        resume: whether what an earlier run measured is taken from there.
        storage: where nodes of a cluster leave large files, as fsspec names it.
    """

    urls: tuple[str, ...] = ()
    before: bool = False
    compare: str | None = None
    plan: str | None = None
    model: str | None = None
    k: str | None = None
    concurrency: str | None = None
    shapes: tuple[str, ...] = ()
    prompts: int | None = None
    repeats: int | None = None
    port: int | None = None
    name: str | None = None

    def overrides(self) -> Overrides:
        """Read the texts.

        Raises:
            UsageError: a text is not what it should be.
        """
        return Overrides(
            self.model,
            numbers("--k", self.k, least=0),
            numbers("--concurrency", self.concurrency, least=1),
            tuple(shape_from(text) for text in self.shapes),
            self.prompts,
            self.repeats,
        )


@dataclass(frozen=True)
class BenchResult:
    """A record that was written: `record` is its content, `folder` is where it is.

    `failure` is what ended the run early, None if nothing did. What was measured until then is in
    the record.
    """

    record: BenchRecord
    folder: Path
    failure: KeyboardInterrupt | VpatchError | None

    @property
    def faults(self) -> list[PointRecord]:
        """The points that could not be measured."""
        return [point for point in self.record.points if point.fault is not None]


def bench(
    context: Context,
    request: Request,
    options: BenchOptions,
    root: Path,
    *,
    on_result: Callable[[str, LoadRun], None] | None = None,
) -> BenchResult:
    """Measure what is asked for, and write the record into a new folder of `root`.

    Args:
        context: the project, its library and the cache.
        request: the source and its patches; empty where the options name what is measured.
        options: what is measured, and how.
        root: the folder of all records.
        on_result: called after each load with the name of its side and the result.

    Raises:
        UsageError: the options contradict each other, or make no plan.
        VpatchError: the run could not be begun.
    """
    on_result = on_result or (lambda *_: None)
    where = options.where(url=options.urls or None, port=options.port)
    if options.name is not None:
        refuse_name(root, options.name, _KIND)
    overrides = options.overrides()
    if options.plan is not None:
        overrides.refuse_without_plan(context, options.plan)
    asked = _option_values(request, options)
    subjects = subjects_of({**asked, "port": options.port}, request)
    with ExitStack() as stack:
        named = options.plan or request.recipe
        matrix = None if options.compare or options.image else matrix_of(context, request)
        if matrix is not None and options.before:
            matrix = matrix.with_pristine()
        opening = Opening(
            *(context, request, where.engine, named, overrides, this_machine(), stack, matrix)
        )
        if isinstance(where, OnCluster):
            return _on_cluster(opening, subjects, options, where, asked, root, on_result)
        plan, sides, title = opening.open(subjects)
        datasets, digests = datasets_of(plan), context.cache.answers("checkpoints")
        name = options.name or dated(title)
        collecting = stack.enter_context(
            collected(root, name, _KIND, numbered=options.name is None)
        )
        bench_request = BenchRequest(
            collecting.name, _redact(asked), plan, datasets, sides, options.port, digests
        )
        record, failure = run(bench_request, collecting.workdir, context.progress, on_result)
    # It is in its place by now: whatever becomes of the rest, hours of measuring are not lost.
    write_shown(root / collecting.name, record)
    return BenchResult(record, root / collecting.name, failure)


def _on_cluster(
    opening: Opening,
    subjects: Subjects,
    options: BenchOptions,
    where: OnCluster,
    asked: Mapping[str, str | int | tuple[str, ...] | None],
    root: Path,
    on_result: Callable[[str, LoadRun], None],
) -> BenchResult:
    """Measure on the nodes of a cluster. Here the trees are planned, and nothing runs."""
    require("ray", "`--cluster`")
    # Only these runs need it.
    from vpatch.cluster.connection import address_of  # noqa: PLC0415
    from vpatch.commands.bench.cluster import ClusterBench, run_bench_on_cluster  # noqa: PLC0415

    address_of(where.address)
    if subjects.kind == "servers":
        raise ConflictingOptionsError(
            "--compare of servers and --cluster exclude each other",
            where=options.compare,
            hint="compare versions, folders or images",
        )
    context = opening.context
    plan, sides, title = opening.planned(subjects)
    digests = context.cache.answers("checkpoints")
    name = options.name or dated(title)
    with collected(root, name, _KIND, numbered=options.name is None) as collecting:
        bench_request = ClusterBench(collecting.name, _redact(asked), plan, sides, digests)
        record, failure = run_bench_on_cluster(
            bench_request, where, root, collecting.workdir, context.progress, on_result
        )
    write_shown(root / collecting.name, record)
    return BenchResult(record, root / collecting.name, failure)


def _option_values(
    request: Request, options: BenchOptions
) -> dict[str, str | int | tuple[str, ...] | None]:
    """What was asked for, by the names of the command's options."""
    return {
        "vllm": request.vllm,
        "recipe": request.recipe,
        "tree": request.trees,
        "patch": request.patches,
        "engine": options.engine,
        "image": options.image,
        "url": options.urls,
        "before": options.before,
        "compare": options.compare,
        "plan": options.plan,
        "model": options.model,
        "k": options.k,
        "concurrency": options.concurrency,
        "shape": options.shapes,
        "prompts": options.prompts,
        "repeats": options.repeats,
        "on": options.on,
    }


def _redact(
    asked: Mapping[str, str | int | tuple[str, ...] | None],
) -> dict[str, str | int | list[str]]:
    """What was asked for, as JSON has it, and without passwords in addresses."""

    def plain(value: str | int | tuple[str, ...]) -> str | int | list[str]:
        if isinstance(value, int):
            return value
        return [redact(one) for one in value] if isinstance(value, tuple) else redact(value)

    return {name: plain(value) for name, value in asked.items() if value}
