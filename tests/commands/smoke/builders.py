"""Cells, and what could have been seen of them, with everything in order unless it is said."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from typing import Any

from vpatch.commands.smoke.cells import Cell
from vpatch.commands.smoke.checks import Check
from vpatch.commands.smoke.point import SmokeRequest
from vpatch.commands.smoke.record import SmokeRun, machine_record, record_of
from vpatch.commands.smoke.run import CellResult, CellRun
from vpatch.declare.smoke import Sampling, Smoke, Timeouts
from vpatch.evidence.documents import document_of
from vpatch.evidence.records import RunEngine, SubjectTree, upgraded
from vpatch.harness.machine import Gpu, Machine
from vpatch.harness.measured import Fault, Measured, Output, Pass, Served
from vpatch.harness.models import PreparedModel
from vpatch.harness.predict import Counters, counters_of, last_token, tokens_after

DIGESTS = {"vllm/a.py": "sha256:1"}
PROMPTS = ((5, 0), (5, 17))
CRASH = Fault("crashed", "the process ended with -9")
NO_START = Fault("does not start", "the process ended with 1")


def smoke_of(*cells, **keys):
    """A plan of rows of cells for a model `m`; `keys` are those of the plan."""
    declared: dict[str, Any] = {
        "models": {"m": {"synthetic": "all"}},
        "prompts": {"p": ("Say <003>", (5, 17))},
        "defaults": {"prompts": "p"},
        "cells": tuple({"model": "m", **row} for row in cells or ({"k": (0, 1)},)),
    }
    return Smoke.model_validate(declared | keys)


def cell_of(k=2, mode="offline", **keys):
    said: dict[str, Any] = {
        "row": 0,
        "model": "m",
        "method": "mtp",
        "tensor_parallel": 1,
        "rounds": 1,
        "prompts": PROMPTS,
        "max_tokens": 32,
        "long_tokens": 0,
        "sampling": Sampling(),
        "timeouts": Timeouts(),
    }
    return Cell(k=k, mode=mode, **(said | keys))


def text_of(tokens):
    return "".join(f"<{token:03}>" for token in tokens)


def outputs_of(cell, asked, count=None):
    """What the synthetic model says."""
    found = []
    for number in asked:
        tokens = tokens_after(last_token(cell.prompts[number]), count or cell.max_tokens)
        found.append(Output(text_of(tokens), tuple(tokens), len(tokens)))
    return tuple(found)


def pass_of(cell, asked=(0, 1), *, acceptance="all", seconds=2.0, count=None):
    outputs = outputs_of(cell, asked, count)
    counters = Counters()
    for number, output in zip(asked, outputs, strict=True):
        counters += counters_of(acceptance, last_token(cell.prompts[number]), output.count, cell.k)
    return Pass(tuple(asked), seconds, outputs, counters)


def measured_of(cell, acceptance="all", **keys):
    """A run of a cell in which nothing is wrong."""
    main = pass_of(cell, acceptance=acceptance)
    told = {"method": cell.method, "k": cell.k} if cell.k else None
    found = Measured(1.5, "0.23.0", told, DIGESTS, {"prompts": main}, memory=2**30)
    if cell.mode == "server":
        single = pass_of(cell, (0,), acceptance=acceptance)
        passes = {"streaming": single, "several at once": main}
        answered = sum(o.count for one in passes.values() for o in one.outputs)
        served = Served({"/health": (), "streaming": ()}, {}, answered, answered, 3.0, 0)
        found = replace(found, speculative=None, passes=passes, server=served)
    return replace(found, **keys)


def with_outputs(measured, *outputs, name="prompts"):
    """The same run, with other outputs in one of its passes."""
    one = replace(measured.passes[name], asked=tuple(range(len(outputs))), outputs=outputs)
    return replace(measured, passes={**measured.passes, name: one})


def with_counters(measured, counters, name="prompts"):
    one = replace(measured.passes[name], counters=counters)
    return replace(measured, passes={**measured.passes, name: one})


def with_seconds(measured, seconds, name="prompts"):
    one = replace(measured.passes[name], seconds=seconds)
    return replace(measured, passes={**measured.passes, name: one})


def said(tokens):
    return Output(text_of(tokens), tuple(tokens), len(tokens))


PIN = {
    "tree": "vllm",
    "kind": "pypi",
    "version": "0.23.0",
    "digest": "sha256:" + "a" * 64,
    "origin": "vllm-0.23.0.tar.gz",
    "ref": None,
}
SUBJECT = {
    "pin": PIN,
    "patches": [{"id": "fix", "digest": "sha256:" + "b" * 64, "variant": None}],
    "files": [{"path": "vllm/a.py", "before": None, "after": "sha256:" + "c" * 64}],
}
PASSING = Check("runs", "pass", "loaded in 1.5 s")
ASKED = {"vllm": "0.23.0", "recipe": None, "tree": (), "patch": ("fix",), "before": True}


def result_of(log, *checks, phase="after", **keys):
    cell = cell_of(**keys)
    visit = CellRun(cell, log, measured_of(cell))
    return CellResult(phase, cell, checks or (PASSING,), (visit,))


def record_of_run(log, results=None, **keys):
    """The record of a run of one cell, unless more is said; `log` is a file that is there."""
    ran: dict[str, Any] = {
        "timestamp": "2026-01-02T03:04:05+00:00",
        "engine": RunEngine(kind="cpu", vllm="0.23.0"),
        "image": None,
        "checkpoints": {
            "m": PreparedModel("m", log, "synthetic: all", "sha256:" + "d" * 64, "all")
        },
        "imports": {},
        "results": [result_of(log)] if results is None else results,
    }
    machine = Machine("Linux", "a processor", 2, 16.0, (Gpu("H200", "9.0", 139.8, "570"),))
    asked: dict[str, Any] = {
        "name": "proof",
        "asked": ASKED,
        "subject": [deepcopy(SUBJECT)],
        "smoke": smoke_of(),
        "models": {},
        "cells": (),
        "machine": machine,
        "patches": (),
        "before": False,
        "port": None,
    }
    asked |= {key: keys.pop(key) for key in asked.keys() & keys}
    asked["subject"] = [SubjectTree.model_validate(tree) for tree in asked["subject"]]
    ran |= {"request": SmokeRequest(**asked), "machine": machine_record(machine)} | keys
    return record_of(SmokeRun(**ran))


def rewritten(record, change):
    """A record whose document was changed."""
    document = document_of(record)
    change(document)
    return upgraded(document)
