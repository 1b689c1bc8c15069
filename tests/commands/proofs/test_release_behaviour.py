"""vpatch test --engine on several releases, and with --record."""

from __future__ import annotations

import json
import signal
import sys
import sysconfig

import pytest

from tests.commands.conftest import TEST
from tests.engine.wheels import VLLM_CPU, engine_wheels, wheel
from tests.projects import ENGINE, FILES, LLAMA, NAMED, archive
from tests.waiting import LIMIT, until
from vpatch.library.shapes import read_shapes

pytestmark = pytest.mark.slow

OWN = ("test", "name-proj", "--engine", sys.executable, "--vllm", "0.50")
RECORD = (*OWN, "--record")
CURED = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
# An engine that is made here gets this environment's pytest.
PYTEST = f"""
import runpy, sys
sys.path.insert(0, {sysconfig.get_path("purelib")!r})
runpy.run_module("pytest", run_name="__main__", alter_sys=True)
"""


def shapes(proven, patch_id="name-proj"):
    return read_shapes(proven.patches / patch_id)


def outcomes(proven, patch_id="name-proj"):
    """What is recorded, by release."""
    found = shapes(proven, patch_id).behaviour["vllm"]
    return {release: [one.outcome for one in entries] for release, entries in found.items()}


def declare(proven, old, new):
    file = proven.patches / "name-proj" / "patch.yaml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def test_every_release(proven):
    """It makes two real environments, and removes them: which ones stay is what counts."""
    proven.index.add("0.52.0", archive("0.52.0", {LLAMA: CURED}))
    proven.index.add("0.53.0", archive("0.53.0", {LLAMA: b"class Other: ...\n"}))
    wheels = proven.folder.parent / "wheels"
    for version in ("0.50.0", "0.52.0"):
        # That of 0.52.0 lacks the cure, which the release has.
        files = {path: FILES[path].decode() for path in (LLAMA, ENGINE)}
        engine_wheels(wheels, version, VLLM_CPU | files)
    wheel(wheels, "pytest", "9.9", {"pytest.py": PYTEST})
    proven.env |= {"PIP_FIND_LINKS": str(wheels)}
    command = ("test", "name-proj", "--engine", "cpu", "--vllm", "all", "--record")
    run = proven.run(*command)
    holds = [line.rpartition("  ")[0] for line in run.out.splitlines() if "holds" in line[:6]]
    assert holds == [
        "holds  name-proj  test_it.py  vLLM 0.50.0 (cpu)  needed",
        "holds  name-proj  test_it.py  vLLM 0.52.0 (cpu)  upstreamed",
    ]
    assert (
        "not asked  name-proj  test_it.py  vLLM 0.51.0 (cpu)  needed\n"
        "       vLLM 0.51.0 has no CPU build for this machine: " in run.out
    )
    assert (
        "not asked  name-proj  test_it.py  vLLM 0.53.0 (cpu)  absent\n"
        "       the tree does not have the text 'class Llama'" in run.out
    )
    assert run.out.endswith("2 holds, 2 not asked; recorded before: 0\n")
    assert "this build of 0.52.0 has another vllm/models/llama.py: the release's runs" in run.err
    assert outcomes(proven) == {
        "0.50.0": ["holds"],
        "0.51.0": ["not asked"],
        "0.52.0": ["holds"],
        "0.53.0": ["not asked"],
    }
    engines = proven.cache / "engines"
    name = f"engine-cpu-0.52.0-py{sys.version_info.major}.{sys.version_info.minor}"
    assert [path.name for path in engines.iterdir()] == [name]

    again = proven.run(*command)
    assert "Making" not in again.err
    assert again.out.count("recorded: ") == 4
    assert again.out.endswith("2 holds, 2 not asked; recorded before: 4\n")

    # An engine that was there before is never removed.
    proven.run(*command[:4], "--vllm", "0.52,0.53", "--keep-engines", "0")
    assert [path.name for path in engines.iterdir()] == [name]


def test_a_result_is_recorded_and_skipped(proven):
    assert proven.run(*RECORD).out.startswith("holds  name-proj  test_it.py  vLLM 0.50.0 (cpu)")
    (entry,) = shapes(proven).behaviour["vllm"]["0.50.0"]
    assert (entry.state, entry.reason, entry.engine) == ("needed", None, "cpu")
    skipped = proven.run(*RECORD)
    assert skipped.out == (
        "recorded: holds  name-proj  test_it.py  vLLM 0.50.0 (cpu)  needed\n"
        "1 holds; recorded before: 1\n"
    )
    assert "Running" not in skipped.err
    assert "Running test_it.py" in proven.run(*RECORD, "--rerun").err


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("patch.yaml", "'f\"{prefix}.proj\"'", "'f\"{prefix}.p\"'"),
        ("patch.yaml", '"assert False"', '"assert"'),
        ("test_it.py", "pass", "assert True"),
        ("helper.py", "", "more = 1\n"),
    ],
)
def test_a_result_for_other_code_does_not_count(proven, file, old, new):
    (proven.patches / "name-proj" / "helper.py").write_text("")
    proven.run(*RECORD)
    path = proven.patches / "name-proj" / file
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    assert "Running test_it.py" in proven.run(*RECORD).err


def test_a_contradiction_is_a_finding_each_time(proven):
    test = proven.patches / "name-proj" / "test_it.py"
    test.write_text(TEST.replace("assert patched", "pass"))
    run = proven.run(*RECORD, code=1)
    assert run.out.startswith("contradicts  name-proj")
    said = "test_prefix passed on the pristine tree, and must fail"
    assert said in run.out
    (entry,) = shapes(proven).behaviour["vllm"]["0.50.0"]
    assert (entry.outcome, entry.reason) == ("contradicts", said)
    again = proven.run(*RECORD, code=1)
    assert again.out == (
        f"recorded: contradicts  name-proj  test_it.py  vLLM 0.50.0 (cpu)  needed\n       {said}\n"
        "1 contradicts; recorded before: 1\n"
    )
    test.write_text(TEST)
    proven.run(*RECORD)
    assert outcomes(proven) == {"0.50.0": ["holds"]}


def test_an_upstreamed_patch_whose_test_fails(proven):
    """The tree has the text that vpatch looks for, and does not do what it must."""
    declare(proven, "edits:", "effect: {text: class Llama}\nedits:")
    run = proven.run(*RECORD, code=1)
    assert "contradicts  name-proj  test_it.py  vLLM 0.50.0 (cpu)  upstreamed" in run.out
    assert "test_prefix failed on the pristine tree: assert False" in run.out
    assert outcomes(proven) == {"0.50.0": ["contradicts"]}


def test_what_a_release_cannot_run_is_declared(proven):
    (proven.patches / "name-proj" / "test_it.py").write_text(
        f"{TEST}\ndef test_he():\n    assert 0\n"
    )
    more = "    not-asked: [{vllm: '<0.51', tests: [test_he], why: it has no he}]\n"
    declare(proven, "    fails-before", f"{more}    fails-before")
    run = proven.run(*RECORD)
    assert "       test_he is not asked: it has no he\n" in run.out
    (document,) = proven.run(*OWN, "--record", "--rerun", "--json").json["releases"]
    tests = [one["name"] for one in document["runs"]["patched"]["tests"]]
    assert tests == ["test_prefix", "test_head"]  # whose names begin alike
    (entry,) = shapes(proven).behaviour["vllm"]["0.50.0"]
    assert (entry.outcome, entry.reason) == ("holds", "test_he is not asked: it has no he")
    assert "2 passed" in proven.run(*OWN).out

    declare(proven, "tests: [test_he]", "tests: [test_h]")
    assert "not-asked names test_h: no such test" in proven.run(*RECORD, code=1).out


@pytest.mark.parametrize("tests", ["", ", tests: [test_prefix]"])
def test_a_release_that_cannot_run_the_test(proven, tests):
    more = f"    not-asked: [{{vllm: '==0.50.*', why: it has no kernels{tests}}}]\n"
    declare(proven, "    fails-before", f"{more}    fails-before")
    run = proven.run(*RECORD)
    assert run.out.startswith(
        "not asked  name-proj  test_it.py  vLLM 0.50.0 (cpu)  needed\n       it has no kernels\n"
    )
    assert "Running" not in run.err
    one = proven.run(*OWN, code=1)
    assert one.codes == ("harness.nothing-to-prove",)
    assert "test_it.py is not for vLLM 0.50.0: it has no kernels" in one.err


def test_an_interrupt_loses_no_result(proven):
    note = proven.folder / "note"
    folder = proven.patches / "slow-mode"
    file = folder / "patch.yaml"
    proof = (proven.patches / "name-proj" / "patch.yaml").read_text().partition("proof:")[2]
    file.write_text(f"{file.read_text()}proof:{proof}")
    waiting = f"import pathlib, time\npathlib.Path({str(note)!r}).touch()\ntime.sleep(600)\n"
    (folder / "test_it.py").write_text(waiting)
    command = ("test", "name-proj", "slow-mode", *RECORD[2:])
    with proven.start(*command) as process:
        until(note.exists, process=process)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.endswith("interrupted; nothing was left half done\n")
    assert outcomes(proven) == {"0.50.0": ["holds"]}
    assert shapes(proven, "slow-mode") is None
    (folder / "test_it.py").write_text(TEST)
    run = proven.run(*command, code=1)
    assert "recorded: holds  name-proj" in run.out
    assert "contradicts  slow-mode" in run.out


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--record", "--engine", "cpu"), "--record would have no effect here"),
        (("--rerun", "--engine", "cpu", "--vllm", "all"), "--rerun would have no effect here"),
        (("--rerun", "--record"), "--rerun would have no effect here"),
        (("--keep-engines", "2", "--engine", "cpu"), "--keep-engines would have no effect here"),
        (("--evidence-dir", "e", "--engine", "cpu", "--vllm", "all"), "--evidence-dir would have"),
    ],
)
def test_options_that_do_not_fit(proven, args, said):
    run = proven.run("test", "name-proj", *args, code=2)
    assert run.codes == ("cli.unused-option",)
    assert said in run.err


def test_ones_own_python_has_one_release(proven):
    run = proven.run(*OWN[:4], "--vllm", "0.50,0.51", code=2)
    assert run.codes == ("engine.wrong-version",)
    assert "Running" not in run.err
    run = proven.run("test", "slow-mode", *RECORD[2:], code=2)
    assert run.codes == ("harness.no-test",)


def test_an_installed_patch_cannot_be_recorded(proven, monkeypatch):
    monkeypatch.setattr("vpatch.commands.proofs.behaviour_records.is_installed", lambda _: True)
    run = proven.run(*RECORD, code=2)
    assert run.codes == ("library.not-recordable",)
    assert "Running" not in run.err


def test_a_record_that_cannot_be_written(proven, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("vpatch.commands.proofs.behaviour_records.write_shapes", full)
    run = proven.run(*RECORD, code=4)
    assert run.codes == ("library.unwritable-shapes",)


def test_an_engine_that_cannot_be_made_stops_only_its_release(proven):
    proven.run("status", "--vllm", "0.50")
    proven.run("status", "--vllm", "0.51")
    args = ("test", "name-proj", "--engine", "cpu", "--vllm", "0.50,0.51", "--offline")
    run = proven.run(*args, code=4)
    assert run.codes == ("engine.not-in-cache", "engine.not-in-cache")
    assert json.loads(proven.run(*args, "--json", code=4).out)["exit_code"] == 4
