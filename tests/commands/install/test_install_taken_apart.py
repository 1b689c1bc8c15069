"""vpatch install and uninstall where somebody changed what an install left."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from tests.commands.install.installed import INFO, made
from tests.projects import ENGINE, LLAMA
from vpatch.commands.install.journal import ASIDE, JOURNAL
from vpatch.commands.install.replacement import KEPT

LOCK, NOTICE, RECORD = f"{INFO}/vpatch.lock", f"{INFO}/vpatch-NOTICE", f"{INFO}/RECORD"
INIT = "vllm/__init__.py"


@pytest.fixture
def env(project, tmp_path):
    return made(project, tmp_path)


def clear(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()


def folder(path):
    clear(path)
    path.mkdir()


def pipe(path):
    clear(path)
    os.mkfifo(path)


def circle(path):
    clear(path)
    path.symlink_to(path)


def elsewhere(path):
    """Put a link in its place."""
    target = path.parents[5] / f"elsewhere-{path.name}"
    shutil.move(path, target)
    path.symlink_to(target)


def file(path):
    clear(path)
    path.write_text("x")


def more(path):
    path.parent.mkdir(exist_ok=True)
    path.write_text("vllm/mine.py,,\n" + (path.read_text() if path.exists() else ""))


def made_by_the_install(path):
    """Let the lock say of a file of the release that the install made it."""
    lock = json.loads(path.read_text())
    new = next(one for one in lock["files"] if one["path"] == LLAMA) | {"path": INIT}
    digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    lock["files"].append(new | {"before": None, "after": digest})
    path.write_text(json.dumps(lock))


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (folder, LLAMA, f"{LLAMA}: was changed (name-proj)"),
        (pipe, LLAMA, f"{LLAMA}: was changed (name-proj)"),
        (circle, LLAMA, f"{LLAMA}: was changed (name-proj)"),
        (file, "vllm/models", f"{LLAMA}: was changed (name-proj)"),
        (elsewhere, "vllm/models", "vllm/models: is a link"),
        (folder, NOTICE, "vpatch-NOTICE: something else is in the place of a file"),
        (folder, LOCK, "vpatch install ran there, and vpatch.lock is missing"),
        (clear, LOCK, "vpatch install ran there, and vpatch.lock is missing"),
        (made_by_the_install, LOCK, f"vpatch.lock: was changed, at {INIT}"),
        (clear, f"{INFO}/{KEPT}", "vpatch install ran there, and vpatch.pristine is missing"),
        (file, f"{INFO}/{KEPT}", "vpatch install ran there, and vpatch.pristine is missing"),
        (elsewhere, f"{INFO}/{KEPT}", f"{KEPT}: is a link"),
        (elsewhere, f"{INFO}/{KEPT}/{ENGINE}", f"{ENGINE}: is no file any more"),
        (pipe, f"{INFO}/{KEPT}/{JOURNAL}", f"{JOURNAL}: is no file any more"),
        (folder, f"{INFO}/{KEPT}/{JOURNAL}", f"{JOURNAL}: something else is in the place of"),
        (clear, f"{INFO}/{KEPT}/RECORD", "RECORD: the copy from before the install is missing"),
        (more, f"{INFO}/{KEPT}/RECORD", "RECORD: the copy from before the install was changed"),
        (more, f"{INFO}/{KEPT}/sitecustomize.py", "sitecustomize.py: vpatch install did not put"),
        (more, f"{INFO}/{KEPT}/vllm/__pycache__/engine.cpython-311.pyc", "did not put it there"),
        (more, RECORD, "RECORD: was changed, at vllm/mine.py"),
    ],
)
def test_what_is_not_as_the_install_left_it_stops_an_uninstall(env, change, path, message):
    env.install()
    change(env.site / path)
    before = env.state()
    run = env.uninstall(code=1)
    assert run.codes == ("wheel.files-differ",)
    assert message in run.err
    assert "force-reinstall" in run.err
    assert env.state() == before


def test_a_file_that_grew_without_end(env, monkeypatch):
    env.install()
    os.truncate(env.site / LLAMA, 30_000)
    monkeypatch.setattr("vpatch.commands.install.replacement.LARGEST_FILE", 20_000)
    run = env.uninstall(code=1)
    assert f"{LLAMA}: was changed (name-proj)" in run.err


@pytest.mark.parametrize("change", [clear, folder])
def test_an_install_without_its_lock_is_no_wheel_of_vpatchs(env, change):
    env.install()
    change(env.site / LOCK)
    run = env.install(code=1)
    assert run.codes == ("wheel.files-differ",)
    assert "vpatch install ran there, and vpatch.lock is missing" in run.err


@pytest.mark.parametrize("change", [more, elsewhere])
def test_what_is_in_the_way_of_the_journal_goes(env, change):
    before = env.state()
    env.install()
    (env.site / INFO / ASIDE).write_text("")
    if change is elsewhere:
        elsewhere(env.site / INFO / ASIDE)
    env.uninstall()
    assert env.state() == before


def test_a_folder_with_the_name_of_bytecode_stays(env):
    env.install()
    folders = env.site / "vllm" / "__pycache__" / "engine.cpython-311.pyc"
    folders.mkdir(parents=True)
    env.uninstall()
    assert folders.is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_ctrl_c_waits_for_the_steps(env, monkeypatch, command, number):
    """It says that nothing is half done."""
    before = env.state()
    if command == "uninstall":
        env.install()
    replace = Path.replace

    def interrupt(path, target):
        if ASIDE in path.parts:
            signal.raise_signal(number)
        return replace(path, target)

    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGHUP)}
    with monkeypatch.context() as interrupted, suppress(KeyboardInterrupt):
        interrupted.setattr(Path, "replace", interrupt)
        run = getattr(env, command)(code=130)
        assert "nothing was left half done" in run.err
    for one, handler in handlers.items():
        signal.signal(one, handler)
    if command == "install":
        assert env.verify("--json").json["state"] == "installed"
    else:
        assert env.state() == before
