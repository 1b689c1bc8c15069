"""The Python behind a command: which one, and in which folder it looks first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.environments import bare_environment
from tests.helpers import fails
from vpatch.engine.command import find_command


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return bare_environment(tmp_path / "env")


def found(made, *words, **more):
    return find_command([str(word) for word in words], made.variables | more)


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ([], "."),
        (["-"], "."),
        (["-c", "pass", "-I"], "."),
        (["-m", "tools.it", "-E"], "."),
        (["-um", "tools.it"], "."),
        (["-W", "error", "tools/it.py"], "tools"),
        (["-Werror", "-X", "dev", "tools/it.py", "-I"], "tools"),
        (["--check-hash-based-pycs", "always", "tools/it.py"], "tools"),
        (["tools"], "tools"),
        (["linked.py"], "tools"),
        (["-P", "tools/it.py"], None),
    ],
    ids=str,
)
def test_where_a_python_looks_first(made, tmp_path, options, first):
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "it.py").touch()
    (tmp_path / "linked.py").symlink_to("tools/it.py")
    command = found(made, "python", *options)
    assert command.python == made.python
    assert command.first == (None if first is None else tmp_path / first)
    assert found(made, "python", *options, PYTHONSAFEPATH="1").first is None


def test_a_script_is_searched_beside_it(made):
    assert found(made, made.script("tool")).first == made.bin


def test_a_python_is_not_followed_out_of_its_environment(made, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "python3.11").symlink_to(made.python)
    command = found(made, tmp_path / "other" / "python3.11", "-c", "pass")
    assert command.python == tmp_path / "other" / "python3.11"


@pytest.mark.parametrize("name", ["bash", "/bin/sh"])
def test_another_program_has_the_python_of_the_path(made, name):
    command = found(made, name)
    assert (command.python, command.is_python) == (made.bin / "python3", False)
    assert find_command([name], {"PATH": "/bin"}).is_python is False


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_script_of_an_environment_with_a_long_path(made, tmp_path, quote):
    other = bare_environment(tmp_path / ("a b" if quote else "other"))
    first = f"#!/bin/sh\n'''exec' {quote}{other.python}{quote} \"$0\" \"$@\"\n' '''"
    command = found(made, other.script("tool", first))
    assert (command.python, command.is_python) == (other.python, True)


def test_a_relative_path(made, tmp_path):
    made.script("tool")
    assert found(made, "env/bin/tool").program == tmp_path / "env" / "bin" / "tool"


@pytest.mark.parametrize(
    "options", [["-I"], ["-E"], ["-uE", "x.py"], ["-X", "dev", "-I", "-c", "pass"]], ids=str
)
def test_a_python_that_ignores_the_path_is_refused(made, options):
    with fails("engine.ignores-path", "and ignores PYTHONPATH"):
        found(made, "python", *options)


@pytest.mark.parametrize("first", ["#!{python} -I", "#!/usr/bin/env -S python -sE"])
def test_a_script_whose_python_ignores_the_path_is_refused(made, first):
    script = made.script("tool", first.format(python=made.python))
    with fails("engine.ignores-path") as caught:
        found(made, "tool")
    assert caught.value.where == str(script)


def test_a_script_whose_option_is_not_of_the_path(made):
    assert found(made, made.script("tool", f"#!{made.python} -sP")).first is None


def test_a_command_that_is_not_there(made, tmp_path):
    with fails("engine.no-command", "there is no program no-such") as caught:
        found(made, "no-such")
    assert caught.value.where == "PATH"
    for path in ("./no-such", "./env"):
        with fails("engine.no-command") as caught:
            found(made, path)
    (tmp_path / "plain").write_text("text")
    with fails("engine.no-command"):
        found(made, "./plain")


@pytest.mark.parametrize("text", ["print(1)\n", ""])
def test_a_file_that_names_no_interpreter(made, text):
    made.script("tool", "x" if text else " ", text)
    with fails("engine.no-command", "its first line names no interpreter"):
        found(made, "tool")


@pytest.mark.parametrize("first", ["#!/no/such/python3", "#!/usr/bin/env python3.99"])
def test_a_script_whose_python_is_gone(made, first):
    made.script("tool", first)
    with fails("engine.no-command", "and there is no such program"):
        found(made, "tool")


def test_this_python_is_one(made):
    assert found(made, sys.executable, "-c", "pass").python == Path(sys.executable)
