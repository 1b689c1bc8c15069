"""vpatch test --engine, with a vLLM of a few files, and vpatch engine."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys

import pytest
from google.protobuf.json_format import Parse, ParseDict
from in_toto_attestation.predicates.test_result.v0 import test_result_pb2
from in_toto_attestation.v1.statement_pb2 import Statement

from tests.commands.conftest import ROOT, TEST
from tests.engine.test_process import gone
from tests.engine.wheels import engine_wheels
from tests.helpers import fails
from tests.projects import VERSION
from tests.waiting import LIMIT, until
from vpatch import api
from vpatch.commands.proofs.usecase import refuse_unfit
from vpatch.engine.environment import Engine
from vpatch.evidence.documents import document_of
from vpatch.evidence.store import read_evidence
from vpatch.harness.behaviour import run_behaviour_test

pytestmark = pytest.mark.slow


@pytest.fixture
def ran_once(monkeypatch):
    """A behaviour test runs once in a test; the next command gets the same result."""
    results = []

    def run(*args):
        if not results:
            results.append(run_behaviour_test(*args))
        return results[0]

    monkeypatch.setattr("vpatch.commands.proofs.usecase.run_behaviour_test", run)


@pytest.mark.usefixtures("ran_once")
def test_a_proof_that_holds(proven):
    run = proven.run("test", "name-proj", "--engine", sys.executable)
    assert run.out == (
        "holds  name-proj  test_it.py  vLLM 0.50.0 (cpu)\n"
        "  pristine  1 passed, 1 failed\n"
        "    test_prefix failed: assert False\n"
        "  patched   2 passed\n"
        "not run  name-proj  test_it.py: it needs cuda\n"
        "1 of 1 behaviour test holds\n"
    )
    (document,) = proven.run("test", "name-proj", "--engine", sys.executable, "--json").json[
        "behaviour_tests"
    ]
    assert document["problems"] == []
    assert (document["patch"], document["engine"], document["vllm"]) == (
        "name-proj",
        "cpu",
        VERSION,
    )
    assert [t["outcome"] for t in document["pristine"]["tests"]] == ["failed", "passed"]


def test_the_api_runs_the_same(proven, monkeypatch):
    for name, value in proven.env.items():
        monkeypatch.setenv(name, value)
    context = api.open_context(proven.folder, trust_everything=True)
    evidence = proven.folder / "evidence"
    tests = api.run_behaviour_tests(
        context, "name-proj", engine=sys.executable, evidence_dir=evidence
    )
    assert [(one.found and one.found.problems, one.idle) for one in tests] == [
        ((), None),
        (None, "it needs cuda"),
    ]
    assert tests[0].folder.parent == evidence
    (one,) = api.run_tests_on_releases(
        context, "name-proj", engine=sys.executable, vllm="0.50", record=True
    )
    assert (one.release, one.found.outcome) == (VERSION, "holds")
    assert "behaviour" in json.loads((proven.patches / "name-proj" / "shapes.json").read_text())
    (proven.folder / "recipes").mkdir()
    (proven.folder / "recipes" / "mine.yaml").write_text(f"vllm: {VERSION}\npatches: [name-proj]\n")
    context = api.open_context(proven.folder, trust_everything=True)
    (one,) = api.run_tests_on_recipe(context, "mine", engine=sys.executable)
    assert (one.release, one.found.outcome) == (VERSION, "holds")


@pytest.mark.usefixtures("ran_once")
def test_a_proof_that_does_not_hold(proven):
    (proven.patches / "name-proj" / "test_it.py").write_text(TEST.replace("pass", "assert 0"))
    run = proven.run("test", "name-proj", "--engine", sys.executable, code=1)
    assert run.out.startswith("fails  name-proj")
    assert "\n       test_head failed on the patched tree: assert 0\n" in run.out
    assert run.out.endswith("0 of 1 behaviour test holds\n")
    run = proven.run("test", "name-proj", "--engine", sys.executable, "--json", code=1)
    assert run.json["behaviour_tests"][0]["problems"] == [
        "test_head failed on the pristine tree, undeclared: assert 0",
        "test_head failed on the patched tree: assert 0",
    ]


def test_all_patches(proven):
    run = proven.run("test", "--engine", sys.executable, "--vllm", "0.50", "--library")
    assert "holds  name-proj" in run.out
    assert "not run  mtp-proj-prefix  test_behaviour.py: mtp-proj-prefix is absent in" in run.out
    run = proven.run(
        "test", "mtp-proj-prefix", "--engine", sys.executable, "--vllm", "0.50", code=1
    )
    assert "next: give a --vllm that needs it" in run.err


def test_a_patch_without_a_proof(proven):
    run = proven.run("test", "slow-mode", "--engine", "cpu", code=2)
    assert run.codes == ("harness.no-test",)


def test_an_engine_of_another_release(proven):
    args = ("test", "name-proj", "--engine", sys.executable, "--vllm", "0.51.0")
    run = proven.run(*args, code=2)
    assert run.codes == ("engine.wrong-version",)
    assert "it has vLLM 0.50.0, not 0.51.0" in run.err


def test_an_engine_for_which_there_are_no_tests(proven):
    platforms = proven.folder.parent / "engine" / "vllm" / "platforms.py"
    text = platforms.read_text()
    platforms.write_text(text.replace("True", "False") + "    device_name = 'maca'\n")
    run = proven.run("test", "name-proj", "--engine", sys.executable, code=2)
    assert run.codes == ("harness.no-test",)
    assert "its vLLM runs on maca, but behaviour tests run on cpu or cuda" in run.err


def test_engine_that_is_made_listed_and_cleared(project):
    wheels = engine_wheels(project.folder.parent / "wheels")
    env = {"PIP_FIND_LINKS": str(wheels), "PIP_RETRIES": "0"}
    project.env |= env
    run = project.run("engine", "--vllm", "0.50")
    name = f"engine-cpu-0.50.0-py{sys.version_info.major}.{sys.version_info.minor}"
    python = project.cache / "engines" / name / "bin" / "python"
    assert run.out == f"vLLM 0.50.0 (cpu): {python}\n"
    assert f"Making {name}: pip install pytest and pandas\n" in run.err
    document = project.run("engine", "--vllm", "0.50", "--offline", "--json").json
    assert document["python"] == str(python)
    assert document["vllm"] == VERSION
    listed = project.run("cache", "list").out.splitlines()
    assert listed[1].startswith(f"{name} ")
    assert listed[-1].startswith("1 tree, 1 engine, ")
    assert project.run("cache", "list", "--json").json["engines"][0]["engine"] == name
    assert project.run("cache", "clear", name, "--json").json["freed_bytes"] > 1e6
    assert project.run("cache", "list").out.startswith("vllm-0.50.0 ")
    project.run("cache", "clear", name, code=2)


def test_an_engine_of_no_release(project):
    run = project.run("engine", "--vllm", str(project.folder), code=2)
    assert "is not a release\n  next: give one, such as --vllm 0.23" in run.err


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_an_end_from_outside_ends_the_engine(proven, ending):
    note = proven.folder / "pid"
    (proven.patches / "name-proj" / "test_it.py").write_text(
        f"import os, time\nopen({str(note)!r}, 'w').write(f'{{os.getpid()}} ')\ntime.sleep(600)\n"
    )
    with proven.start("test", "name-proj", "--engine", sys.executable) as process:
        until(lambda: note.exists() and note.read_text().endswith(" "), process=process)
        process.send_signal(ending)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.endswith("interrupted; nothing was left half done\n")
    assert gone(int(note.read_text()))


def test_nohup_outlives_the_terminal(proven):
    """A shell that starts it with nohup ignores SIGHUP, and a logout sends it all the same."""
    note, go = proven.folder / "pid", proven.folder / "go"
    (proven.patches / "name-proj" / "test_it.py").write_text(
        f"import os, pathlib, signal, time\n"
        f"pathlib.Path({str(note)!r}).write_text('here ')\n"
        f"while not pathlib.Path({str(go)!r}).exists():\n    time.sleep(0.05)\n{TEST}"
    )
    args = ("test", "name-proj", "--engine", sys.executable)
    with proven.start(*args, prefix=("nohup",)) as process:
        until(note.exists, process=process)
        process.send_signal(signal.SIGHUP)
        go.touch()
        out, _ = process.communicate(timeout=LIMIT)
    assert process.returncode == 0
    assert "holds" in out


OWN = """
import os, subprocess, sys
from pathlib import Path
from vpatch import api
from vpatch.commands.proofs.usecase import refuse_unfit
from vpatch.engine.environment import Engine
from vpatch.engine.process import run
from vpatch.util.own_environment import set_own

set_own()
code = "import os; print(os.environ.get('PYDANTIC_DISABLE_PLUGINS'))"
log = Path(sys.argv[1])
run([sys.executable, "-c", code], cwd=log.parent, log=log, timeout=120)
print(os.environ["PYDANTIC_DISABLE_PLUGINS"], log.read_text().strip())
"""


@pytest.mark.parametrize(("users", "seen"), [(None, "__all__ None"), ("x", "x x")])
def test_what_is_started_does_not_get_our_own_settings(tmp_path, users, seen):
    env = {k: v for k, v in os.environ.items() if k != "PYDANTIC_DISABLE_PLUGINS"}
    env |= {"PYDANTIC_DISABLE_PLUGINS": users} if users else {}
    command = [sys.executable, "-c", OWN, str(tmp_path / "log")]
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == seen


def test_a_proof_for_another_release_is_not_run_in_ones_own_engine(proven):
    file = proven.patches / "name-proj" / "patch.yaml"
    file.write_text(file.read_text().replace("vllm: 0.50.0", "vllm: 0.51.0"))
    args = ("test", "--engine", sys.executable)
    run = proven.run(*args, code=1)
    assert "it is written for vLLM 0.51.0, but this Python has 0.50.0" in run.out
    run = proven.run("test", "name-proj", *args[1:], code=1)
    assert run.codes == ("harness.nothing-to-prove",)
    assert "next: give --vllm 0.50.0 to run it all the same" in run.err
    assert "holds" in proven.run("test", "name-proj", *args[1:], "--vllm", "0.50.0").out


def left_by(proven, *args, code=0):
    run = proven.run(
        "test",
        "name-proj",
        "--engine",
        sys.executable,
        "--evidence-dir",
        "evidence",
        *args,
        code=code,
    )
    (folder,) = (proven.folder / "evidence").iterdir()
    return run, folder


def test_a_behaviour_test_leaves_evidence(proven):
    run, folder = left_by(proven)
    assert f"  evidence: evidence/{folder.name}\n" in run.out
    record = json.loads((folder / "results.json").read_text())
    assert document_of(read_evidence(folder).record) == record  # as its model says
    assert (record["kind"], record["patch"], record["result"]) == ("test", "name-proj", "passed")
    assert [test["outcome"] for test in record["runs"]["pristine"]] == ["failed", "passed"]
    report = (folder / "report.md").read_text()
    assert "| `test_prefix` | failed | `assert False` |" in report
    assert "`vpatch test name-proj --engine cpu --vllm 0.50.0`" in report
    assert {path.name for path in (folder / "logs").iterdir()} == {"pristine.log", "patched.log"}
    text = (folder / "statement.json").read_text()
    predicate = ParseDict(json.loads(text)["predicate"], test_result_pb2.TestResult())
    assert predicate.result == "PASSED"
    assert list(predicate.passed_tests) == ["test_prefix", "test_head"]
    assert Parse(text, Statement()).subject[0].name == "vpatch-test"
    assert proven.run("evidence", "show", folder.name).out == report
    assert proven.run("evidence", "verify", folder.name).out.startswith(f"{folder.name} matches")
    assert proven.run("evidence", "list").out.endswith("passed  matches\n")


@pytest.fixture(scope="module")
def first_run(tmp_path_factory):
    """Where the evidence of one run is kept."""
    return tmp_path_factory.mktemp("first") / "evidence"


@pytest.fixture
def evidence(proven, first_run):
    """The folder of the evidence of a run that passed, which the first test made for all."""
    if first_run.exists():
        shutil.copytree(first_run, proven.folder / "evidence")
        (folder,) = (proven.folder / "evidence").iterdir()
    else:
        _, folder = left_by(proven)
        shutil.copytree(proven.folder / "evidence", first_run)
    return folder


def test_evidence_of_a_test_that_does_not_hold(proven):
    (proven.patches / "name-proj" / "test_it.py").write_text(TEST.replace("pass", "assert 0"))
    _, folder = left_by(proven, code=1)
    assert json.loads((folder / "results.json").read_text())["result"] == "failed"
    assert "(failed, " in proven.run("evidence", "verify", folder.name, code=1).out


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("patch.yaml", 'f"{prefix}.proj"', 'f"{prefix}.p"', "the patch name-proj has changed"),
        ("test_it.py", "def test_head", "# more\ndef test_head", "the test test_it.py has changed"),
        ("patch.yaml", '"assert False"', '"False"', "what is declared of the test test_it.py"),
        ("patch.yaml", "test: test_it.py\n    engine: cpu", "test: test_it.py\n    engine: cuda",
         "has no proof test_it.py any more"),
    ],
)  # fmt: skip
def test_evidence_of_a_test_that_no_longer_matches(proven, evidence, file, old, new, said):
    path = proven.patches / "name-proj" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    assert said in proven.run("evidence", "verify", evidence.name, code=1).out


def test_evidence_of_a_test_that_was_changed(proven, evidence):
    results = evidence / "results.json"
    results.write_text(results.read_text().replace('"failed"', '"passed"', 1))
    assert "results.json" in proven.run("evidence", "verify", evidence.name, code=1).out


def test_evidence_is_of_behaviour_tests_alone(proven):
    run = proven.run("test", "name-proj", "--evidence-dir", "evidence", code=2)
    assert "--evidence-dir would have no effect without --engine" in run.err


def test_a_full_disk_stops_a_test(proven, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vpatch.commands.proofs.usecase.run_behaviour_test", full)
    run = proven.run("test", "name-proj", "--engine", sys.executable, code=4)
    assert run.codes == ("harness.could-not-run",)


def test_an_engine_without_pytest(tmp_path):
    with fails("engine.no-pytest"):
        refuse_unfit(Engine(tmp_path / "python", tmp_path, "cpu", VERSION, has_pytest=False))


def test_evidence_that_was_written_before_is_verified(proven):
    """Its record has no schema_version."""
    old = ROOT / "tests" / "resources" / "records_v1" / "evidence" / "behaviour"
    shutil.copytree(old, proven.folder / "evidence" / "behaviour")
    run = proven.run("evidence", "verify", "behaviour")
    assert run.out.startswith("behaviour matches (passed, ")
    record = proven.run("evidence", "show", "behaviour", "--json").json["record"]
    assert (record["schema_version"], record["kind"]) == (2, "test")
    shutil.rmtree(proven.cache)
    proven.index.answers["/simple/"] = 503
    run = proven.run("evidence", "verify", "behaviour", code=4)
    assert (run.out, run.codes) == ("", ("source.index-unreachable",))
