"""Cells and measurements as JSON."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.smoke.builders import CRASH, cell_of, measured_of
from vpatch.harness.machine import Gpu, Machine
from vpatch.smoke.cells import cells_of
from vpatch.smoke.standard import standard_plan
from vpatch.smoke.wire import cell_from, machine_from, measured_from, to_json


def sent(value):
    return json.loads(json.dumps(to_json(value)))


@pytest.mark.parametrize("cell", cells_of(standard_plan()), ids=lambda cell: cell.name)
def test_a_cell_comes_back_as_it_was(cell):
    assert cell_from(sent(cell)) == cell


@pytest.mark.parametrize("mode", ["offline", "server"])
def test_what_was_measured_comes_back_as_it_was(mode):
    measured = replace(measured_of(cell_of(mode=mode)), fault=CRASH)
    assert measured_from(sent(measured)) == measured


def test_a_machine_comes_back_as_it_was():
    machine = Machine("Linux", "a processor", 2, 16.0, (Gpu("H200", "9.0", 139.8, "570"),))
    assert machine_from(sent(machine)) == machine
