"""Verdicts on cells that ran on several nodes, and what cells need of them."""

from __future__ import annotations

import pytest

from tests.commands.smoke.builders import DIGESTS, cell_of, measured_of, smoke_of
from vpatch.commands.smoke.cells import cells_of
from vpatch.commands.smoke.run import CellRun, CellVerdicts, NodeRun


def verdicts_of(log, hardware, digests=DIGESTS):
    cells = [cell_of(k=0, rounds=3), cell_of(k=2, rounds=3)]
    runs = [
        CellRun(cell, log, measured_of(cell), there=NodeRun(name, name, digests))
        for cell, name in zip(cells, hardware, strict=True)
        for _ in range(3)
    ]
    told = []
    verdicts = CellVerdicts("after", cells, DIGESTS, {"m": "all"}, told.append)
    verdicts.look(runs, [])
    assert told == verdicts.all()
    return {check.name: check for check in told[1].checks}


@pytest.mark.parametrize(("hardware", "compared"), [(("a", "a"), True), (("a", "b"), False)])
def test_speeds_are_compared_on_the_same_hardware_alone(tmp_path, hardware, compared):
    speed = verdicts_of(tmp_path, hardware)["speed"]
    assert ("times k=0" in speed.figure) is compared


def test_the_files_are_those_of_the_node(tmp_path):
    assert verdicts_of(tmp_path, "aa")["patched files"].verdict == "pass"
    other = {"vllm/a.py": "sha256:2"}
    assert verdicts_of(tmp_path, "aa", other)["patched files"].verdict == "fail"


def test_a_verdict_waits_for_what_is_still_to_run(tmp_path):
    cells = [cell_of(k=0), cell_of(k=2)]
    told = []
    verdicts = CellVerdicts("after", cells, DIGESTS, {"m": "all"}, told.append)
    run = CellRun(cells[1], tmp_path, measured_of(cells[1]))
    verdicts.look([run], [cells[0]])
    assert told == []
    verdicts.look([CellRun(cells[0], tmp_path, measured_of(cells[0])), run], [])
    assert [result.cell for result in told] == cells


def test_needs_of_a_row_are_added_to_those_of_the_plan():
    (cell,) = cells_of(
        smoke_of(
            {"k": (0,), "modes": ("offline",), "needs": {"gpus": 2, "labels": {"b": "2"}}},
            needs={"engine": "cuda", "gpus": 1},
            defaults={"prompts": "p", "needs": {"labels": {"a": "1"}}},
        )
    )
    assert (cell.needs.engine, cell.needs.gpus) == ("cuda", 2)
    assert cell.needs.labels == {"a": "1", "b": "2"}


@pytest.mark.parametrize("value", ["", "a b", "in()", "-a", "in(a"])
def test_a_label_that_ray_would_refuse(value):
    with pytest.raises(ValueError, match="labels"):
        smoke_of(needs={"labels": {"a": value}})
