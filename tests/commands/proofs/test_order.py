"""`vpatch test`: what is cheap comes first, and what is said of several patches is said once."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from tests.projects import VERSION, write_patch
from vpatch.commands.proofs import usecase
from vpatch.commands.proofs.behaviour import _Shown
from vpatch.commands.proofs.usecase import ProvenTest
from vpatch.harness.behaviour import Behaviour, Run

ENGINE = ("--engine", sys.executable)


def must_not_begin(*_, **__):
    raise AssertionError("it began before the cheap checks")


def test_what_is_idle_needs_no_engine(proven, monkeypatch):
    """To make one takes minutes."""
    monkeypatch.setattr(usecase, "open_engine", must_not_begin)
    run = proven.run("test", "mtp-proj-prefix", *ENGINE, "--vllm", "0.50", code=1)
    assert "mtp-proj-prefix is absent in" in run.err


def test_a_folder_for_evidence_is_looked_at_first(proven, monkeypatch):
    for name in ("proof_plans", "open_engine"):
        monkeypatch.setattr(usecase, name, must_not_begin)
    (proven.folder / "evidence").write_text("a file")
    run = proven.run("test", "name-proj", *ENGINE, "--evidence-dir", "evidence/x", code=2)
    assert "name another folder with --evidence-dir" in run.err


def test_smoke_looks_at_the_folder_for_evidence_first(smoked, monkeypatch):
    smoked.trusting = True
    monkeypatch.setattr("vpatch.commands.smoke.usecase.planned_smoke", must_not_begin)
    (smoked.folder / "evidence").write_text("a file")
    options = ("--vllm", "0.50", *ENGINE, "--evidence-dir", "evidence/x")
    assert "name another folder with --evidence-dir" in smoked.run("smoke", *options, code=2).err


def test_progress_says_which_test_of_how_many(proven, monkeypatch):
    run = Run(tests=(), broken="it broke")
    monkeypatch.setattr(
        usecase, "run_behaviour_test", lambda *_: Behaviour(pristine=run, patched=run, problems=())
    )
    out = proven.run("test", "name-proj", *ENGINE, code=None)
    (line,) = [line for line in out.err.splitlines() if line.startswith("Running")]
    assert line.startswith("Running test_it.py of name-proj in ")
    assert line.endswith(", twice (1 of 1)")


def test_a_reason_for_several_tests_is_said_once(capsys):
    shown = _Shown(as_json=False)
    proof = SimpleNamespace(test="test_it.py")
    for name, reason in (("a", "it needs cuda"), ("b", "another"), ("c", "it needs cuda")):
        shown.add(ProvenTest(SimpleNamespace(id=name), proof, "cpu", VERSION, idle=reason))
    shown.end()
    assert capsys.readouterr().out.splitlines()[:2] == [
        "not run  a  test_it.py, c  test_it.py: it needs cuda",
        "not run  b  test_it.py: another",
    ]


def test_a_reason_for_no_verdict_on_style_is_said_once(empty):
    for name in ("first", "second"):
        folder = write_patch(empty.patches, name, "- {find: f(), rewrite: g()}")
        for when, code in (("before", "f()"), ("after", "g()")):
            file = folder / "examples" / "needed-a" / when / "vllm" / "a.py"
            file.parent.mkdir(parents=True)
            file.write_text(f'class Llama: "class Llama"\n{code}\n')
    lines = [line for line in empty.run("test").out.splitlines() if "second" in line]
    assert len(lines) == 2  # and its example
    assert lines[1].startswith("not judged  first, second: no recipe pins a release for it")
