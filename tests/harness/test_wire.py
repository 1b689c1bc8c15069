"""Cells and measurements as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.commands.smoke.builders import CRASH, cell_of, measured_of
from vpatch.commands.smoke.cells import Cell, cells_of
from vpatch.commands.smoke.standard import standard_plan
from vpatch.harness.machine import Gpu, Machine
from vpatch.harness.measured import Fault, Measured, StartHangs
from vpatch.harness.wire import from_json, to_json
from vpatch.node import _hangs


def sent(value):
    return json.loads(json.dumps(to_json(value)))


@pytest.mark.parametrize("cell", cells_of(standard_plan()), ids=lambda cell: cell.name)
def test_a_cell_comes_back_as_it_was(cell):
    assert from_json(Cell, sent(cell)) == cell


@pytest.mark.parametrize("mode", ["offline", "server"])
@pytest.mark.parametrize(
    "fault",
    [CRASH, StartHangs("does not start", "not loaded after 9 s", None, ("last line",)), None],
    ids=str,
)
def test_what_was_measured_comes_back_as_it_was(mode, fault):
    measured = replace(measured_of(cell_of(mode=mode)), fault=fault)
    back = from_json(Measured, sent(measured))
    assert back == measured
    assert type(back.fault) is type(fault)


def test_what_an_earlier_vpatch_kept_is_a_plain_fault():
    kept = sent(replace(measured_of(cell_of()), fault=CRASH))
    del kept["fault"]["category"]
    assert from_json(Measured, kept).fault == CRASH


@pytest.mark.parametrize(
    ("fault", "hangs"),
    [
        (StartHangs("does not start", "not loaded after 9 s"), True),
        (Fault("does not start", "no such model"), False),
        (Fault("hangs", "no token"), True),
    ],
)
def test_a_node_says_whether_another_one_may_succeed(fault, hangs):
    assert (_hangs(replace(measured_of(cell_of()), fault=fault)) is not None) == hangs
    assert fault.recorded().keys() == {"kind", "what", "cause", "ending"}


def test_a_machine_comes_back_as_it_was():
    machine = Machine("Linux", "a processor", 2, 16.0, (Gpu("H200", "9.0", 139.8, "570"),))
    assert from_json(Machine, sent(machine)) == machine
