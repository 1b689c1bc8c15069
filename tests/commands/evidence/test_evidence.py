"""Evidence whose record asks for what no command line says."""

from __future__ import annotations

import pytest

from tests.commands.smoke.builders import record_of_run
from tests.helpers import fails
from vpatch.commands.evidence.usecase import verify_all, verify_evidence
from vpatch.evidence.store import read_evidence, write_evidence

ASKED = {"vllm": "0.23.0", "recipe": None, "tree": [], "patch": [], "plan": None}


@pytest.mark.parametrize(
    "asked",
    [
        {},
        ASKED | {"tree": 5},
        ASKED | {"patch": None},
    ],
)
def test_a_request_that_nobody_made_is_damage(tmp_path, asked):
    log = tmp_path / "log"
    log.write_text("")
    record = record_of_run(log, asked=asked)
    (tmp_path / "one/logs").mkdir(parents=True)
    write_evidence(tmp_path / "one", record)
    evidence = read_evidence(tmp_path / "one")
    with fails("evidence.unreadable"):
        verify_evidence(None, evidence)
    verified, (error,) = verify_all(None, tmp_path)
    assert (verified, error.code) == ([], "evidence.unreadable")
