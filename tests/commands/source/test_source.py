"""`vpatch source`: the plain tree as a checkout, and nothing is overwritten."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.commands.conftest import PLUGIN_ENGINE
from tests.projects import ENGINE, FILES, LLAMA, VERSION, git, names_in, snapshot
from tests.waiting import LIMIT

KILLED = """
import os, signal
from pathlib import Path
from vpatch import main
from vpatch.checkout.transaction import CheckoutTransaction
CheckoutTransaction.put_into_empty = lambda _: os.kill(os.getpid(), signal.SIGKILL)
main.main()
"""


@pytest.fixture
def source(project):
    """The project, and its plain checkout `src`."""
    project.run("source", "--vllm", VERSION, "src")
    project.src = project.folder / "src"
    return project


def test_it_is_the_release_as_one_commit_with_nothing_applied(source):
    files = {path: (source.src / path).read_bytes() for path in FILES}
    assert files == FILES
    assert git(source.src, "status", "--porcelain") == ""
    assert git(source.src, "log", "--all", "--format=%s").splitlines() == [f"vllm-{VERSION}"]
    assert git(source.src, "branch", "--show-current") == "vpatch\n"
    assert git(source.src, "rev-parse", "base") == git(source.src, "rev-parse", "HEAD")


def test_it_has_the_commit_that_apply_builds_on(source):
    source.apply("--patch", "slow-mode")
    assert git(source.target, "rev-parse", "base") == git(source.src, "rev-parse", "base")


def test_it_says_what_comes_next(project):
    run = project.run("source", "--vllm", "0.50", "my src")
    commit = git(project.folder / "my src", "rev-parse", "HEAD")[:12]
    first, *lines = run.out.splitlines()
    assert first.startswith(f"vllm {VERSION}  vllm-{VERSION}.tar.gz  sha256:")
    assert lines == [
        f"my src  the plain tree, as commit {commit}",
        "next: edit files in 'my src', then run vpatch import 'my src'",
    ]


def test_it_records_the_pin(source):
    record = json.loads((source.src / ".git" / "vpatch-source.json").read_text())
    assert record["source"]["tree"] == "vllm"
    assert record["source"]["version"] == VERSION
    assert record["source"]["digest"].startswith("sha256:")
    assert record["base"] == git(source.src, "rev-parse", "base").strip()


def test_json(project):
    results = [project.run("source", "--vllm", VERSION, "src", "--json").json for _ in range(2)]
    assert [one["outcome"] for one in results] == ["created", "unchanged"]
    assert results[0]["folder"] == "src"
    assert (results[0]["tree"], results[0]["version"]) == ("vllm", VERSION)
    assert results[0]["base"] == git(project.folder / "src", "rev-parse", "HEAD").strip()


def test_the_same_again_says_that_nothing_was_done(source):
    before = snapshot(source.src)
    run = source.run("source", "--vllm", "0.50", "src")
    assert "src already is exactly this; nothing was written" in run.out
    assert snapshot(source.src) == before


@pytest.mark.parametrize("change", ["edited", "new", "committed", "removed", "hidden"])
def test_a_changed_checkout_is_left_alone(source, change):
    (source.src / ENGINE).write_text("def start(config): ...\n")
    match change:
        case "new":
            git(source.src, "checkout", "--", ".")
            (source.src / "vllm" / "mine.py").write_text("")
        case "committed":
            git(source.src, "commit", "--quiet", "--all", "--message", "Mine")
        case "removed":
            (source.src / ENGINE).unlink()
        case "hidden":
            git(source.src, "update-index", "--assume-unchanged", ENGINE)
    before = snapshot(source.src)
    run = source.run("source", "--vllm", VERSION, "src", code=1)
    assert run.codes == ("checkout.has-changes",)
    assert ("vllm/mine.py" if change == "new" else ENGINE) in run.err
    assert "vpatch import src" in run.err
    assert snapshot(source.src) == before


def test_a_checkout_of_another_release_is_left_alone(source):
    before = snapshot(source.src)
    run = source.run("source", "--vllm", "0.51.0", "src", code=1)
    assert run.codes == ("checkout.other-source",)
    assert f"is a checkout of vllm {VERSION}" in run.err
    assert snapshot(source.src) == before


@pytest.mark.parametrize("what", ["folder", "file", "checkout", "repository"])
def test_what_is_there_is_not_overwritten(project, what):
    folder = project.folder / "src"
    if what == "file":
        folder.write_text("mine")
    elif what == "checkout":
        project.apply("--checkout", "src")
    else:
        folder.mkdir()
        (folder / "mine").write_text("mine")
    if what == "repository":
        git(folder, "init", "--quiet")
    requests = len(project.index.asked)
    before = snapshot(project.folder)
    run = project.run("source", "--vllm", "0.51.0", "src", code=2)
    assert run.codes == ("checkout.not-empty",)
    assert "name a new folder" in run.err
    assert snapshot(project.folder) == before
    # It is refused before anything is asked for.
    assert len(project.index.asked) == requests


def test_an_empty_folder_is_taken(project):
    (project.folder / "src").mkdir()
    project.run("source", "--vllm", VERSION, "src")
    assert (project.folder / "src" / LLAMA).is_file()


def test_what_comes_there_meanwhile_is_not_overwritten(project, monkeypatch):
    from vpatch.checkout.transaction import CheckoutTransaction

    put = CheckoutTransaction.put_into_empty

    def put_late(transaction):
        transaction.target.mkdir()
        (transaction.target / "mine").write_text("mine")
        put(transaction)

    monkeypatch.setattr(CheckoutTransaction, "put_into_empty", put_late)
    run = project.run("source", "--vllm", VERSION, "src", code=2)
    assert run.codes == ("checkout.not-empty",)
    assert [path.name for path in (project.folder / "src").iterdir()] == ["mine"]


def test_a_killed_run_leaves_nothing_that_the_next_one_minds(project):
    command = [sys.executable, "-c", KILLED, "source", "--vllm", VERSION, "src"]
    run = subprocess.run(
        command,
        cwd=project.folder,
        env=os.environ | project.env,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    )
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert not (project.folder / "src").exists()
    assert any(name.startswith(".src.vpatch/new-") for name in names_in(project.folder))
    project.run("source", "--vllm", VERSION, "src")
    assert (project.folder / "src" / LLAMA).is_file()
    assert names_in(project.folder) == ["patches", "src"]


def test_another_tree(plugged):
    run = plugged.run("source", "--tree", "vllm-tiny==1.0.0", "tiny")
    assert run.out.startswith("vllm-tiny 1.0.0  ")
    assert (plugged.folder / "tiny" / PLUGIN_ENGINE).is_file()


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ((), "cli.missing-option"),
        (("--vllm", VERSION, "--tree", "vllm-tiny==1.0.0"), "cli.conflicting-options"),
        (("--vllm", "0.99"), "source.no-such-release"),
    ],
)
def test_a_source_that_is_not_named_well(plugged, args, code):
    run = plugged.run("source", *args, "src", code=2)
    assert run.codes == (code,)
    assert not (plugged.folder / "src").exists()


def test_a_folder_that_cannot_be_says_what_to_name_instead(project):
    (project.folder / "file").write_text("")
    run = project.run("source", "--vllm", VERSION, "file/src", code=2)
    assert run.codes == ("checkout.bad-path",)
    assert "--checkout" not in run.err
