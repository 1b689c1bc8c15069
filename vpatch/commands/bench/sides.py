"""What a benchmark measures: trees on an engine, images, or servers that were there before."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal, cast

from vpatch.commands.bench.cells import LETTERS
from vpatch.commands.bench.run import Answering, Opened
from vpatch.commands.bench.schema import MachineRecord, Server, Side, TreeRecord
from vpatch.commands.bench.servers import look_at
from vpatch.declare.smoke import Needs
from vpatch.engine.kinds import KINDS
from vpatch.errors import (
    BadValueError,
    ConflictingOptionsError,
    MissingOptionError,
    UnusedOptionError,
    UsageError,
)
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import RunEngine, RunImage
from vpatch.evidence.subject import digest_of_subject, subject_trees, subject_trees_of_locks
from vpatch.harness.models import ModelError, given, locate
from vpatch.harness.sandbox import inherited
from vpatch.runs.matrix import MatrixPoint, merged_needs
from vpatch.runs.targets import (
    engine_here,
    engine_target,
    folders_to_show,
    image_target,
    look_at_image,
    planned_trees,
    refuse_missing,
    release_asked,
    require_trust_in_folders,
    trees_in_image,
)
from vpatch.util.urls import redact
from vpatch.workspace import selection
from vpatch.workspace.context import open_engine

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from vpatch.commands.bench.plan import Overrides
    from vpatch.commands.bench.servers import RunningServer
    from vpatch.declare.bench import Bench
    from vpatch.docker.engine import Docker
    from vpatch.engine.environment import Engine
    from vpatch.evidence.records import SubjectTree
    from vpatch.harness.machine import Machine
    from vpatch.harness.target import ExecutionTarget
    from vpatch.image.running import PatchedImage
    from vpatch.runs.matrix import RecipeMatrix
    from vpatch.runs.targets import PlannedTrees
    from vpatch.workspace.context import Context
    from vpatch.workspace.selection import Request, Selection

    # The plan, the sides, and a title.
    _Opened = tuple[Bench, Sequence[Opened | Answering], str]

Kind = Literal["trees", "images", "servers"]
_IMAGE, _PRISTINE = "image:", "pristine:"
_KEY = "OPENAI_API_KEY"
_PATIENCE = 60.0
_PAIR = 2
_WHY = {
    "trees": "--compare names both",
    "images": "an image says itself what is in it, and its own vLLM runs",
    "servers": "a running server has all of that already",
}


@dataclass(frozen=True)
class Subjects:
    """What is measured, side by side, as it was said; a side of servers has one for each k."""

    kind: Kind
    sides: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PlannedSide:
    """A side of trees that engines elsewhere will run: `what` it is in words, and its digests.

    Of a matrix, it has its point, and needs of its own.
    """

    trees: PlannedTrees
    what: str
    subject: list[SubjectTree]
    needs: Needs
    point: dict[str, str] | None = None

    @property
    def digest(self) -> str:
        return digest_of_subject(self.subject)


def subjects_of(
    asked: Mapping[str, str | int | tuple[str, ...] | None], request: Request
) -> Subjects:
    """Say what the options mean.

    Raises:
        UsageError: they contradict each other, or one of them would be ignored.
    """
    sources = [f"--{name}" for name in ("image", "url", "compare") if asked[name]]
    if len(sources) > 1:
        raise ConflictingOptionsError(
            f"{' and '.join(sources)} exclude each other", hint="give one of them"
        )
    if asked["compare"]:
        subjects = _parse_pair(str(asked["compare"]))
    elif asked["image"]:
        subjects = Subjects("images", ((str(asked["image"]),),))
    elif asked["url"]:
        subjects = Subjects("servers", (tuple(cast("Iterable[str]", asked["url"])),))
    else:
        vllm = request.vllm or ""
        pristine = ((f"{_PRISTINE}{vllm}",),) if asked["before"] else ()
        return Subjects("trees", (*pristine, (vllm,)))
    meaningless = {
        "trees": ("vllm", "before") if asked["compare"] else (),
        "images": ("vllm", "recipe", "tree", "patch", "engine", "before"),
        "servers": ("tree", "patch", "k", "port", "before"),
    }
    idle = [f"--{name}" for name in meaningless[subjects.kind] if asked[name]]
    if request.library and subjects.kind != "trees":
        idle.append("--library")
    if idle:
        raise UnusedOptionError(
            f"{' and '.join(idle)} would have no effect with {sources[0]}",
            where=redact(", ".join(side for sides in subjects.sides for side in sides)),
            hint=f"leave out {' and '.join(idle)}: {_WHY[subjects.kind]}",
        )
    return subjects


def _parse_pair(text: str) -> Subjects:
    sides = [side.strip() for side in text.split(",")]
    kinds = {_kind_of(side) for side in sides}
    if len(sides) != _PAIR or "" in sides or len(kinds) > 1:
        raise BadValueError(
            f"{redact(text)!r} does not name two sides of one kind",
            where="--compare",
            hint="give two versions or folders, two of image:TAG, or two URLs of servers",
        )
    (kind,) = kinds
    if kind != "trees" and len(set(sides)) < _PAIR:
        raise BadValueError(
            "both sides are the same", where=redact(text), hint="name two different ones"
        )
    return Subjects(kind, tuple((side.removeprefix(_IMAGE),) for side in sides))


@dataclass(frozen=True)
class Opening:
    """What the command line says, as far as it is the same for all sides."""

    context: Context
    request: Request
    engine: str | None
    recipe: str | None
    overrides: Overrides
    machine: Machine
    stack: ExitStack
    matrix: RecipeMatrix | None = None

    def open(self, subjects: Subjects) -> _Opened:
        """Open the sides for this machine; return plan, sides, and a title."""
        by_kind = {"trees": self._trees, "images": self._images, "servers": self._servers}
        return by_kind[subjects.kind](subjects.sides)

    def _trees(self, sides: Sequence[Sequence[str]]) -> _Opened:
        engine, kind = engine_here(self.context, self.engine, self.machine)
        matrix = self.matrix and self.matrix.here(self.machine, kind, self.context.progress)
        points = matrix.points if matrix else self._points(sides)
        bench, recipe = self._plan(points)
        for point in points:
            needed = bench.model_copy(update={"needs": merged_needs(bench.needs, point.needs)})
            self._refuse_missing(needed, kind, [release_asked(one.jobs) for one in points])
        opened = [self._open_trees(point, engine) for point in points]
        return bench, opened, f"{recipe or opened[0].vllm}-{kind}"

    def _plan(self, points: Sequence[MatrixPoint]) -> tuple[Bench, str | None]:
        """The plan, and the name of the recipe whose trees are measured."""
        if len(points) > len(LETTERS):
            raise UsageError(
                f"{len(points)} points of a matrix are too many: each gets a letter",
                where=self.request.recipe,
                hint="measure a part of the matrix at a time",
                code="bench.too-many-sides",
            )
        recipe = self.request.recipe if self.matrix else points[0].jobs[0].recipe
        named = self.recipe or recipe
        jobs = [job for point in points for job in point.jobs]
        self.context.require_trust([patch for job in jobs for patch in job.patches], named)
        plan = self.overrides.plan(self.context, named)
        return (self.matrix.plan_at(plan, Needs()) if self.matrix else plan), recipe

    def _refuse_missing(self, bench: Bench, kind: str, releases: Iterable[str | None]) -> None:
        models = bench.models.values()
        refuse_missing(self.context, bench.needs, models, self.machine, kind, releases)

    def planned(self, subjects: Subjects) -> tuple[Bench, list[PlannedSide], str]:
        """Plan the sides for other machines; return plan, sides, and a title."""
        if subjects.kind == "images":
            return self._plan_images(name for (name,) in subjects.sides)
        points = self.matrix.points if self.matrix else self._points(subjects.sides)
        bench, recipe = self._plan(points)
        sides = []
        for point in points:
            trees = planned_trees(
                self.context, point.jobs, self.stack, asked_for=bool(self.request.patches)
            )
            subject = subject_trees(trees.plans)
            needs = merged_needs(bench.needs, point.needs)
            what = _in_words(trees.version, subject, point)
            sides.append(PlannedSide(trees, what, subject, needs, point.names or None))
        title = recipe or sides[0].trees.version
        return bench, sides, f"{title}-{self.engine or 'cluster'}"

    def _look_at(
        self, names: Iterable[str]
    ) -> tuple[list[tuple[PatchedImage, Docker]], str | None, Bench, list[str]]:
        """Ask images what they are; return them, the recipe of the plan, the plan and its files."""
        gpus = bool(self.machine.gpus)
        images = [look_at_image(name, self.stack, gpus=gpus) for name in names]
        plan = self.recipe or images[0][0].lock.recipe
        bench = self.overrides.plan(self.context, plan)
        files = [shape.path for shape in bench.shapes if shape.path is not None]
        return images, plan, bench, files

    def _plan_images(self, names: Iterable[str]) -> tuple[Bench, list[PlannedSide], str]:
        images, plan, bench, files = self._look_at(names)
        first, _ = images[0]
        named = self.overrides.model is not None
        require_trust_in_folders(self.context, plan, bench.models.values(), files, named=named)
        sides = [
            PlannedSide(
                trees_in_image(image),
                _image_in_words(image),
                subject_trees_of_locks(*image.locks),
                bench.needs,
            )
            for image, _ in images
        ]
        return bench, sides, f"{first.lock.recipe or first.version}-image"

    def _points(self, sides: Sequence[Sequence[str]]) -> list[MatrixPoint]:
        """Sides without a matrix."""
        return [MatrixPoint(None, None, None, Needs(), self._jobs(vllm)) for (vllm,) in sides]

    def _jobs(self, vllm: str) -> list[Selection]:
        """What a side of trees means; `pristine:VERSION` is one without its patches."""
        library, request = self.context.library, replace(self.request, vllm=vllm or None)
        if not vllm.startswith(_PRISTINE):
            jobs = selection.resolve(request, library)
            selection.note_library(self.context, jobs)
            return jobs
        without = replace(request, vllm=vllm.removeprefix(_PRISTINE) or None, patches=())
        return [replace(job, patches=()) for job in selection.resolve(without, library)]

    def _open_trees(self, point: MatrixPoint, engine: str) -> Opened:
        target, plans, version = engine_target(
            self.context, point.jobs, engine, self.stack, asked_for=bool(self.request.patches)
        )
        subject = subject_trees(plans)
        return self._open_side(_in_words(version, subject, point), subject, target, point.names)

    def _images(self, sides: Sequence[Sequence[str]]) -> _Opened:
        images, plan, bench, files = self._look_at(name for (name,) in sides)
        first, _ = images[0]
        self._refuse_missing(bench, first.kind, [image.version for image, _ in images])
        seen = folders_to_show(
            self.context, plan, bench.models.values(), files, named=self.overrides.model is not None
        )
        opened = []
        for image, docker in images:
            target = image_target(image, docker, seen, gpus=bool(self.machine.gpus))
            subject = subject_trees_of_locks(*image.locks)
            opened.append(self._open_side(_image_in_words(image), subject, target))
        return bench, opened, f"{first.lock.recipe or first.version}-{first.kind}-image"

    def _open_side(
        self,
        what: str,
        subject: list[SubjectTree],
        target: ExecutionTarget,
        point: dict[str, str] | None = None,
    ) -> Opened:
        described = Side(
            name="",
            what=what,
            machine=self._machine_record(),
            # A container gets none of it.
            inherited={} if target.image else inherited(),
            digest=digest_of_subject(subject),
            subject=tree_records(subject),
            engine=RunEngine(kind=target.kind, vllm=target.version),
            image=target.image and RunImage.model_validate(target.image),
            point=point or None,
        )
        return Opened(target, described)

    def _machine_record(self) -> MachineRecord:
        return MachineRecord.model_validate(self.machine, from_attributes=True)

    def _servers(self, sides: Sequence[Sequence[str]]) -> _Opened:
        """Servers that run: an engine is opened for its `vllm bench serve` alone."""
        # Its environment is that of a process here, and its files go to the servers.
        self.context.require_trust((), self.recipe)
        looked_at = [[look_at(u, _PATIENCE, os.environ.get(_KEY)) for u in urls] for urls in sides]
        servers = [server for side in looked_at for server in side]
        _refuse_strangers(servers)
        first = servers[0]
        ks = sorted({server.k for server in servers})
        overrides = replace(self.overrides, model=self.overrides.model or _root_of(first))
        bench = overrides.plan(self.context, self.recipe, served=ks)
        tokenizer = self._tokenizer(first)
        engine, _ = engine_here(self.context, self.engine, self.machine)
        if engine in KINDS:
            version = self.request.vllm or (first.version or "").partition("+")[0]
            if not version:
                raise MissingOptionError(
                    "no option says which vLLM sends the loads", hint="give --vllm"
                )
            opened = self.stack.enter_context(open_engine(self.context, engine, version))
        else:
            opened = self.context.own_engine(engine)
        (name,) = bench.models
        answering = [self._describe_servers(side, tokenizer, opened) for side in looked_at]
        return bench, answering, f"{name}-url"

    def _tokenizer(self, server: RunningServer) -> Path:
        """Find what prompts are made with: that of --model, or of what a server says it serves."""
        try:
            folder = locate(given(self.overrides.model or _root_of(server)))
        except ModelError as error:
            if self.overrides.model:
                raise
            raise UsageError(
                f"the tokenizer of its model is not on this machine: {error.what}",
                where=server.client.url,
                hint="give --model PATH|ID: the prompts are made with its tokenizer",
                code="bench.no-tokenizer",
            ) from error
        return cast("Path", folder)  # None is for synthetic models, which cannot be given

    def _describe_servers(
        self, servers: Sequence[RunningServer], tokenizer: Path, engine: Engine
    ) -> Answering:
        by_k: dict[int, str] = {}
        for server in servers:
            if server.k in by_k:
                raise UsageError(
                    f"{by_k[server.k]} and {server.client.url} both have k={server.k}",
                    hint="to compare two servers, give --compare A,B",
                    code="bench.same-k",
                )
            by_k[server.k] = server.client.url
        described = Side(
            name="",
            what=", ".join(by_k[k] for k in sorted(by_k)),
            # The loads are sent from here; where a server runs is not known.
            machine=self._machine_record(),
            inherited={},
            digest=None,
            servers=[
                Server(
                    url=one.client.url, model=one.served, root=one.root, vllm=one.version, k=one.k
                )
                for one in servers
            ],
        )
        return Answering(servers, described, tokenizer, engine)


def tree_records(subject: Iterable[SubjectTree]) -> list[TreeRecord]:
    """Return what a side says of its subject."""
    return [TreeRecord.model_validate(document_of(tree)) for tree in subject]


def _in_words(version: str, subject: Sequence[SubjectTree], point: MatrixPoint) -> str:
    count = sum(len(tree.patches) for tree in subject)
    patches = f"{count} patch{'es' if count > 1 else ''}" if count else "no patches"
    hardware = f", on {point.hardware}" if point.hardware else ""
    return f"vLLM {version} with {patches}{hardware}"


def _image_in_words(image: PatchedImage) -> str:
    return f"image {image.name}, vLLM {image.version}"


def _root_of(server: RunningServer) -> str:
    if server.root is None:
        raise UsageError(
            "the server does not say where its model is from",
            where=server.client.url,
            hint="give --model PATH|ID: the prompts are made with its tokenizer",
            code="bench.no-tokenizer",
        )
    return server.root


def _refuse_strangers(servers: Sequence[RunningServer]) -> None:
    """Refuse servers of several models: nothing of what they do could be compared."""
    first = servers[0]
    for other in servers[1:]:
        names = [PurePath(str(server.root)).name for server in (first, other)]
        if names[0] != names[1]:
            raise UsageError(
                f"it serves {other.root}, and {first.client.url} serves {first.root}",
                where=other.client.url,
                hint="name servers of one model",
                code="bench.different-models",
            )


def _kind_of(side: str) -> Kind:
    if side.startswith(_IMAGE):
        return "images"
    scheme, _, rest = side.partition("://")
    path = rest.partition("/")[2]
    # A repository's has a reference after an @, or ends in .git.
    if scheme in {"http", "https"} and "@" not in path and not path.endswith(".git"):
        return "servers"
    return "trees"
