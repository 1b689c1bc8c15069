"""What holds for every command, each in a process of its own."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys

import pytest

from tests.projects import VERSION
from vpatch import __version__
from vpatch import main as cli
from vpatch.registry import COMMANDS, RESULTS
from vpatch.workspace import selection

# With the commands below them that print JSON, such as `evidence list`.
NAMES = [name.split() for name in sorted({*COMMANDS, *RESULTS})]


@pytest.mark.parametrize("command", [[], *NAMES], ids=" ".join)
def test_help(empty, command):
    run = empty.run(*command, "--help", in_process=bool(command))
    assert run.out.startswith(f"Usage: vpatch {' '.join(command)}".rstrip())
    assert "Options:" in run.out
    assert run.err == ""
    assert empty.run(*command, "-h").out == run.out


def test_help_has_every_command(empty):
    out = empty.run("--help").out
    for command in NAMES:
        assert re.search(rf"^  .* {command[0]} ", out, re.MULTILINE)
    assert "0 clean, 1 findings" in " ".join(out.split())


@pytest.mark.parametrize("group", [(), ("evidence",), ("bench",), ("checkpoint",), ("cache",)])
def test_help_shows_what_each_command_does_in_full(empty, group):
    assert "..." not in empty.run(*group, "--help").out.partition("\nCommands:\n")[2]


def test_version(empty):
    assert empty.run("--version", in_process=False).out == f"vpatch, version {__version__}\n"


def test_an_unknown_command(empty):
    run = empty.run("aply", code=2)
    assert run.codes == ("cli.no-such-command",)
    assert run.err == (
        "error: there is no command 'aply'\n"
        "  next: did you mean 'vpatch apply'? If not, vpatch --help lists all commands\n"
    )
    assert run.out == ""


@pytest.mark.parametrize(
    ("args", "what", "hint"),
    [
        (
            ["evidence", "lst"],
            "there is no command 'lst'",
            (
                "did you mean 'vpatch evidence list'? If not, vpatch evidence --help lists all "
                "commands"
            ),
        ),
        (["xyzzy"], "there is no command 'xyzzy'", "vpatch --help lists all commands"),
        (
            ["show", "--jsn", "x"],
            "no such option '--jsn'",
            "did you mean '--json'? If not, see vpatch show --help",
        ),
        (
            ["build-image", "--mode", "x"],
            "invalid value for '--mode': 'x' is not one of 'overlay', 'source', 'cpu'",
            "write vpatch build-image [OPTIONS]; see vpatch build-image --help",
        ),
        (
            ["audit", "--fail-on", "hi"],
            (
                "invalid value for '--fail-on': 'hi' is not one of 'low', 'moderate', 'high', "
                "'critical'"
            ),
            "did you mean 'high'? If not, see vpatch audit --help",
        ),
        (
            ["import", "--from-tree", "/none"],
            "invalid value for '--from-tree': Directory '/none' does not exist",
            "correct the path; see vpatch import --help",
        ),
        (
            ["import", "fix.diff"],
            "missing option '--vllm'",
            "add --vllm VERSION; see vpatch import --help",
        ),
        (
            ["apply", "more"],
            "got unexpected extra argument (more)",
            "write vpatch apply [OPTIONS]; see vpatch apply --help",
        ),
        (
            ["apply", "--vllm"],
            "option '--vllm' requires an argument",
            "see vpatch --help",
        ),
        (
            ["diagnose"],
            "missing argument 'LOGFILE...'",
            "write vpatch diagnose [OPTIONS] LOGFILE...; see vpatch diagnose --help",
        ),
    ],
)
def test_a_wrong_command_line(empty, args, what, hint):
    run = empty.run(*args, code=2)
    assert run.err == f"error: {what}\n  next: {hint}\n"
    codes = {"missing": "cli.missing-option", "there": "cli.no-such-command"}
    assert run.codes == (codes.get(what.split()[0], "cli.wrong-usage"),)
    if args[-1] != "--vllm":  # which takes --json for its value
        found = empty.run(*args, "--json", code=2).json_errors
        assert [(one["what"], one["hint"]) for one in found] == [(what, hint)]


def test_a_group_without_a_command_shows_its_help(empty):
    assert "Usage: vpatch evidence" in empty.run("evidence", code=2).err


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["apply", "--vllm", VERSION],
        ["status", "--vllm", VERSION],
        ["status", "--vllm", VERSION, "--why", "name-proj"],
        ["check"],
        ["list"],
        ["show", "name-proj"],
        ["test", "mtp-proj-prefix"],
        ["cache", "list"],
        ["cache", "clear"],
    ],
    ids=" ".join,
)
def test_json_is_one_document_and_nothing_else(applied, args):
    run = applied.run(*args, "--json", in_process=False)
    assert run.document["result"]
    assert run.out.endswith("}\n")


def test_a_fault_of_ours_ends_with_3(project, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("oops")

    monkeypatch.setattr(selection, "resolve", broken)
    run = project.apply(code=3)
    assert "ZeroDivisionError: oops" in run.err
    assert run.err.endswith("this is a fault of vpatch; please report it with the lines above\n")
    assert run.out == ""


def test_a_fault_of_the_machine_is_said_without_a_traceback(project, monkeypatch):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, "No space left on device", "/some/file")

    monkeypatch.setattr(selection, "resolve", full)
    run = project.apply(code=4)
    assert "error: /some/file: No space left on device\n  next: " in run.err
    assert run.codes == ("util.os-error",)
    assert "Traceback" not in run.err
    assert project.apply("--json", code=4).json_errors[0]["where"] == "/some/file"


@pytest.mark.parametrize("number", [errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR])
def test_a_path_that_cannot_be_is_no_fault_of_the_machine(project, monkeypatch, number):
    def refused(*_, **__):
        raise OSError(number, os.strerror(number), "/some/file")

    monkeypatch.setattr(selection, "resolve", refused)
    run = project.apply(code=2)
    assert (
        f"error: /some/file: {os.strerror(number)}\n  next: correct the path /some/file" in run.err
    )
    assert run.codes == ("util.bad-path",)


def test_a_log_with_a_name_that_is_too_long(project):
    run = project.run("list", "--log-file", "n" * 300, code=2)
    assert run.codes == ("util.bad-path",)


def test_an_interrupt_ends_with_130(project, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "resolve", interrupted)
    run = project.apply(code=130)
    assert run.err.strip() == "interrupted; nothing was left half done"


def test_an_interrupt_while_a_class_is_made_is_no_fault(project, monkeypatch):
    """Python makes a RuntimeError of it."""

    class Field:
        def __set_name__(self, *_):
            raise KeyboardInterrupt

    def importing(*_, **__):
        type("Node", (), {"field": Field()})

    monkeypatch.setattr(selection, "resolve", importing)
    run = project.apply(code=130)
    assert run.err.strip() == "interrupted; nothing was left half done"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_second_interrupt_does_not_cut_off_the_clearing_up(project, monkeypatch, number):
    cleared = []

    def interrupted(*_, **__):
        try:
            signal.raise_signal(number)
        finally:
            signal.raise_signal(number)
            signal.raise_signal(signal.SIGINT)
            cleared.append(1)

    monkeypatch.setattr(selection, "resolve", interrupted)
    run = project.apply(code=130)
    assert cleared
    assert run.err.strip() == "interrupted; nothing was left half done"


def test_an_interrupt_long_after_another_counts(monkeypatch):
    """What hangs while it clears up can be ended."""
    now = 100.0
    monkeypatch.setattr(cli.time, "monotonic", lambda: now)
    interrupt = cli._Interrupt()
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)
    now = 104.0
    interrupt(signal.SIGINT, None)
    now = 106.0
    with pytest.raises(KeyboardInterrupt):
        interrupt(signal.SIGINT, None)


EARLY = """
import signal, sys
import vpatch.__main__

class Finder:
    def find_spec(self, name, *_):
        if name == "vpatch.main":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Finder())
vpatch.__main__.run()
"""


def test_an_interrupt_before_anything_began_shows_no_traceback():
    command = [cli.sys.executable, "-c", EARLY]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (-signal.SIGINT, "")


def test_a_reader_that_has_enough_is_no_fault(project):
    command = f"{cli.sys.executable} -m vpatch list | head -1"
    run = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=project.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0
    assert run.stderr == ""
    assert run.stdout.count("\n") == 1


def test_a_broken_pipe_is_no_fault(project):
    read, write = cli.os.pipe()
    cli.os.close(read)
    process = subprocess.run(
        [cli.sys.executable, "-m", "vpatch", "list"],
        cwd=project.folder,
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    cli.os.close(write)
    assert (process.returncode, process.stderr) == (0, "")


CYCLES = """
import gc, sys
from vpatch.main import main

sys.argv = ["vpatch", "--version"]
try:
    main()
except SystemExit:
    pass

class Node:
    pass

before = len(gc.get_objects())
for _ in range(200_000):
    node = Node()
    node.itself = node
print(len(gc.get_objects()) - before)
"""


def test_what_a_long_run_leaves_behind_is_collected():
    """As polling a server does for hours: each request leaves cycles."""
    command = [cli.sys.executable, "-c", CYCLES]
    run = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(run.stdout.split()[-1]) < 20_000


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(
    "command",
    ["list", "status --vllm 0.50", "status --vllm 0.50 --json", "cache list", "schema patch"],
)
def test_a_stream_that_the_shell_closed(project, command, closed):
    """What would be printed goes nowhere, and no file gets its number."""
    project.run("status", "--vllm", VERSION)  # the archive is in the cache then
    line = f"{sys.executable} -m vpatch {command} {closed}"
    run = subprocess.run(
        ["sh", "-c", f"{line}; echo ended with $? >> ended"],
        cwd=project.folder,
        env=os.environ | project.env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (project.folder / "ended").read_text() == "ended with 0\n", run.stderr
    assert "Traceback" not in run.stdout + run.stderr
