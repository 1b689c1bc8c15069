"""What others wrote is shown on a terminal, and does nothing there."""

from __future__ import annotations

import ast
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import NAME_PROJ, NO_SUCH, VERSION
from vpatch import main as cli

# Colours, a window's title, a link, a clearing of the screen, C1, and a text turned around.
EVIL = "\x1b[31mred\x1b]0;title\x07\x1b]8;;http://a\x07\x1b[2J\x9b1m\u202eback\u2066 \x08\r"
HARMLESS = re.compile("\x1b\\[[0-9;]*m")
OBEYED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\r(?!\n)")


def on_a_terminal(project, *args, code, columns=300, errors=True):
    """Run a command with a terminal as its output, and return what reaches that."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "vpatch", *args],
        cwd=project.folder,
        env=os.environ | project.env | {"TERM": "xterm", "COLUMNS": str(columns)},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs if errors else subprocess.DEVNULL,
    ) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                some = os.read(ours, 1 << 16)
            except OSError:  # nobody has the other end any more
                break
            seen += some
    os.close(ours)
    assert process.returncode == code, seen
    return seen.decode()


def plant(project):
    file = project.patch("evil", NAME_PROJ) / "patch.yaml"
    quoted = json.dumps(f"[Bugfix] {EVIL}")
    text = file.read_text().replace('"[Bugfix] evil"', quoted)
    file.write_text(text.replace("Without it, the small model fails.", quoted))


@pytest.mark.parametrize("args", [["list"], ["show", "evil"]], ids=" ".join)
def test_nothing_of_a_patch_is_obeyed(project, args):
    plant(project)
    seen = on_a_terminal(project, *args, code=0)
    assert HARMLESS.findall(seen)
    assert not OBEYED.search(HARMLESS.sub("", seen)), seen
    assert "\x1b[31m" not in seen
    assert "\\u202eback" in seen


def test_nothing_of_an_error_is_obeyed(project):
    seen = on_a_terminal(project, "show", EVIL, code=2)
    assert not OBEYED.search(HARMLESS.sub("", seen)), seen
    assert "\\x1b[31mred\\x1b]0;title" in seen


@pytest.mark.slow
@pytest.mark.parametrize("args", [["diff"], ["show", "evil", "--diff"]], ids=" ".join)
def test_a_diff_is_for_programs_as_it_is(project, args):
    folder = project.patch("evil", "- {add-file: vllm/new.txt, from: new.txt}")
    (folder / "new.txt").write_text("\x1b[31m\x9b1m\n")
    project.apply()
    args = (*args, "--vllm", VERSION)
    assert "\n+\x1b[31m\x9b1m\n" in project.run(*args, in_process=False).out
    seen = on_a_terminal(project, *args, code=0)
    assert "+\\x1b[31m\\x9b1m" in seen
    assert not OBEYED.search(seen)


def test_what_the_encoding_has_not_is_no_fault(project):
    project.patch("evil", NAME_PROJ)
    file = project.folder / "patches" / "evil" / "patch.yaml"
    file.write_text(file.read_text().replace("[Bugfix] evil", "[Bugfix] \u6f22"), "utf-8")
    project.env |= {"PYTHONIOENCODING": "latin-1", "LC_ALL": "C"}
    assert "\\u6f22" in project.run("list", in_process=False).out


def test_only_one_module_styles():
    """Any other way would pass others' sequences on, or show its own as text."""
    package = Path(cli.__file__).parent
    files = [path for name in ("commands", "console") for path in (package / name).rglob("*.py")]
    assert len(files) > 200
    for file in [package / "main.py", *files]:
        if file == package / "console" / "output.py":
            continue
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                called = f"{node.value.id}.{node.attr}"
                assert called not in {"click.style", "click.secho", "sys.stdout.buffer"}, file


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["status"], 1),
        (["status", "--why", "z-tail"], 1),
        (["apply", "--patch", "name-proj"], 0),
        (["apply", "--patch", "z-tail"], 1),
    ],
    ids=str,
)
def test_a_narrow_terminal_breaks_lines_between_words(project, args, code):
    project.patch("z-tail", NO_SUCH)
    # The path of a checkout may be wider than the terminal.
    checkout = ["--checkout", "out"] if args[0] == "apply" else []
    command = [args[0], "--vllm", VERSION, *args[1:], *checkout]
    piped = project.run(*command, code=code).out
    if checkout and not code:
        shutil.rmtree(project.folder / "out")
    seen = on_a_terminal(project, *command, code=code, columns=40, errors=False)
    lines = HARMLESS.sub("", seen).splitlines()
    assert max(map(len, piped.splitlines())) > 40
    assert all(len(line) <= 40 or len(line.split()) <= 2 for line in lines)
    assert " ".join(lines).split() == piped.split()


PRINTS_BESIDE_A_BAR = """
import click
from vpatch.console.output import made_visible, style
from vpatch.console.progress import progress_for_terminal

with made_visible():
    progress = progress_for_terminal()
    task = progress.start("Working")
    click.echo(style("a result", fg="green") + " \x9b1m")
    progress.note("a note \x9b1m")
    # It reaches the stream in two parts.
    print("of Ray")
    task.done()
    click.echo("the end")
"""
ERASED = re.compile("[^\r\n]*\r\x1b\\[2K")


def lines_on(seen):
    """What a terminal shows in the end: a line that is erased is not there."""
    seen = re.sub("\x1b\\[\\?25[lh]", "", seen)
    # A bar ends its line, goes back up and erases it.
    seen = re.sub("\r\n\r\x1b\\[1A\x1b\\[2K", "\r\x1b[2K", seen)
    return ERASED.sub("", seen).splitlines()


@pytest.mark.parametrize("is_piped", [False, True])
def test_what_is_printed_beside_a_bar_takes_its_place(is_piped):
    """It is shown as always, and goes where it belongs if standard output is a file."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PRINTS_BESIDE_A_BAR],
        env=os.environ | {"TERM": "xterm", "COLUMNS": "80"},
        stdout=subprocess.PIPE if is_piped else theirs,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        piped = process.stdout.read().decode() if is_piped else ""
        seen = b""
        try:
            while some := os.read(ours, 1 << 16):
                seen += some
        except OSError:  # nobody has the other end any more
            pass
    os.close(ours)
    note = "\x1b[33mnote:\x1b[0m a note \\x9b1m"
    if is_piped:
        assert piped.splitlines() == ["a result \\x9b1m", "of Ray", "the end"]
        assert lines_on(seen.decode()) == [note]
    else:
        result = "\x1b[32ma result\x1b[0m \\x9b1m"
        assert lines_on(seen.decode()) == [result, note, "of Ray", "the end"]


@pytest.mark.parametrize("lost", ["a full disk", "a reader that is gone"])
def test_a_run_goes_on_without_standard_error(empty, lost):
    """Its exit code and its document are those of the same run with it."""
    if lost == "a full disk":
        end = os.open("/dev/full", os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    run = subprocess.run(
        [sys.executable, "-m", "vpatch", "show", "no-such", "--json"],
        cwd=empty.folder,
        stdout=subprocess.PIPE,
        stderr=end,
        check=False,
    )
    os.close(end)
    assert run.returncode == 2
    assert json.loads(run.stdout)["exit_code"] == 2
