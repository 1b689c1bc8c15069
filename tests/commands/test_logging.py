"""-v, -vv and --log-file."""

from __future__ import annotations

import logging
import os
import pty
import re
import shutil
import stat
import subprocess
import sys
from contextlib import suppress

import click
import pytest

from tests.projects import VERSION
from vpatch import main as cli
from vpatch.errors import UsageError
from vpatch.registry import COMMANDS
from vpatch.util.log_output import RunLog
from vpatch.workspace import selection

TOKEN = "t0ken-0f-the-environment"  # noqa: S105
PASSWORD = "pa55-0f-the-index"  # noqa: S105
IN_URL = "pa55-0f-a-repository"


def commands(command, path=()):
    yield path, command
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                yield from commands(command.get_command(context, name), (*path, name))


def test_every_command_takes_the_options():
    found = dict(commands(cli.cli))
    assert found.keys() > {(name,) for name in COMMANDS}
    for path, command in found.items():
        options = [option for param in command.params for option in param.opts]
        for name in ("-v", "--verbose", "--log-file"):
            assert options.count(name) == 1, path


@pytest.mark.slow
def test_nothing_is_logged_unasked(project):
    assert "INFO" not in project.apply(in_process=False).err
    run = project.run("show", "nope", code=2, in_process=False)
    assert run.err.startswith("error: there is no patch 'nope'\n  next: ")
    assert run.err.count("nope") == 1


@pytest.mark.parametrize(
    ("before", "after"), [(["-v"], []), ([], ["-v"]), (["--verbose"], [])], ids=str
)
def test_v_tells_what_is_done_and_how_long_it_takes(project, before, after):
    run = project.run(*before, "apply", "--vllm", VERSION, *after)
    assert f"INFO vpatch.source.network: asking the index {project.index.url}" in run.err
    assert "INFO vpatch.source.network: downloading " in run.err
    assert "INFO vpatch.planning.decider: name-proj is needed: " in run.err
    assert "INFO vpatch.main: ended with 0 after " in run.err
    assert "DEBUG" not in run.err
    assert "git -C" not in run.err
    run = project.run(*before, "status", "--vllm", VERSION, *after)
    assert f"INFO vpatch.source.cache: vllm-{VERSION} is in the cache: " in run.err


@pytest.mark.parametrize("args", [["-vv", "apply"], ["-v", "apply", "-v"], ["apply", "-v", "-v"]])
def test_vv_tells_the_commands_of_git_and_the_requests(project, args):
    run = project.run(*args, "--vllm", VERSION)
    assert "DEBUG vpatch.git.command: git -C " in run.err
    assert "DEBUG urllib3.connectionpool: http://127.0.0.1:" in run.err


def test_json_stays_clean(project):
    run = project.apply("-vv", "--json")
    assert run.json["checkouts"][0]["outcome"] == "created"
    assert "DEBUG vpatch.git.command: " in run.err


def test_the_file_has_all_whatever_is_on_the_screen(project):
    file = project.folder / "run.log"
    run = project.apply("--log-file", file)
    assert "INFO" not in run.err
    text = file.read_text(encoding="utf-8")
    assert "DEBUG vpatch.git.command: git -C " in text
    assert f"vpatch apply --vllm {VERSION} --log-file {file}" in text
    assert "INFO vpatch.main: ended with 0 after " in text
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_the_file_is_appended_to(project):
    file = project.folder / "run.log"
    project.run("list", "--log-file", file)
    project.run("show", "nope", "--log-file", file, code=2)
    text = file.read_text(encoding="utf-8")
    assert "ended with 0 after " in text
    assert "ERROR vpatch.main: there is no patch 'nope'" in text
    assert text.endswith(" s\n")


def test_the_file_has_what_was_shown(project):
    file = project.folder / "run.log"
    run = project.run("apply", "--vllm", VERSION, "--log-file", file)
    assert f"Downloading vllm-{VERSION}.tar.gz" in run.err
    assert f"vpatch.util.logged_progress: Downloading vllm-{VERSION}.tar.gz" in file.read_text(
        "utf-8"
    )
    file.unlink()
    project.run("--log-file", file, "aply", code=2)
    assert "ERROR vpatch.main: there is no command 'aply'" in file.read_text("utf-8")


def broken(*_, **__):
    raise UsageError("what went wrong", hint="mend it") from KeyError("the cause")


@pytest.mark.parametrize("options", [[], ["-v"], ["-vv"]])
def test_the_cause_of_an_error_is_told_at_vv_alone(project, monkeypatch, options):
    monkeypatch.setattr(selection, "resolve", broken)
    file = project.folder / "run.log"
    run = project.apply(*options, "--log-file", file, code=2)
    assert ("KeyError: 'the cause'" in run.err) == (options == ["-vv"])
    assert ("Traceback" in run.err) == (options == ["-vv"])
    assert run.err.count("error: what went wrong\n  next: mend it\n") == 1
    text = file.read_text(encoding="utf-8")
    assert "KeyError: 'the cause'" in text
    assert "The above exception was the direct cause" in text


def test_the_cause_of_a_fault_of_the_machine_is_told(project, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device", "/some/file")

    monkeypatch.setattr(selection, "resolve", full)
    assert ", in full\n" in project.apply("-vv", code=4).err


@pytest.mark.parametrize("options", [[], ["-v"], ["-vv"]])
def test_a_fault_of_ours_is_shown_once_and_logged(project, monkeypatch, options):
    def fault(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(selection, "resolve", fault)
    file = project.folder / "run.log"
    run = project.apply(*options, "--log-file", file, code=3)
    assert run.err.count("ZeroDivisionError: oops") == 1
    assert file.read_text(encoding="utf-8").count("ZeroDivisionError: oops") == 1


def test_a_file_that_cannot_be_written_is_refused(project):
    run = project.run("list", "--log-file", project.folder / "none" / "run.log", code=2)
    assert "run.log: the log cannot be written: No such file or directory\n  next: " in run.err
    assert run.out == ""


def test_a_disk_that_is_full_ends_the_log_and_not_the_run(project):
    run = project.run("list", "--log-file", "/dev/full", in_process=False)
    assert "name-proj" in run.out
    assert run.err == "note: the log /dev/full ends here: No space left on device\n"


def test_a_log_holds_no_secret(project):
    """Of the environment, of an index's URL, of a repository's, and of git's arguments."""
    file = project.folder / "run.log"
    named = project.index.url.replace("http://", f"http://me:{PASSWORD}@")
    project.env |= {"GH_TOKEN": TOKEN, "PIP_INDEX_URL": named, "GIT_TERMINAL_PROMPT": "0"}
    tree = f"plugin=http://me:{IN_URL}@127.0.0.1:9/{TOKEN}/x.git@v1"
    run = project.run("-vv", "--log-file", file, "apply", "--vllm", VERSION, "--tree", tree, code=4)
    text = file.read_text(encoding="utf-8")
    assert "git ls-remote -- http://127.0.0.1:9/***/x.git" in text
    assert "asking the index http://127.0.0.1:" in text
    assert re.search(r"vpatch\.git\.errors\.\w+: ", text)
    for shown in (text, run.err.partition("\nerror: ")[0]):
        for secret in (TOKEN, PASSWORD, IN_URL):
            assert secret not in shown


def test_a_traceback_in_a_log_holds_no_secret(project, monkeypatch):
    def fault(*_, **__):
        raise ZeroDivisionError(f"with {TOKEN}, from https://me:{IN_URL}@host/")

    monkeypatch.setattr(selection, "resolve", fault)
    project.env["GH_TOKEN"] = TOKEN
    file = project.folder / "run.log"
    run = project.apply("-vv", "--log-file", file, code=3)
    for shown in (run.err, file.read_text(encoding="utf-8")):
        assert "ZeroDivisionError: with ***, from https://host/" in shown
        assert TOKEN not in shown
        assert IN_URL not in shown


def test_others_text_does_nothing_to_a_terminal(project):
    file = project.folder / "run.log"
    run = project.run("show", "a\x1b[31mb", "-v", "--log-file", file, code=2)
    assert "\x1b" not in run.err
    assert "\x1b" not in file.read_text(encoding="utf-8")


def test_the_loggers_are_left_as_they_were(project):
    def state():
        loggers = [logging.getLogger(name) for name in (None, "vpatch", "urllib3")]
        return [(logger.level, list(logger.handlers)) for logger in loggers]

    before = state()
    project.run("-vv", "list", "--log-file", project.folder / "run.log")
    assert state() == before


def test_without_a_run_the_options_do_nothing():
    """As where somebody else looks at the commands, to document them."""
    with click.Context(cli.cli) as context:
        assert context.find_object(RunLog) is None
        cli.cli.parse_args(context, ["-vv", "list"])


def on_a_terminal(project, *args):
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "vpatch", *args],
        cwd=project.folder,
        env=os.environ | project.env | {"TERM": "xterm"},
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # Linux says so where the other side is closed
            while piece := os.read(ours, 4096):
                shown += piece
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


@pytest.mark.slow
def test_a_terminal_has_lines_instead_of_bars_beside_a_log(project):
    line = f"Downloading vllm-{VERSION}.tar.gz"
    apply = ("apply", "--vllm", VERSION)
    assert "\x1b[2K" in on_a_terminal(project, *apply)
    shutil.rmtree(project.cache)
    shown = on_a_terminal(project, *apply, "-v")
    assert line in shown
    assert "\x1b[2K" not in shown
