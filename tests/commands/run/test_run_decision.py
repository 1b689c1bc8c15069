"""What vpatch run refuses, before anything starts."""

from __future__ import annotations

import shutil

import pytest

from tests.helpers import fails
from tests.projects import NO_SUCH, VERSION, write_patch, write_tree
from vpatch.errors import ExitCode
from vpatch.library import catalog
from vpatch.library.catalog import installed
from vpatch.workspace.selection import Request

FILE = """
- add-file: {path}
  from: new.txt
"""


def add(asking, name, path, also=""):
    folder = write_patch(asking.project / "patches", name, FILE.format(path=path) + also)
    (folder / "new.txt").write_text("VALUE = 1\n")
    asking.trust()
    return Request(VERSION, patches=(name,))


@pytest.mark.parametrize(
    "path", ["csrc/kernel.cu", "CMakeLists.txt", "vllm/kernel.cu", "requirements/common.txt"]
)
def test_what_must_be_built_is_refused_with_the_patchs_name(asking, path):
    request = add(asking, "kernel", path)
    before = asking.made.state()
    with fails(
        "engine.must-be-built", f"kernel changes files that need a build: .*{path}"
    ) as caught:
        asking.ask(request, make=True)
    assert caught.value.exit_code is ExitCode.USAGE
    assert not (asking.cache / "overlays").exists()
    assert asking.made.state() == before


@pytest.mark.parametrize("path", ["vllm/new.py", "vllm/configs/new.json", "vllm/deep/er/new.py"])
def test_a_new_file_of_the_package(asking, path):
    found = asking.ask(add(asking, "new", path), make=True)
    assert found.files == [path]
    assert (found.overlay / "packages" / path).read_text() == "VALUE = 1\n"


def test_a_new_file_that_is_there_already(asking):
    request = add(asking, "new", "vllm/new.py")
    write_tree(asking.made.site, {"vllm/new.py": b"VALUE = 1\n"})
    with fails("engine.files-differ", "vllm/new.py"):
        asking.ask(request)


def test_tests_and_documentation_are_left_out(asking):
    request = add(asking, "new", "tests/test_new.py", FILE.format(path="vllm/new.py"))
    assert asking.ask(request).files == ["vllm/new.py"]


@pytest.mark.parametrize("how", ["edited", "removed", "a fork"])
def test_files_that_are_not_the_releases_are_named(asking, how):
    package = asking.made.site / "vllm"
    if how == "removed":
        (package / "engine.py").unlink()
    else:
        (package / "engine.py").write_text("# by hand\n")
    if how == "a fork":
        (package / "models" / "llama.py").write_text("# ours\n")
    before = asking.made.state()
    with fails("engine.files-differ", "vllm/engine.py") as caught:
        asking.ask(make=True)
    assert ("vllm/models/llama.py" in caught.value.what) == (how == "a fork")
    assert caught.value.where == str(package)
    assert caught.value.exit_code is ExitCode.FINDINGS
    assert not (asking.cache / "overlays").exists()
    assert asking.made.state() == before


def test_an_edited_file_that_no_patch_touches_comes_along(asking):
    (asking.made.site / "vllm" / "_version.py").write_text("__version__ = 'mine'\n")
    found = asking.ask(make=True)
    assert (found.overlay / "packages/vllm/_version.py").read_text() == "__version__ = 'mine'\n"


def test_many_files_are_counted(asking):
    names = [f"vllm/new{number:02}.py" for number in range(13)]
    request = add(asking, "new", names[0], "".join(FILE.format(path=name) for name in names[1:]))
    write_tree(asking.made.site, dict.fromkeys(names, b"x"))
    with fails("engine.files-differ", "vllm/new09.py and 3 more"):
        asking.ask(request)


def test_a_patch_that_does_not_fit_stops_the_run(asking):
    write_patch(asking.project / "patches", "tail", NO_SUCH)
    asking.trust()
    with fails("checkout.patch-stops", "tail is conflict"):
        asking.ask(Request(VERSION, patches=("tail",)))


def test_nothing_to_apply(asking, monkeypatch, tmp_path):
    for name in ("name-proj", "slow-mode"):
        shutil.rmtree(asking.project / "patches" / name)
    # A library of one patch: all of them take long to load.
    name = "mtp-proj-prefix"
    shutil.copytree(installed("patches") / name, tmp_path / "library" / name)
    monkeypatch.setattr(catalog, "installed", lambda _: tmp_path / "library")
    with fails("checkout.nothing-to-apply", "mtp-proj-prefix is absent"):
        asking.ask(Request(VERSION))


def test_another_tree_beside_it(asking):
    with fails("engine.several-trees", "this is vllm, vllm-ascend"):
        asking.ask(Request(VERSION, patches=("slow-mode",), trees=("vllm-ascend==9.9.9",)))


def test_a_source_that_is_no_release(asking, isolated):
    write_tree(isolated / "checkout")
    with fails("engine.no-release"):
        asking.ask(Request(str(isolated / "checkout"), patches=("slow-mode",)))
