"""vpatch smoke --image, with a real Docker Engine and a vLLM of a few lines."""

from __future__ import annotations

import json
import signal
import sys

import pytest

from tests.docker_engine import PACKAGES
from tests.waiting import LIMIT, until

LAYER = "vllm/layer.py"


def smoke(project, *args, **options):
    return project.run("smoke", "--image", project.tag, "--name", "one", *args, **options)


def fail_with(project, fault):
    text = project.recipe.read_text()
    project.recipe.write_text(
        text.replace("    max-tokens", f"    environment: {{FAKE_FAULT: {fault}}}\n    max-tokens")
    )


def test_a_run_in_an_image(patched, docker):
    run = smoke(patched)
    modules, spawned, *lines = run.out.splitlines()
    assert modules == "after   pass     modules, main process         2 of 2"
    assert spawned == "after   pass     modules, spawned process      2 of 2"
    assert "6 drafts, 12 of 12 accepted [6, 6], rate 1.000, length 3.00" in lines[1]
    assert lines[-1] == "4 of 4 cells pass; evidence: evidence/one"
    folder = patched.folder / "evidence" / "one"
    record = json.loads((folder / "results.json").read_text())
    identity = docker.id(patched.tag)
    assert record["image"] == {"name": patched.tag, "id": identity, "digests": []}
    assert (record["engine"], record["inherited"]) == ({"kind": "cpu", "vllm": "0.50.0"}, {})
    (_, cell, *_) = record["cells"]
    files = next(check for check in cell["checks"] if check["name"] == "patched files")
    assert (files["verdict"], files["figure"]) == ("pass", "1 file")
    assert (folder / "environment.txt").read_text() == "a fake environment\n"
    report = (folder / "report.md").read_text()
    assert f"`vpatch smoke --image {patched.tag} --plan vllm-0.50`" in report
    assert f"- image: {patched.tag} ({identity[:23]})" in report
    out = patched.run("evidence", "verify", "one").out
    assert out.startswith("one matches (passed, sha256:")
    # The same content has the same digest, whatever it was run in.
    patched.run("smoke", "--vllm", "0.50", "--engine", sys.executable, "--name", "two")
    other = json.loads((patched.folder / "evidence" / "two" / "results.json").read_text())
    assert other["digest"] == record["digest"]


def test_evidence_of_an_image_whose_patch_is_another_by_now(patched):
    smoke(patched)
    declaration = patched.patches / "strength" / "patch.yaml"
    declaration.write_text(declaration.read_text().replace("STRENGTH = 2", "STRENGTH = 3"))
    out = patched.run("evidence", "verify", "one", code=1).out
    assert "not what would be run now: the patch strength has changed" in out


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ("hang", "runs: hangs: no token for 2 s"),
        ("crash while loading", "ended with 1 (ValueError: no such layer)"),
        ("killed", "runs: crashed: the server ended with 1"),
        ("deaf", "runs: hangs: asked to end, it was there 5 s later"),
    ],
)
def test_a_fault_ends_its_cell(patched, fault, said):
    fail_with(patched, fault)
    if fault in {"hang", "deaf"}:
        short = patched.recipe.read_text().replace("token: 600", "token: 2")
        patched.recipe.write_text(short.replace("stop: 600", "stop: 5"))
    run = smoke(patched, code=1)
    assert said in run.out
    # That no container is left, the fixture looks at.


def test_an_image_whose_file_was_changed_afterwards(patched, docker):
    name = f"{patched.tag}-changed"
    docker.build(name, f"FROM {patched.tag}\nRUN echo >> {PACKAGES}/{LAYER}", {})
    try:
        patched.tag, tag = name, patched.tag
        run = smoke(patched, code=1)
        assert f"patched files: the engine imports another {LAYER}" in run.out
        patched.tag = tag
    finally:
        docker.forget(name)


def test_an_interrupt_ends_the_container(patched, docker):
    fail_with(patched, "hang while loading")
    before = docker.containers()
    with patched.start("smoke", "--image", patched.tag, "--name", "one") as process:
        offline = "evidence/.one.*/logs/*offline.log"
        until(lambda: list(patched.folder.glob(offline)), process=process)
        assert docker.containers() != before
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=LIMIT)
    assert process.returncode == 130
    assert err.endswith("interrupted; nothing was left half done\n")
    assert docker.containers() == before
    assert list((patched.folder / "evidence").iterdir()) == []


@pytest.mark.parametrize(
    "words", [("--vllm", "0.50"), ("--before",), ("--engine", "cpu"), ("--patch", "strength")]
)
def test_an_image_says_itself_what_is_in_it(smoked, words):
    run = smoked.run("smoke", "--image", "a:b", *words, code=2)
    assert run.errors.startswith("error: a:b: an image already says what it contains\n")


@pytest.mark.usefixtures("docker")
def test_an_image_that_is_not_here(smoked):
    run = smoked.run("smoke", "--image", "nowhere:1", code=2)
    assert run.codes == ("image.not-here",)


def test_an_image_of_somebody_else(smoked, docker):
    run = smoked.run("smoke", "--image", docker.base, code=2)
    assert run.codes == ("image.not-built-by-vpatch",)


def test_an_engine_that_is_elsewhere(smoked, docker, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", docker.where.replace("unix://", "http+unix://"))
    run = smoked.run("smoke", "--image", docker.base, code=2)
    assert run.codes == ("docker.not-local",)
