from __future__ import annotations

import os

import pytest

from tests.helpers import fails
from tests.projects import snapshot, write_tree
from vpatch.engine.environment import Engine
from vpatch.harness.sandbox import OverlaySandbox, lay_over
from vpatch.planning.state import Change
from vpatch.util.digest import digest_of

FILES = {
    "vllm/__init__.py": b"",
    "vllm/a.py": b"VALUE = 1\n",
    "plugin/__init__.py": b"",
    "plugin/p.py": b"x\n",
    "namespace/n.py": b"x\n",
}
EDIT = {"vllm/a.py": Change(b"VALUE = 1\n", b"VALUE = 2\n")}
PLUGIN = {"plugin/p.py": Change(b"x\n", b"y\n"), "plugin/new.py": Change(None, b"z\n")}


@pytest.fixture
def engine(tmp_path):
    packages = write_tree(tmp_path / "packages", FILES)
    return Engine(tmp_path / "python", packages / "vllm", "cpu", "0.23.0")


def read(sandbox, path):
    """A file as Python would find it: in the first folder that has its package."""
    package = path.partition("/")[0]
    return next(root / path for root in sandbox.path if (root / package).is_dir()).read_bytes()


def test_changes_of_some_trees_are_laid_over(engine, tmp_path):
    before = snapshot(engine.package.parent)
    sandbox = lay_over(engine, [EDIT, PLUGIN], tmp_path / "room")
    assert read(sandbox, "vllm/a.py") == b"VALUE = 2\n"
    assert read(sandbox, "plugin/p.py") == b"y\n"
    assert read(sandbox, "plugin/new.py") == b"z\n"
    assert sandbox.digests == {
        "vllm/a.py": digest_of(b"VALUE = 2\n"),
        "plugin/p.py": digest_of(b"y\n"),
        "plugin/new.py": digest_of(b"z\n"),
    }
    assert sandbox.python == engine.python
    assert snapshot(engine.package.parent) == before
    sandbox.verify()


def test_the_pristine_tree_is_laid_over_too(engine, tmp_path):
    sandbox = lay_over(engine, [{}, {}], tmp_path / "room")
    assert len(sandbox.path) == 1
    assert read(sandbox, "vllm/a.py") == b"VALUE = 1\n"
    assert (sandbox.digests, sandbox.verify()) == ({}, None)


@pytest.mark.parametrize("changes", [[EDIT], [{}, PLUGIN]])
def test_an_installed_file_that_is_not_the_trees(engine, tmp_path, changes):
    path = next(iter(changes[-1]))
    (engine.package.parent / path).write_bytes(b"other\n")
    with fails("engine.files-differ", "the installed file is sha256:") as caught:
        lay_over(engine, changes, tmp_path / "room")
    assert caught.value.where == str(engine.package.parent / path)
    assert "unmodified vLLM" in caught.value.hint


@pytest.mark.parametrize("path", ["setup.py", "csrc/ops.cu", "namespace/n.py", "absent/a.py"])
def test_a_change_outside_packages(engine, tmp_path, path):
    changes = {**EDIT, path: Change(FILES.get(path), b"y")}
    with fails("harness.not-installed", path) as e:
        lay_over(engine, [changes], tmp_path / "room")
    assert e.value.where == str(engine.package.parent)
    assert "leave out its patch" in e.value.hint


@pytest.mark.parametrize("path", ["vllm/a.py", "plugin/new.py"])
@pytest.mark.parametrize("content", [b"VALUE = 3\n", None])
def test_a_patched_file_that_is_tampered_with(engine, tmp_path, path, content):
    sandbox = lay_over(engine, [EDIT, PLUGIN], tmp_path / "room")
    (file,) = (root / path for root in sandbox.path if (root / path).exists())
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    with fails("harness.files-changed") as caught:
        sandbox.verify()
    found = "absent" if content is None else digest_of(content)[:23]
    assert caught.value.what == f"the patched file is {found}, but was {sandbox.digests[path][:23]}"
    assert caught.value.where == path
    assert caught.value.hint == "find out what writes to it, then run the command again"


def test_a_file_that_hides_a_patched_one_is_found(engine, tmp_path):
    sandbox = lay_over(engine, [EDIT], tmp_path / "room")
    hiding = write_tree(tmp_path / "hiding", FILES)
    with fails("harness.files-changed"):
        OverlaySandbox(sandbox.python, (hiding, *sandbox.path), sandbox.digests).verify()


@pytest.mark.parametrize(
    "name", ["VLLM_USE_V1", "VLLM_LOGGING_LEVEL", "PYTHONPATH", "PYTHONSTARTUP"]
)
def test_what_the_caller_has_set_decides_nothing(monkeypatch, tmp_path, name):
    monkeypatch.setenv(name, "callers")
    sandbox = OverlaySandbox("python", ())
    assert sandbox.environment({}, tmp_path).get(name, "") != "callers"
    assert sandbox.environment({name: "declared"}, tmp_path)[name] == "declared"


def test_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    for name in ("PYTHONDONTWRITEBYTECODE", "VLLM_NO_USAGE_STATS"):
        monkeypatch.delenv(name, raising=False)
    sandbox = OverlaySandbox("python", (tmp_path / "a", tmp_path / "b"))
    given = sandbox.environment({"NEW": "1"}, tmp_path / "room")
    assert given["PYTHONPATH"] == f"{tmp_path / 'a'}{os.pathsep}{tmp_path / 'b'}"
    assert (given["VLLM_NO_USAGE_STATS"], given["PYTHONDONTWRITEBYTECODE"]) == ("1", "1")
    assert (given["CUDA_VISIBLE_DEVICES"], given["NEW"]) == ("3", "1")
    assert given["TMPDIR"] == str(tmp_path / "room")
    assert "NEW" not in os.environ
