"""All that a smoke run was, and all that came of it, as one JSON document."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from vpatch import __version__
from vpatch.commands.smoke.checks import speed_of, total
from vpatch.evidence.records import (
    SCHEMA_VERSION,
    CellRecord,
    CellRound,
    CheckRecord,
    ClusterMachine,
    LostAttempt,
    RoundCounters,
    RoundFault,
    RunEngine,
    RunImage,
    RunMachine,
    RunModel,
    SmokeRecord,
    SymptomRecord,
)
from vpatch.evidence.smoke_report import result_of
from vpatch.evidence.subject import digest_of_subject
from vpatch.harness.sandbox import inherited
from vpatch.logs.symptoms import find_symptoms

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.smoke.checks import Check
    from vpatch.commands.smoke.point import SmokeRequest
    from vpatch.commands.smoke.run import CellResult, CellRun
    from vpatch.evidence.records import JsonObject
    from vpatch.harness.machine import Machine
    from vpatch.harness.measured import Measured, Pass, Served
    from vpatch.harness.models import PreparedModel
    from vpatch.harness.target import ImageFacts, Phase
    from vpatch.library.patch import Patch
    from vpatch.logs.symptoms import Sighting


@dataclass(frozen=True)
class SmokeRun:
    """A smoke run that came to its end: what was asked for, and what came of it."""

    request: SmokeRequest
    timestamp: str
    engine: RunEngine
    image: ImageFacts | None
    machine: RunMachine
    checkpoints: Mapping[str, PreparedModel]
    imports: Mapping[Phase, Sequence[Check]]
    results: Sequence[CellResult]
    # On a cluster: what is known of each node, by its name.
    machines: Mapping[str, ClusterMachine] | None = None


def machine_record(machine: Machine) -> RunMachine:
    """Return what a record says of a machine."""
    return RunMachine.model_validate(machine, from_attributes=True)


def record_of(ran: SmokeRun) -> SmokeRecord:
    request = ran.request
    cells = [_cell(result) for result in ran.results]
    imports = {phase: _checks(checks) for phase, checks in ran.imports.items()}
    record = SmokeRecord(
        schema_version=SCHEMA_VERSION,
        kind="smoke",
        vpatch=__version__,
        name=request.name,
        made=ran.timestamp,
        digest=digest_of_subject(request.subject),
        asked=dict(request.asked),
        subject=list(request.subject),
        engine=ran.engine,
        machine=ran.machine,
        models={
            name: RunModel(model=one.described, digest=one.digest)
            for name, one in ran.checkpoints.items()
        },
        plan=request.smoke.model_dump(mode="json", exclude_none=True),
        imports=imports,
        cells=cells,
        # A container is given none of it.
        inherited={} if ran.image or ran.machines is not None else inherited(),
        symptoms=_symptoms(ran),
        result=result_of(cells, imports),
    )
    # A key that says nothing stays away.
    image = RunImage.model_validate(ran.image) if ran.image else None
    known = {"image": image, "machines": ran.machines}
    return record.model_copy(update={key: one for key, one in known.items() if one is not None})


def _checks(checks: Sequence[Check]) -> list[CheckRecord]:
    return [CheckRecord.model_validate(check, from_attributes=True) for check in checks]


def _cell(result: CellResult) -> CellRecord:
    cell = result.cell
    return CellRecord(
        phase=result.phase,
        cell=cell.name,
        verdict=result.verdict,
        checks=_checks(result.checks),
        k=cell.k,
        model=cell.model,
        mode=cell.mode,
        tensor_parallel=cell.tensor_parallel,
        flags=dict(cell.flags),
        environment=dict(cell.environment),
        sampling=cell.sampling_arguments,
        max_tokens=cell.max_tokens,
        long_tokens=cell.long_tokens,
        prompts=list(cell.prompts),
        rounds=[_round(visit) for visit in result.visits],
    )


def _round(visit: CellRun) -> CellRound:
    log = f"logs/{visit.log.name}"
    if visit.measured is None:
        one = CellRound(log=log, skipped=visit.skipped)
    else:
        one = _round_of(log, visit.measured)
    if visit.there is None:
        return one
    lost = [LostAttempt(node=node, why=why) for node, why in visit.there.lost]
    return one.model_copy(update={"node": visit.there.node, "lost": lost})


def _as_json(measured: Pass | Served) -> JsonObject:
    """Figures as a record has them: with lists, and each number as it was measured."""
    document: JsonObject = json.loads(json.dumps(asdict(measured)))
    return document


def _round_of(log: str, measured: Measured) -> CellRound:
    fault = measured.fault
    return CellRound(
        log=log,
        load_seconds=measured.load_seconds,
        memory_bytes=measured.memory,
        gpu_memory_bytes=measured.gpu_memory,
        tokens_per_second=speed_of(measured),
        speculative=measured.speculative and {**measured.speculative},
        counters=RoundCounters.model_validate(total(measured), from_attributes=True),
        passes={name: _as_json(one) for name, one in measured.passes.items()},
        server=measured.server and _as_json(measured.server),
        fault=fault and RoundFault.model_validate(fault, from_attributes=True),
    )


def _symptoms(ran: SmokeRun) -> list[SymptomRecord]:
    """Which known symptoms the logs show, in which cells, what cures each, and if it was taken."""
    taken = {patch.id for tree in ran.request.subject for patch in tree.patches}
    return [
        SymptomRecord(
            phase=result.phase,
            cell=result.cell.name,
            patch=sighting.patch.id,
            taken=sighting.patch.id in taken,
            symptom=sighting.symptom,
            log=f"logs/{visit.log.name}",
            line=sighting.line,
        )
        for result in ran.results
        for visit in result.visits
        if visit.measured is not None
        for sighting in _sightings(visit.log, ran.request.patches)
    ]


def _sightings(log: Path, patches: Sequence[Patch]) -> Sequence[Sighting]:
    with log.open(encoding="utf-8", errors="replace") as lines:
        return find_symptoms(lines, patches)
