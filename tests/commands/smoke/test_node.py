"""What travels to a node of a cluster, and what comes back."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.commands.smoke.builders import CRASH, cell_of, measured_of
from vpatch.commands.smoke.cells import cells_of
from vpatch.commands.smoke.node import CellAnswer, CellJob, CheckpointFacts
from vpatch.commands.smoke.standard import standard_plan
from vpatch.harness.machine import Gpu, Machine
from vpatch.harness.measured import Fault, StartHangs
from vpatch.node import JOB
from vpatch.runs.node_image import ImageName
from vpatch.runs.node_job import EngineFacts, answer_in, text_of, why_another

MACHINE = Machine("Linux", "a processor", 2, 16.0, (Gpu("H200", "9.0", 139.8, "570"),))
PLAN = standard_plan()


def answer_of(measured):
    return CellAnswer(
        machine=MACHINE,
        inherited={"VLLM_A": "1"},
        engine=EngineFacts(kind="cpu", version="0.50.0"),
        measured=measured,
        digests={"vllm/a.py": "sha256:1"},
        model=CheckpointFacts(described="/m", digest="sha256:2", acceptance=None),
    )


def sent(answer):
    return answer_in({"result.json": text_of(answer).encode()}, type(answer))


@pytest.mark.parametrize("cell", cells_of(PLAN), ids=lambda cell: cell.name)
def test_a_cell_comes_back_as_it_was(cell):
    job = CellJob(
        engine="cpu",
        image=ImageName("a", "id"),
        version="0.50.0",
        trees=[],
        phase="after",
        cell=cell,
        model=cell.model,
        checkpoint=PLAN.models[cell.model],
    )
    assert JOB.validate_json(text_of(job)) == job


@pytest.mark.parametrize("mode", ["offline", "server"])
@pytest.mark.parametrize(
    "fault",
    [CRASH, StartHangs("does not start", "not loaded after 9 s", None, ("last line",)), None],
    ids=str,
)
def test_what_was_measured_comes_back_as_it_was(mode, fault):
    answer = answer_of(replace(measured_of(cell_of(mode=mode)), fault=fault))
    back = sent(answer)
    assert back == answer
    assert type(back.measured.fault) is type(fault)


def test_what_an_earlier_vpatch_kept_is_a_plain_fault():
    kept = json.loads(text_of(answer_of(replace(measured_of(cell_of()), fault=CRASH))))
    del kept["measured"]["fault"]["category"]
    back = answer_in({"result.json": json.dumps(kept).encode()}, CellAnswer)
    assert back.measured.fault == CRASH


@pytest.mark.parametrize(
    ("fault", "hangs"),
    [
        (StartHangs("does not start", "not loaded after 9 s"), True),
        (Fault("does not start", "no such model"), False),
        (Fault("hangs", "no token"), True),
    ],
)
def test_a_node_says_whether_another_one_may_succeed(fault, hangs):
    assert (why_another([None, fault]) == str(fault)) == hangs


def test_a_job_that_no_node_knows():
    with pytest.raises(ValueError, match="do"):
        JOB.validate_json('{"do": "something else"}')
