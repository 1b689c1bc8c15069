"""Tree -> evidence: the phases of a smoke run in an engine, and what they leave."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from vpatch.commits import overall_changes
from vpatch.engine import INSIDE
from vpatch.engine.overlay import as_released, on_top
from vpatch.errors import VpatchError
from vpatch.smoke.checks import Check
from vpatch.smoke.container import ContainerSite
from vpatch.smoke.evidence import ENVIRONMENT, LOGS, write_evidence
from vpatch.smoke.imports import run_imports
from vpatch.smoke.models import prepare
from vpatch.smoke.record import Ran, record_of
from vpatch.smoke.run import Place, run_phase
from vpatch.smoke.site import lay_over, own_changes, run_in
from vpatch.smoke.syntax import refuse_syntax_errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.declare.smoke import Model, Smoke
    from vpatch.docker.engine import Docker
    from vpatch.engine.environment import Engine
    from vpatch.outcome import Change, Plan
    from vpatch.patch import Patch
    from vpatch.progress import Progress
    from vpatch.smoke.cells import Cell
    from vpatch.smoke.machine import Machine
    from vpatch.smoke.run import CellResult, Phase
    from vpatch.smoke.site import Site

# Is told of the phase, what was looked at, and the checks of it.
Tell = Callable[[str, str, Sequence[Check]], None]
_ENVIRONMENT_SECONDS = 300.0


@dataclass(frozen=True)
class Order:
    """A smoke run to make. `subject` is what it is about, in digests; `port` is for servers.

    `patches` are those whose symptoms are looked for in the logs. `digests` is the cache's folder
    that remembers the digests of large files.
    """

    name: str
    asked: Mapping[str, Any]
    subject: Sequence[Mapping[str, Any]]
    smoke: Smoke
    models: Mapping[str, Model]
    cells: Sequence[Cell]
    machine: Machine
    patches: Sequence[Patch]
    before: bool
    port: int | None
    digests: Path | None = None


class Ground(Protocol):
    """What an order is run on: `kind` is cpu, cuda, or what a plugin calls its device.

    `version` is vLLM's; `image` says which one it is where it is one.
    """

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def image(self) -> Mapping[str, Any] | None: ...

    def site(self, phase: Phase, work: Path, name: str | None = None) -> Site:
        """Make the site of a phase; what it needs is written below `work`, in a folder `name`."""


@dataclass(frozen=True)
class EngineGround:
    """An engine of this machine, over which the trees' plans are laid, vLLM's first.

    `files` are each tree's own Python files, where it is no release, and none where it is one.
    """

    engine: Engine
    plans: Sequence[Plan]
    files: Sequence[Mapping[str, bytes]]
    image: None = None

    @property
    def kind(self) -> str:
        return self.engine.kind

    @property
    def version(self) -> str:
        return self.engine.version

    @cached_property
    def _own(self) -> list[dict[str, Change]]:
        """What the trees' own files change; every file of a package is read for it."""
        packages = self.engine.package.parent
        found = [own_changes(files, packages) for files in self.files]
        if any(found):
            refuse_syntax_errors(self.engine.python, found)
        return [
            own or (as_released(self.engine, plan) if plan.pin.kind == "pypi" else {})
            for own, plan in zip(found, self.plans, strict=True)
        ]

    def site(self, phase: Phase, work: Path, name: str | None = None) -> Site:
        changes = self._own
        if phase == "after":
            changes = [
                on_top(own, overall_changes(plan))
                for own, plan in zip(changes, self.plans, strict=True)
            ]
        return lay_over(self.engine, changes, _folder(work, name or phase))


@dataclass(frozen=True)
class ImageGround:
    """A patched image. `digests` are those of the files that were laid over it; see `Site`.

    `folders` are further ones that its containers are to see, as checkpoints.
    """

    docker: Docker
    image: Mapping[str, Any]
    kind: str
    version: str
    digests: Mapping[str, str]
    folders: Sequence[Path]
    gpus: bool

    def site(self, phase: Phase, work: Path, name: str | None = None) -> Site:  # noqa: ARG002
        # There is one phase, and nothing is laid over it.
        seen = {str(folder): "ro" for folder in [*self.folders, INSIDE]}
        return ContainerSite(
            self.docker, self.image["id"], self.digests, {**seen, str(work): "rw"}, self.gpus
        )


def prove(
    order: Order,
    ground: Ground,
    room: Path,
    progress: Progress,
    tell: Tell,
) -> dict[str, Any]:
    """Run an order on its ground, and write evidence to `room`; `tell` gets what was found.

    Raises:
        OverlayError: the engine's packages are not those of the trees.
        VpatchError: the run could not be made.
    """
    made = datetime.now(UTC).isoformat(timespec="seconds")
    phases: list[Phase] = ["before", "after"] if order.before else ["after"]
    try:
        with tempfile.TemporaryDirectory(prefix="vpatch-") as name:
            ran = _run(order, ground, room, Path(name), progress, tell, phases, made)
        record = record_of(ran)
        write_evidence(room, record)
    except OSError as error:
        raise VpatchError(
            f"the run could not be made: {error}",
            where=str(room),
            todo="free space there and in the folder for temporary files (or name it with TMPDIR)",
        ) from error
    return record


def _run(
    order: Order,
    ground: Ground,
    room: Path,
    work: Path,
    progress: Progress,
    tell: Tell,
    phases: Sequence[Phase],
    made: str,
) -> Ran:
    sites = {phase: ground.site(phase, work) for phase in phases}
    task = progress.start(f"Preparing {', '.join(order.models)}")
    folder = _folder(work, "models")
    used = {cell.model for cell in order.cells}
    checkpoints = {
        name: prepare(name, model, sites["after"], folder, order.digests)
        for name, model in order.models.items()
        if name in used
    }
    task.done()
    imports: dict[Phase, Sequence[Check]] = {}
    results: list[CellResult] = []
    for phase in phases:
        place = Place(phase, sites[phase], checkpoints, room / LOGS, work, order.port)
        imports[phase] = run_imports(
            order.smoke.imports,
            sites[phase],
            order.cells[0].environment,
            _folder(work, f"imports-{phase}"),
            room / LOGS / f"{phase}-imports.log",
        )
        for check in imports[phase]:
            tell(phase, check.name, [check])

        def begin(number: int, count: int, cell: Cell, phase: Phase = phase) -> Callable[[], None]:
            return progress.start(f"{phase}, {number} of {count}: {cell.name}").done

        def found(result: CellResult, phase: Phase = phase) -> None:
            tell(phase, result.cell.name, result.checks)

        results += run_phase(place, order.cells, begin, found)
    task = progress.start("Collecting the environment")
    command: list[str | Path] = [sites["after"].python, "-m", "vllm.collect_env"]
    ended = run_in(
        sites["after"],
        command,
        room=work,
        log=room / ENVIRONMENT,
        further={},
        timeout=_ENVIRONMENT_SECONDS,
    )
    task.done()
    if ended.code != 0:
        progress.note(f"vllm.collect_env ended with {ended.code}; see {ENVIRONMENT}")
    return Ran(
        name=order.name,
        made=made,
        asked=order.asked,
        subject=order.subject,
        plan=order.smoke,
        ground=ground,
        machine=order.machine,
        checkpoints=checkpoints,
        imports=imports,
        results=results,
        patches=order.patches,
    )


def _folder(work: Path, name: str) -> Path:
    made = work / name
    made.mkdir()
    return made
