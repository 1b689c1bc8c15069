"""A job on a node of a cluster, as a process of its own: `python -m vpatch.node FOLDER`.

`FOLDER/job.json` says what to do, and `FOLDER/sent` has the trees. What comes of it is written to
`FOLDER/out`. The guard of the job ends the process, with all that it started.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.cluster.job import LOG, REFUSED, RESULT
from vpatch.cluster.storage import Storage
from vpatch.commands.smoke.cells import Cell
from vpatch.commands.smoke.imports import run_imports
from vpatch.commands.smoke.run import run_cell
from vpatch.declare.smoke import Imports, Model
from vpatch.engine.environment import existing_engine, managed_engine
from vpatch.engine.kinds import KINDS
from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.harness.machine import this_machine
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import locate, prepare, seen_folder
from vpatch.harness.sandbox import inherited, run_in
from vpatch.harness.target import EngineTarget
from vpatch.harness.wire import from_json, to_json
from vpatch.progress import Silent
from vpatch.runs.node_image import ImageName, image_on_node
from vpatch.runs.packed_trees import unpacked
from vpatch.runs.targets import image_target
from vpatch.source.cache import Cache, default_cache_folder
from vpatch.util import child_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vpatch.engine.environment import Engine
    from vpatch.harness.measured import Measured
    from vpatch.harness.target import ExecutionTarget

_ENVIRONMENT_SECONDS = 300.0


def main(folder: Path) -> None:
    """Do the job of a work folder."""
    given = _keep_what_is_needed()
    job = json.loads((folder / "job.json").read_bytes())
    out = folder / "out"
    try:
        found = _DO[job["do"]](job, folder, out)
    except VpatchError as error:
        told = {"what": str(error), "code": error.code}
        (out / REFUSED).write_text(json.dumps(told), encoding="utf-8")
        return
    found |= {"machine": to_json(this_machine()), "inherited": inherited()}
    if job.get("storage") is not None:
        # No engine runs any more, so the node's own credentials for the storage may come back.
        os.environ.update(given)
        if job["do"] == "look":
            _answer_probe(job["storage"], found)
    (out / RESULT).write_text(json.dumps(found), encoding="utf-8")
    if job.get("storage") is not None:
        try:
            Storage(job["storage"]).leave(out, os.environ["VPATCH_JOB"], {RESULT})
        except VpatchError as error:
            # The driver shows the last line of a job's output.
            sys.exit(error.what)


def _answer_probe(url: str, found: dict[str, Any]) -> None:
    try:
        found["probe"] = Storage(url).answer_probe()
    except VpatchError as error:
        found["problems"]["storage"] = error.what


def _keep_what_is_needed() -> dict[str, str]:
    """Keep only the variables that an engine needs: no tokens.

    Return what there was.
    """
    given = dict(os.environ)
    kept = child_environment.environment_of_a_node()
    os.environ.clear()
    os.environ.update(kept)
    return given


def _look(job: dict[str, Any], folder: Path, _out: Path) -> dict[str, Any]:
    """Say what this node has: checkpoints with their digests, and what its engine runs on."""
    found: dict[str, Any] = {"models": {}, "engine": None, "images": {}, "problems": {}}
    digests = Cache(default_cache_folder()).answers("checkpoints")
    for name, declared in job["models"].items():
        try:
            place = locate(Model.model_validate(declared))
        except VpatchError as error:
            found["problems"][name] = str(error)
            continue
        found["models"][name] = place and digest_of_checkpoint(place, digests)
    if job["engine"] is not None and job["engine"] not in KINDS:
        try:
            engine = existing_engine(job["engine"])
        except VpatchError as error:
            found["problems"]["engine"] = str(error)
        else:
            found["engine"] = {"kind": engine.kind, "version": engine.version}
    for named in job["images"]:
        image = ImageName(**named)
        try:
            with ExitStack() as stack:
                seen, _, _ = image_on_node(image, folder, stack)
        except VpatchError as error:
            found["problems"][image.name] = str(error)
        else:
            found["images"][image.name] = seen.kind
    return found


@contextmanager
def _target(
    job: dict[str, Any], folder: Path, model: Any = None, files: Sequence[Path] = ()
) -> Iterator[ExecutionTarget]:
    """What a cell runs on: an engine with the trees of the job, or an image as it is.

    The containers of an image also see the checkpoint of a declared model, and `files`.
    """
    with ExitStack() as stack:
        if job["image"] is not None:
            found, docker, gpus = image_on_node(ImageName(**job["image"]), folder, stack)
            place = None if model is None else locate(Model.model_validate(model))
            seen = [*files, *([] if place is None else [seen_folder(place)])]
            yield image_target(found, docker, seen, gpus=gpus)
        else:
            engine = stack.enter_context(_engine(job))
            yield EngineTarget(engine, unpacked(job["trees"], folder / "sent"))


@contextmanager
def _engine(job: dict[str, Any]) -> Iterator[Engine]:
    typed, version = job["engine"], job["version"]
    kind = KINDS.get(typed)
    if kind is None:
        found = existing_engine(typed)
        if found.version != version:
            raise UsageError(
                f"it has vLLM {found.version}, not {version}",
                where=typed,
                hint=f"give --vllm {found.version}, or another Python",
                code="engine.wrong-version",
            )
        yield found
        return
    with managed_engine(kind, version, default_cache_folder(), Silent()) as managed:
        yield managed


def _cell(job: dict[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    work, cell = folder / "tmp", from_json(Cell, job["cell"])
    with _target(job, folder, job["model"]) as target:
        sandbox = target.sandbox(job["phase"], work, "site")
        (work / "models").mkdir()
        digests = Cache(default_cache_folder()).answers("checkpoints")
        model = prepare(
            cell.model, Model.model_validate(job["model"]), sandbox, work / "models", digests
        )
        if job["digest"] not in {None, model.digest}:
            raise UnavailableError(
                f"the checkpoint {cell.model} is {model.digest} here, not {job['digest']}",
                where=model.described,
                hint="give every node the same files",
                code="cluster.model-differs",
            )
        measured = run_cell(cell, model.folder, sandbox, work, out / LOG)
    return {
        "measured": to_json(measured),
        "hangs": _hangs(measured),
        "digests": dict(sandbox.digests),
        "model": {
            "described": model.described,
            "digest": model.digest,
            "acceptance": model.acceptance,
        },
        "engine": {"kind": target.kind, "version": target.version},
    }


def _hangs(measured: Measured) -> str | None:
    """Say why a cell is worth an attempt on another node; None if it is not."""
    fault = measured.fault
    return str(fault) if fault is not None and fault.hangs else None


def _imports(job: dict[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    work, environment = folder / "tmp", folder / "environment"
    with _target(job, folder) as target:
        sandbox = target.sandbox(job["phase"], work, "site")
        (work / "imports").mkdir()
        imports = Imports.model_validate_json(job["imports"])
        checks = run_imports(imports, sandbox, job["environment"], work / "imports", out / LOG)
        if job["phase"] == "after":
            run_in(
                sandbox,
                [sandbox.python, "-m", "vllm.collect_env"],
                workdir=work,
                log=environment,
                extra_env={},
                timeout=_ENVIRONMENT_SECONDS,
            )
    return {
        "environment": environment.read_text("utf-8", "replace") if environment.exists() else None,
        "checks": [[check.name, check.verdict, check.figure, check.reason] for check in checks],
        "engine": {"kind": target.kind, "version": target.version},
    }


def _bench(job: dict[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    # Only these jobs need it.
    from vpatch.commands.bench.node import measured_on_node  # noqa: PLC0415

    model, datasets = job["plan"]["models"][job["model"]], folder / "sent" / "datasets"
    with _target(job, folder, model, [datasets] if datasets.is_dir() else []) as target:
        return measured_on_node(job, target, folder, out, out / LOG)


def _proof(job: dict[str, Any], folder: Path, out: Path) -> dict[str, Any]:
    # As above.
    from vpatch.commands.proofs.node import tested_on_node  # noqa: PLC0415

    with _engine(job) as engine:
        return tested_on_node(job, engine, folder, out)


_DO: dict[str, Callable[[dict[str, Any], Path, Path], dict[str, Any]]] = {
    "bench": _bench,
    "look": _look,
    "cell": _cell,
    "imports": _imports,
    "proof": _proof,
}

if __name__ == "__main__":
    main(Path(sys.argv[1]))
