"""A cell with `vllm.LLM`, in a process of an engine's Python that is watched."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vpatch.engine import PAYLOAD
from vpatch.harness.faults import fault, start_hangs
from vpatch.harness.measured import (
    CACHED,
    PREEMPTIONS,
    Fault,
    Measured,
    Output,
    Pass,
    counters_from,
)
from vpatch.harness.memory import watched_memory

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.commands.smoke.cells import Cell
    from vpatch.engine.process import Running
    from vpatch.harness.sandbox import Sandbox

_SCRIPT = PAYLOAD / "generate.py"
_POLL_SECONDS = 0.2


@dataclass
class _Seen:
    """What the events of a process have told so far."""

    measured: Measured = field(default_factory=Measured)
    passes: dict[str, Pass] = field(default_factory=dict)
    done: bool = False

    def take(self, event: dict[str, Any]) -> None:
        match event.pop("event"):
            case "files":
                self.measured = replace(self.measured, digests=event["digests"])
            case "loaded":
                self.measured = replace(
                    self.measured,
                    load_seconds=event["seconds"],
                    version=event["version"],
                    speculative=event["speculative"],
                )
            case "generated":
                self.passes[event["name"]] = Pass(
                    tuple(event["asked"]),
                    event["seconds"],
                    tuple(
                        Output(o["text"], tuple(o["tokens"]), len(o["tokens"]))
                        for o in event["outputs"]
                    ),
                    counters_from(event["counters"]),
                    int(event["counters"].get(PREEMPTIONS, 0)),
                    int(event["counters"].get(CACHED, 0)),
                )
            case "done":
                self.done = True

    @property
    def loaded(self) -> bool:
        return self.measured.load_seconds is not None


def run_offline(
    cell: Cell, model: Path | str, sandbox: Sandbox, workdir: Path, log: Path
) -> Measured:
    """Run a cell, and return what was seen; `workdir` is an empty folder to work in."""
    job, events = workdir / "job.json", workdir / "events.jsonl"
    job.write_text(json.dumps(_job(cell, model, sandbox)), encoding="utf-8")
    events.touch()
    command = [sandbox.python, _SCRIPT, job, events]
    seen = _Seen()
    with (
        sandbox.started(command, workdir=workdir, log=log, extra_env=cell.environment) as child,
        watched_memory(child) as memory,
    ):
        measured = _watch(child, cell, events, seen)
        survivors = outlived(child) if child.poll() is not None else 0
        return replace(measured, memory=memory.host, gpu_memory=memory.gpus, left_behind=survivors)


def _job(cell: Cell, model: Path | str, sandbox: Sandbox) -> dict[str, Any]:
    engine = {name.replace("-", "_"): value for name, value in cell.flags.items()}
    engine |= {"model": str(model), "tensor_parallel_size": cell.tensor_parallel}
    if cell.speculative:
        engine["speculative_config"] = cell.speculative
    return {
        "files": sorted(sandbox.digests),
        "engine": engine,
        "prompts": cell.prompts,
        "max_tokens": cell.max_tokens,
        "long_tokens": cell.long_tokens,
        "sampling": cell.sampling_arguments,
    }


def _watch(child: Running, cell: Cell, events: Path, seen: _Seen) -> Measured:
    begun = alive = time.monotonic()
    failure, ended = None, False
    with events.open(encoding="utf-8") as lines:
        rest = ""
        while not ended and failure is None:
            # Asked first: what it wrote before its end is read below.
            ended = child.poll() is not None
            rest += lines.read()
            *whole, rest = rest.split("\n")
            for line in whole:
                seen.take(json.loads(line))
            now = time.monotonic()
            if whole:
                alive = now
            if not ended:
                failure = _fault_of_time(cell, seen, now - begun, now - alive, child.log)
                time.sleep(_POLL_SECONDS)
    code = child.poll()
    if failure is None and (code != 0 or not seen.done):
        kind = "crashed" if seen.loaded else "does not start"
        failure = fault(kind, f"the process ended with {code}", child.log)
    return replace(seen.measured, passes=seen.passes, fault=failure)


def _fault_of_time(cell: Cell, seen: _Seen, age: float, silent: float, log: Path) -> Fault | None:
    limits = cell.timeouts
    if not seen.loaded and age > limits.start:
        return start_hangs(f"not loaded after {limits.start:g} s", log)
    if seen.loaded and silent > limits.token:
        return fault("hangs", f"no token for {limits.token:g} s", log)
    if age > limits.cell:
        return fault("takes too long", f"not done after {limits.cell:g} s", log)
    return None


def outlived(child: Running, seconds: float = 10.0) -> int:
    """Return how many processes are there after the one that started them, and some grace."""
    deadline = time.monotonic() + seconds
    while (count := child.left()) and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return count
