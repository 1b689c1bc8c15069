from __future__ import annotations

import compileall
import os
import subprocess
import sys

import pytest

from tests.helpers import fails
from tests.projects import snapshot, write_tree
from vpatch.engine.environment import Engine
from vpatch.engine.overlay import as_released, make_overlay, on_top
from vpatch.planning.state import Change

FILES = {
    "vllm/__init__.py": b"",
    "vllm/a.py": b"VALUE = 1\n",
    "vllm/inner/__init__.py": b"",
    "vllm/inner/b.py": b"from vllm.a import VALUE\n",
    "vllm/_C.so": b"\x7fELF",
}
EDIT = {"vllm/a.py": Change(FILES["vllm/a.py"], b"VALUE = 2\n")}


@pytest.fixture
def package(tmp_path):
    return write_tree(tmp_path / "site", FILES) / "vllm"


def value(path, bytecode=""):
    code = "import vllm.inner.b as b, vllm.a as a; print(b.VALUE, a.__cached__)"
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(path), "PYTHONDONTWRITEBYTECODE": bytecode},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.split()[0]


def test_the_overlay_has_the_change_and_the_package_has_not(package, tmp_path):
    before = snapshot(package)
    assert value(make_overlay(package, EDIT, tmp_path / "run")) == "2"
    assert value(package.parent) == "1"
    assert value(make_overlay(package, {}, tmp_path / "pristine")) == "1"
    assert (tmp_path / "run" / "vllm" / "_C.so").read_bytes() == FILES["vllm/_C.so"]
    assert {k: v for k, v in snapshot(package).items() if "__pycache__" not in k} == before


def test_a_file_of_the_build_that_is_not_the_releases_is_replaced(package, tmp_path, monkeypatch):
    released = Change(b"VALUE = 10\n", b"VALUE = 20\n")
    new = Change(None, b"")
    touched = {"vllm/a.py": released, "vllm/new.py": new}
    monkeypatch.setattr("vpatch.engine.overlay.overall_changes", lambda _: touched)
    engine = Engine(sys.executable, package, "cpu", "0.50.0", is_managed=True)
    below = as_released(engine, None)
    assert below == {"vllm/a.py": Change(b"VALUE = 1\n", b"VALUE = 10\n")}
    assert value(make_overlay(package, below, tmp_path / "pristine")) == "10"
    patched = on_top(below, touched)
    assert patched["vllm/new.py"] == new
    assert value(make_overlay(package, patched, tmp_path / "patched")) == "20"
    # Somebody's own environment is not corrected: it is refused.
    own = Engine(sys.executable, package, "cpu", "0.50.0")
    assert as_released(own, None) == {}
    with fails("engine.files-differ", "the installed file is"):
        make_overlay(package, touched, tmp_path / "own")


def test_bytecode_of_a_replaced_file_is_not_taken(package, tmp_path):
    # Bytecode that is valid whatever the source says, as some installers make it.
    compileall.compile_dir(
        package, quiet=1, invalidation_mode=compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    overlay = make_overlay(package, EDIT, tmp_path / "run")
    assert value(overlay, bytecode="1") == "2"
    assert sorted(p.name.split(".")[0] for p in (overlay / "vllm/__pycache__").iterdir()) == [
        "__init__"
    ]
    assert (overlay / "vllm/inner/__pycache__").is_dir()


def test_new_files_and_files_outside_the_package(package, tmp_path):
    changes = {
        "vllm/new/c.py": Change(None, b"x = 1\n"),
        "cmake/deep.cmake": Change(b"old", b"new"),
        "vllm_other/d.py": Change(b"old", b"new"),
    }
    overlay = make_overlay(package, changes, tmp_path / "run")
    assert (overlay / "vllm/new/c.py").read_bytes() == b"x = 1\n"
    assert sorted(os.listdir(overlay)) == ["vllm"]  # noqa: PTH208


def test_folders_that_are_links(package, tmp_path):
    write_tree(tmp_path / "elsewhere", {"__init__.py": b"VALUE = 3\n"})
    (package / "linked").symlink_to(tmp_path / "elsewhere")
    (package / "round").symlink_to(package)
    overlay = make_overlay(package, EDIT, tmp_path / "run")
    assert (overlay / "vllm/linked/__init__.py").read_bytes() == b"VALUE = 3\n"
    assert not (overlay / "vllm/round").exists()


@pytest.mark.parametrize(
    ("path", "before", "message"),
    [
        ("vllm/a.py", b"VALUE = 0\n", "the installed file is sha256:"),
        ("vllm/none.py", b"VALUE = 0\n", "the installed file is absent"),
        ("vllm/a.py", None, "the tree's is absent"),
    ],
)
def test_an_installed_file_that_is_not_the_trees(package, tmp_path, path, before, message):
    with fails("engine.files-differ", message) as caught:
        make_overlay(package, {path: Change(before, b"")}, tmp_path / "run")
    assert caught.value.where == str(package.parent / path)
    assert not (tmp_path / "run").exists()
