"""All that a smoke run was, and all that came of it, as one JSON document."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Protocol

from vpatch import __version__
from vpatch.commands.smoke.checks import speed_of, total
from vpatch.evidence.records import SCHEMA_VERSION
from vpatch.evidence.smoke_report import result_of
from vpatch.evidence.subject import digest_of_subject
from vpatch.harness.sandbox import inherited
from vpatch.logs.symptoms import find_symptoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.checks import Check
    from vpatch.commands.smoke.run import CellResult, CellRun
    from vpatch.declare.smoke import Smoke
    from vpatch.harness.machine import Machine
    from vpatch.harness.measured import Measured
    from vpatch.harness.models import PreparedModel
    from vpatch.harness.target import Phase
    from vpatch.library.patch import Patch


@dataclass(frozen=True)
class SmokeRun:
    """A smoke run. `asked` is what the command line said, so that it can be said again."""

    name: str
    made: str
    asked: Mapping[str, Any]
    subject: Sequence[Mapping[str, Any]]
    plan: Smoke
    target: RunTarget
    machine: Machine
    checkpoints: Mapping[str, PreparedModel]
    imports: Mapping[Phase, Sequence[Check]]
    results: Sequence[CellResult]
    patches: Sequence[Patch]
    # On a cluster: what is known of each node, by its name.
    machines: Mapping[str, Mapping[str, Any]] | None = None


class RunTarget(Protocol):
    """What a record says of an engine or an image."""

    @property
    def kind(self) -> str: ...

    @property
    def version(self) -> str: ...

    @property
    def image(self) -> Mapping[str, Any] | None: ...


def record_of(ran: SmokeRun) -> dict[str, Any]:
    record = {
        "schema_version": SCHEMA_VERSION,
        "kind": "smoke",
        "vpatch": __version__,
        "name": ran.name,
        "made": ran.made,
        "digest": digest_of_subject(ran.subject),
        "asked": dict(ran.asked),
        "subject": list(ran.subject),
        "engine": {"kind": ran.target.kind, "vllm": ran.target.version},
        "machine": asdict(ran.machine),
        "models": {
            name: {"model": one.described, "digest": one.digest}
            for name, one in ran.checkpoints.items()
        },
        "plan": ran.plan.model_dump(mode="json", exclude_none=True),
        "imports": {phase: [asdict(c) for c in checks] for phase, checks in ran.imports.items()},
        "cells": [_cell(result) for result in ran.results],
        # A container is given none of it.
        "inherited": {} if ran.target.image or ran.machines is not None else inherited(),
        "symptoms": _symptoms(ran),
    }
    if ran.target.image:
        record["image"] = dict(ran.target.image)
    if ran.machines is not None:
        record["machines"] = {name: dict(facts) for name, facts in ran.machines.items()}
    return record | {"result": result_of(record)}


def _cell(result: CellResult) -> dict[str, Any]:
    cell = result.cell
    return {
        "phase": result.phase,
        "cell": cell.name,
        "verdict": result.verdict,
        "checks": [asdict(check) for check in result.checks],
        "k": cell.k,
        "model": cell.model,
        "mode": cell.mode,
        "tensor_parallel": cell.tensor_parallel,
        "flags": dict(cell.flags),
        "environment": dict(cell.environment),
        "sampling": cell.sampling_arguments,
        "max_tokens": cell.max_tokens,
        "long_tokens": cell.long_tokens,
        "prompts": cell.prompts,
        "rounds": [_round(visit) for visit in result.visits],
    }


def _round(visit: CellRun) -> dict[str, Any]:
    document: dict[str, Any] = {"log": f"logs/{visit.log.name}"}
    if visit.there is not None:
        lost = [{"node": node, "why": why} for node, why in visit.there.lost]
        document |= {"node": visit.there.node, "lost": lost}
    if visit.measured is None:
        return document | {"skipped": visit.skipped}
    return document | _measured(visit.measured)


def _measured(measured: Measured) -> dict[str, Any]:
    counters, fault = total(measured), measured.fault
    return {
        "load_seconds": measured.load_seconds,
        "memory_bytes": measured.memory,
        "gpu_memory_bytes": measured.gpu_memory,
        "tokens_per_second": speed_of(measured),
        "speculative": measured.speculative and dict(measured.speculative),
        "counters": asdict(counters) | {"rate": counters.rate, "length": counters.length},
        "passes": {name: asdict(one) for name, one in measured.passes.items()},
        "server": measured.server and asdict(measured.server),
        "fault": fault and fault.recorded(),
    }


def _symptoms(ran: SmokeRun) -> list[dict[str, Any]]:
    """Which known symptoms the logs show, in which cells, what cures each, and if it was taken."""
    taken = {patch["id"] for tree in ran.subject for patch in tree["patches"]}
    found: list[dict[str, Any]] = []
    for result in ran.results:
        for visit in result.visits:
            if visit.measured is not None:
                found += [
                    {
                        "phase": result.phase,
                        "cell": result.cell.name,
                        "patch": sighting.patch.id,
                        "taken": sighting.patch.id in taken,
                        "symptom": sighting.symptom,
                        "log": f"logs/{visit.log.name}",
                        "line": sighting.line,
                    }
                    for sighting in _sighted(visit.log, ran.patches)
                ]
    return found


def _sighted(log: Path, patches: Sequence[Patch]) -> Sequence[Any]:
    with log.open(encoding="utf-8", errors="replace") as lines:
        return find_symptoms(lines, patches)
