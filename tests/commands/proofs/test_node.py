"""A behaviour test as a job of a node: what travels, and what comes back."""

from __future__ import annotations

import json
from dataclasses import asdict

from vpatch.commands.proofs.node import ProofAnswer, ProofJob
from vpatch.declare.patch import Proof
from vpatch.harness import behaviour
from vpatch.harness.behaviour import Behaviour, Run
from vpatch.harness.machine import Machine
from vpatch.node import JOB
from vpatch.runs.node_job import EngineFacts, answer_in, text_of
from vpatch.runs.packed_trees import PackedTree

FAILED = behaviour.TestResult("test_a", "failed", "why", 0.5)
BEHAVIOUR = Behaviour(Run((FAILED,)), Run((), "it hangs"), ("no",))
ENGINE = EngineFacts(kind="cpu", version="0.50.0")
MACHINE = Machine("Linux", "a processor", 2, 16.0, ())


def test_a_job_comes_back_as_it_was():
    proof = {"test": "test_it.py", "engine": "cpu", "vllm": "0.50.0", "fails-before": {"a": "b"}}
    tree = PackedTree(folder="trees/0", is_release=True, changed=["vllm/a.py"], own=[])
    job = ProofJob(
        version="0.50.0",
        trees=[tree],
        patch="patch",
        proof=Proof.model_validate(proof),
        plugins={},
        references={"OLD": "0.49.0"},
    )
    assert JOB.validate_json(text_of(job)) == job


def test_what_came_of_a_test_comes_back_as_it_was():
    answer = ProofAnswer(machine=MACHINE, inherited={}, engine=ENGINE, found=BEHAVIOUR)
    text = text_of(answer)
    assert answer_in({"result.json": text.encode()}, ProofAnswer) == answer
    # By this name, an earlier vpatch has kept it.
    assert json.loads(text)["found"] == json.loads(json.dumps(asdict(BEHAVIOUR)))
