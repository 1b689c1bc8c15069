"""Scripts run on a copy of the release, and can do nothing else."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests.helpers import fails, skip_without_bubblewrap, tree_of
from vpatch.changes.stack import Stack
from vpatch.commands.importing.sources.script import DEFAULT_PLACE, from_script
from vpatch.confinement import sandbox

FILES = {"vllm/__init__.py": "", "vllm/a.py": "f(1)\n", "pyproject.toml": ""}
FIND = """
import importlib.util, pathlib
file = pathlib.Path(importlib.util.find_spec("vllm").origin).parent / "a.py"
"""


@pytest.fixture(autouse=True, scope="module")
def _bubblewrap():
    skip_without_bubblewrap()


def run(folder, text, name="fix.py", at=DEFAULT_PLACE):
    script = folder / name
    script.write_text(text)
    tree = tree_of(FILES)
    return from_script(script, Stack(tree), at)


def files_of(changes):
    (change,) = changes
    return {file.path: file.after for file in change.files}


def test_what_a_script_changes_is_the_change(tmp_path):
    text = f"{FIND}file.write_text('g(1)\\n')\n(file.parent / 'new.py').write_text('x\\n')\n"
    changes = run(tmp_path, text)
    assert files_of(changes) == {"vllm/a.py": b"g(1)\n", "vllm/new.py": b"x\n"}
    assert (changes[0].id, changes[0].where) == ("fix", str(tmp_path / "fix.py"))


def test_a_shell_script_runs_in_the_root(tmp_path):
    changes = run(tmp_path, "sed -i 's/f(1)/g(1)/' vllm/a.py\n", "fix.sh")
    assert files_of(changes) == {"vllm/a.py": b"g(1)\n"}


def test_a_program_runs_by_its_first_line(tmp_path):
    (tmp_path / "fix").touch(mode=0o755)
    changes = run(tmp_path, "#!/bin/sh -e\necho 'g(1)' > vllm/a.py\n", "fix")
    assert files_of(changes) == {"vllm/a.py": b"g(1)\n"}


@pytest.mark.parametrize(
    "place",
    ["/usr/local/lib/python3.12/dist-packages", "/nowhere/vllm", "/tmp/vllm/src"],  # noqa: S108
)
def test_a_script_sees_the_release_where_it_looks_for_it(tmp_path, place):
    assert not (Path(place) / "vllm").exists()
    text = f"set -e\ntest -x /bin/sh\necho 'g(1)' > {place}/vllm/a.py\n"
    assert files_of(run(tmp_path, text, "fix.sh", Path(place)))
    assert not (Path(place) / "vllm").exists()


@pytest.mark.parametrize("place", ["vllm", "/"])
def test_a_place_is_an_absolute_path(tmp_path, place):
    with fails("cli.bad-value", "no absolute path"):
        run(tmp_path, "", at=Path(place))


@pytest.mark.parametrize(
    "place",
    ["/usr/local/lib/python3.12/dist-packages", "/nowhere/vllm", "/tmp/vllm"],  # noqa: S108
)
def test_a_script_changes_nothing_else(tmp_path, place):
    outside = Path.home() / "vpatch-test-outside"
    places = [outside, Path("/etc/vpatch-test-outside"), Path(place).parent / "outside"]
    text = "".join(f"echo x > {one} || true\n" for one in places)
    run(tmp_path, f"{text}echo 'g(1)' > vllm/a.py\n", "fix.sh", Path(place))
    assert not any(one.exists() for one in places)


def test_a_script_that_leaves_the_tree_fails(tmp_path):
    outside = Path.home() / "vpatch-test-outside"
    with fails("importing.script-failed", "Read-only file system"):
        run(tmp_path, f"set -e\necho x > {outside}\n", "fix.sh")
    assert not outside.exists()


def test_a_script_that_touches_the_network_fails(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with fails("importing.script-failed", "Connection refused|unreachable"):
            run(tmp_path, f"import socket\nsocket.create_connection(('127.0.0.1', {port}))\n")
        server.setblocking(False)
        with pytest.raises(BlockingIOError):
            server.accept()


def test_a_script_gets_no_secrets_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "secret")
    text = f"{FIND}import os\nfile.write_text(repr(sorted(os.environ)))\n"
    (names,) = files_of(run(tmp_path, text)).values()
    assert b"PATH" in names
    assert b"HF_TOKEN" not in names


def test_a_script_that_changes_nothing_is_an_error(tmp_path):
    with fails("importing.nothing-left", "anchor not found"):
        run(tmp_path, "print('anchor not found, skipped')\n")


def test_a_script_that_fails_shows_what_it_said(tmp_path):
    with fails("importing.script-failed", "ended with 3\n  no anchor"):
        run(tmp_path, "echo no anchor >&2\nexit 3\n", "fix.sh")


def test_a_script_that_takes_a_module_away_is_an_error(tmp_path):
    with fails("importing.missing-files", "vllm/a.py"):
        run(tmp_path, "rm vllm/a.py\necho x > vllm/b.py\n", "fix.sh")


def test_without_a_sandbox_nothing_runs(tmp_path, monkeypatch):
    monkeypatch.setattr(sandbox.shutil, "which", lambda _: None)
    with fails("importing.no-sandbox", "bubblewrap"):
        run(tmp_path, f"{FIND}file.write_text('g(1)')\n")
