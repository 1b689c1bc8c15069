"""The records of a matrix's points as one record: all cells, each with its point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpatch.evidence.smoke_report import result_of
from vpatch.evidence.subject import digest_of_subject

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def joined(
    records: Sequence[Mapping[str, Any]],
    points: Sequence[Mapping[str, Any]],
    *,
    name: str,
    plan: Mapping[str, Any],
) -> dict[str, Any]:
    """Return one record of the records of points; each point has a `name` and a `folder`."""
    first = records[0]
    found: dict[str, Any] = {
        **first,
        "name": name,
        "asked": {key: value for key, value in first["asked"].items() if key != "point"},
        "plan": dict(plan),
        "subject": _subject(records),
        "engine": {key: _each(records, key) for key in ("kind", "vllm")},
        "models": {},
        "imports": {},
        "cells": [],
        "symptoms": [],
        "points": [],
    }
    machines: dict[str, Any] = {}
    for record, point in zip(records, points, strict=True):
        at, folder = point["name"], point["folder"]
        kept = {key: record[key] for key in ("digest", "engine", "result")}
        found["points"].append({**point, **kept})
        found["models"] |= {f"{name} of {at}": one for name, one in record["models"].items()}
        machines |= record.get("machines", {})
        for phase, checks in record["imports"].items():
            named = [{**check, "name": f"{at}: {check['name']}"} for check in checks]
            found["imports"].setdefault(phase, []).extend(named)
        found["cells"] += [
            {
                **cell,
                "cell": f"{at}: {cell['cell']}",
                "point": at,
                "rounds": [{**one, "log": f"{folder}/{one['log']}"} for one in cell["rounds"]],
            }
            for cell in record["cells"]
        ]
        found["symptoms"] += [
            {**one, "cell": f"{at}: {one['cell']}", "log": f"{folder}/{one['log']}"}
            for one in record["symptoms"]
        ]
    if "machines" in first:
        found["machines"] = machines
    found["digest"] = digest_of_subject(found["subject"])
    return found | {"result": result_of(found)}


def _subject(records: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The trees of all points, each once: several kinds of hardware run the same."""
    found: list[Any] = []
    for record in records:
        found += [tree for tree in record["subject"] if tree not in found]
    return found


def _each(records: Sequence[Mapping[str, Any]], key: str) -> str:
    return ", ".join(dict.fromkeys(record["engine"][key] for record in records))
