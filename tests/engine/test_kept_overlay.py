"""Overlays in the cache: what is in one, and that no half of one is ever used."""

from __future__ import annotations

import compileall
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.environments import environment_with_vllm
from tests.helpers import fails
from tests.projects import snapshot
from vpatch.engine import kept_overlay
from vpatch.engine.kept_overlay import (
    compose,
    make_kept,
    open_overlay,
    overlay_folder,
    patched_as_made,
)
from vpatch.engine.overlay_cache import list_overlays, refuse_colon, remove_overlay
from vpatch.errors import ExitCode
from vpatch.progress import Silent
from vpatch.util.digest import digest_of

ABOUT = {"vllm": "0.50.0", "patches": []}
PATCHED = {"engine.py": b"VALUE = 2\n", "new/file.py": b"VALUE = 3\n"}
UNCHECKED = compileall.py_compile.PycInvalidationMode.UNCHECKED_HASH


@pytest.fixture
def made(tmp_path):
    return environment_with_vllm(tmp_path / "env", {"vllm/engine.py": b"VALUE = 1\n"})


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def make(made, cache, about=None, patched=None):
    composition = compose(made.site / "vllm", about or ABOUT, patched or PATCHED, {})
    with make_kept(cache, composition, Silent()).lock:
        return overlay_folder(cache, composition.name)


def imported(packages, code):
    run = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    return run.stdout.strip()


def test_an_overlay_is_the_package_with_the_patched_files(made, cache):
    before = made.state()
    overlay = make(made, cache)
    package, installed = overlay / "packages" / "vllm", made.site / "vllm"
    for path, content in PATCHED.items():
        assert (package / path).read_bytes() == content
    assert (package / "_C.abi3.so").readlink() == installed / "_C.abi3.so"
    # Python files and data are no links: what looks beside itself finds the overlay.
    others = {path for path in installed.rglob("*") if path.is_file() and path.suffix != ".so"}
    for path in others - {installed / "engine.py"}:
        copy = package / path.relative_to(installed)
        assert not copy.is_symlink()
        assert copy.read_bytes() == path.read_bytes()
        assert copy.stat().st_mtime_ns == path.stat().st_mtime_ns
    assert patched_as_made(overlay, {path: digest_of(text) for path, text in PATCHED.items()})
    assert made.state() == before


def test_bytecode_comes_along_but_that_of_patched_files(made, cache):
    compileall.compile_dir(made.site / "vllm", quiet=1, invalidation_mode=UNCHECKED)
    package = make(made, cache) / "packages" / "vllm"
    names = {path.name.split(".")[0] for path in (package / "__pycache__").iterdir()}
    assert names == {"__init__", "_version"}
    code = "import vllm.engine as e, vllm._version as v; print(e.VALUE, v.__file__)"
    assert imported(package.parent, code) == f"2 {package / '_version.py'}"


def test_python_takes_the_bytecode_that_came_along(made, cache):
    compileall.compile_dir(made.site / "vllm", quiet=1)
    package = make(made, cache) / "packages" / "vllm"
    (copied,) = (package / "__pycache__").glob("_version.*")
    before = copied.stat()
    imported(package.parent, "import vllm._version, vllm.engine")
    assert copied.stat().st_mtime_ns == before.st_mtime_ns
    assert copied.stat().st_ino == before.st_ino
    # What had none has it in the overlay now.
    assert list((package / "__pycache__").glob("engine.*"))


def test_the_name_tells_the_contents_apart(made, cache):
    first = make(made, cache)
    assert make(made, cache) == first
    assert make(made, cache, patched={"engine.py": b"VALUE = 4\n"}) != first
    assert make(made, cache, about={**ABOUT, "patches": ["one"]}) != first
    (made.site / "vllm" / "_version.py").write_text("# edited by hand")
    assert make(made, cache) != first
    assert list_overlays(cache)[0].name.startswith("overlay-0.50.0-")
    assert len(list_overlays(cache)) == 4


def test_a_link_in_the_package_is_followed_once(made, cache, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "data.json").write_text("[]")
    (made.site / "vllm" / "linked").symlink_to(tmp_path / "elsewhere")
    (made.site / "vllm" / "round").symlink_to(made.site / "vllm")
    package = make(made, cache) / "packages" / "vllm"
    assert (package / "linked" / "data.json").read_text() == "[]"
    assert not (package / "round").exists()


@pytest.mark.parametrize("change", ["edited", "added", "removed", "linked elsewhere"])
def test_an_overlay_that_somebody_changed_is_refused(made, cache, change):
    package = make(made, cache) / "packages" / "vllm"
    wrong = package / ("_C.abi3.so" if change == "linked elsewhere" else "_version.py")
    if change == "edited":
        wrong.write_text("# by hand")
    elif change == "added":
        wrong = package / "more.py"
        wrong.touch()
    else:
        wrong.unlink()
    if change == "linked elsewhere":
        wrong.symlink_to("/nonexistent")
    with fails("engine.overlay-changed", "vpatch cache clear overlay-") as caught:
        make(made, cache)
    assert caught.value.where == str(wrong)
    (entry,) = list_overlays(cache)
    assert remove_overlay(cache, entry.name, Silent(), named=True) > 0
    make(made, cache)


def test_patched_files_that_are_not_as_made(made, cache):
    overlay = make(made, cache)
    digests = {path: digest_of(text) for path, text in PATCHED.items()}
    (overlay / "packages" / "vllm" / "engine.py").write_text("VALUE = 9\n")
    assert not patched_as_made(overlay, digests)
    assert not patched_as_made(cache / "none", digests)


def test_a_file_that_changes_while_it_is_copied(made, cache):
    composition = compose(made.site / "vllm", ABOUT, PATCHED, {})
    (made.site / "vllm" / "_version.py").write_text("# new")
    with fails("engine.files-changed", "it changed while it was copied"):
        make_kept(cache, composition, Silent())
    assert list_overlays(cache) == []
    assert list((cache / "staging").iterdir()) == []


# Makes an overlay, and kills itself at one of the calls that change something.
DYING = """
import os, shutil, signal, sys
from pathlib import Path
from vpatch.engine.kept_overlay import compose, make_kept
from vpatch.progress import Silent

left = int(sys.argv[3])

def counted(function):
    def call(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call

for name in ("mkdir", "write_bytes", "write_text", "symlink_to", "chmod", "rename"):
    setattr(Path, name, counted(getattr(Path, name)))
os.utime = counted(os.utime)
shutil.rmtree = counted(shutil.rmtree)
patched = {"engine.py": b"VALUE = 2\\n", "new/file.py": b"VALUE = 3\\n"}
composition = compose(Path(sys.argv[1]), {"vllm": "0.50.0", "patches": []}, patched, {})
make_kept(Path(sys.argv[2]), composition, Silent())
print(composition.name)
"""


def test_a_kill_at_any_moment_leaves_no_half_overlay(made, cache):
    before = made.state()
    whole = snapshot(make(made, cache.with_name("other")) / "packages")
    kills = 0
    for calls in range(0, 1000, 3):
        command = [sys.executable, "-c", DYING, made.site / "vllm", cache, str(calls)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert made.state() == before
        if run.returncode == 0:
            break
        assert run.returncode == -signal.SIGKILL, run.stderr
        kills += 1
        for entry in list_overlays(cache):
            assert snapshot(overlay_folder(cache, entry.name) / "packages") == whole
    assert kills > 10
    name = run.stdout.strip()
    assert snapshot(overlay_folder(cache, name) / "packages") == whole
    assert list((cache / "staging").iterdir()) == []


@pytest.mark.parametrize("name", ["write_bytes", "write_text", "mkdir", "rename"])
def test_a_full_disk_leaves_nothing(made, cache, monkeypatch, name):
    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = made.state()
    with monkeypatch.context() as patching:
        patching.setattr(Path, name, full)
        with fails("engine.overlay-not-written", "No space left on device") as caught:
            make(made, cache)
    assert caught.value.exit_code is ExitCode.ENVIRONMENT
    assert list_overlays(cache) == []
    assert not list(cache.glob("staging/*"))
    assert made.state() == before
    make(made, cache)


def test_an_overlay_that_goes_each_time(made, cache, monkeypatch):
    monkeypatch.setattr(kept_overlay, "_make", lambda *_: None)
    with fails("engine.overlay-removed"):
        make(made, cache)
    assert open_overlay(cache, "overlay-0.50.0-none", Silent()) is None


def test_an_overlay_that_cannot_be_removed(made, cache, monkeypatch):
    name = make(made, cache).name

    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("vpatch.engine.overlay_cache.Path.rename", refuse)
    with fails("engine.not-removed", "Operation not permitted"):
        remove_overlay(cache, name, Silent(), named=True)


def test_a_cache_that_the_path_cannot_name(tmp_path):
    refuse_colon(tmp_path)
    with fails("engine.colon-in-path"):
        refuse_colon(tmp_path / "a:b")
