"""The records of a matrix's points as one record: all cells, each with its point."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.evidence.records import MatrixPointRecord, RunEngine
from vpatch.evidence.smoke_report import result_of
from vpatch.evidence.subject import digest_of_subject

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vpatch.declare.smoke import Smoke
    from vpatch.evidence.records import (
        CellRecord,
        CheckRecord,
        ClusterMachine,
        Phases,
        RunModel,
        SmokeRecord,
        SubjectTree,
        SymptomRecord,
    )


def joined(
    records: Sequence[SmokeRecord],
    points: Sequence[Mapping[str, str]],
    *,
    name: str,
    plan: Smoke,
) -> SmokeRecord:
    """Return one record of the records of points; each point has a `name` and a `folder`."""
    first = records[0]
    matrix: list[MatrixPointRecord] = []
    models: dict[str, RunModel] = {}
    machines: dict[str, ClusterMachine] = {}
    imports: dict[Phases, list[CheckRecord]] = {}
    cells: list[CellRecord] = []
    symptoms: list[SymptomRecord] = []
    for record, point in zip(records, points, strict=True):
        at, folder = point["name"], point["folder"]
        outcome = {"digest": record.digest, "engine": record.engine, "result": record.result}
        matrix.append(MatrixPointRecord.model_validate({**point, **outcome}))
        models |= {f"{name} of {at}": one for name, one in record.models.items()}
        machines |= record.machines or {}
        for phase, checks in record.imports.items():
            named = [check.model_copy(update={"name": f"{at}: {check.name}"}) for check in checks]
            imports.setdefault(phase, []).extend(named)
        cells += [
            cell.model_copy(
                update={
                    "cell": f"{at}: {cell.cell}",
                    "point": at,
                    "rounds": [
                        one.model_copy(update={"log": f"{folder}/{one.log}"})
                        for one in cell.rounds or ()
                    ],
                }
            )
            for cell in record.cells
        ]
        symptoms += [
            one.model_copy(update={"cell": f"{at}: {one.cell}", "log": f"{folder}/{one.log}"})
            for one in record.symptoms
        ]
    subject = _subject(records)
    whole = first.model_copy(
        update={
            "name": name,
            "digest": digest_of_subject(subject),
            "asked": {key: value for key, value in first.asked.items() if key != "point"},
            "plan": plan.model_dump(mode="json", exclude_none=True),
            "subject": subject,
            "engine": RunEngine(
                kind=_each(record.engine.kind for record in records),
                vllm=_each(record.engine.vllm for record in records),
            ),
            "models": models,
            "imports": imports,
            "cells": cells,
            "symptoms": symptoms,
            "points": matrix,
            "result": result_of(cells, imports),
        }
    )
    return whole if first.machines is None else whole.model_copy(update={"machines": machines})


def _subject(records: Sequence[SmokeRecord]) -> list[SubjectTree]:
    """The trees of all points, each once: several kinds of hardware run the same."""
    subject: list[SubjectTree] = []
    for record in records:
        subject += [tree for tree in record.subject if tree not in subject]
    return subject


def _each(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(names))
