"""Which files an import takes: a table of what may lie in a package."""

from __future__ import annotations

import os
import socket
import stat

import pytest

from tests.helpers import fails
from vpatch.engine.hidden import hidden_code, refuse_hidden
from vpatch.engine.import_path import ImportPath
from vpatch.engine.importable import files_of_package

SUFFIXES = (".cpython-399-x86_64-linux-gnu.so", ".abi3.so", ".so")
ENVS = "vllm/envs.py"


@pytest.fixture
def package(tmp_path):
    package = tmp_path / "site" / "vllm"
    (package / "models").mkdir(parents=True)
    for name in ("__init__.py", "envs.py", "models/__init__.py", "models/llama.py"):
        (package / name).write_text("")
    return package


def file(path, content=""):
    def write(package):
        (package / path).parent.mkdir(parents=True, exist_ok=True)
        (package / path).write_text(content)

    return write


def link(path, target):
    def make(package):
        place = package / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.is_dir():
            place.rename(package.parent.parent / "moved")
        place.unlink(missing_ok=True)
        place.symlink_to(target)

    return make


def pipe(path):
    def make(package):
        (package / path).unlink(missing_ok=True)
        os.mkfifo(package / path)

    return make


def bound(package):
    os.chdir(package)
    (package / "envs.py").unlink()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("envs.py")


HIDING = [
    (file("envs.cpython-399-x86_64-linux-gnu.so"), ENVS, "is hidden by vllm/envs.cpython-399"),
    (file("envs.abi3.so"), ENVS, "is hidden by vllm/envs.abi3.so"),
    (file("envs.so"), ENVS, "is hidden by vllm/envs.so"),
    (file("envs/__init__.py"), ENVS, "is hidden by vllm/envs/__init__.py"),
    (file("envs/__init__.abi3.so"), ENVS, "is hidden by vllm/envs/__init__.abi3.so"),
    (file("envs/__init__.pyc"), ENVS, "is hidden by vllm/envs/__init__.pyc"),
    (file("__init__.so"), "vllm/__init__.py", "is hidden by vllm/__init__.so"),
    (file("models/llama/__init__.py"), "vllm/models/llama.py", "is hidden by vllm/models/llama/"),
    (link("models", "/nowhere"), "vllm/models", "cannot be looked at: No such file"),
    (link("models", "../../moved"), "vllm/models", "is a link to the folder ../../moved"),
    (link("models2", "models"), "vllm/models2", "is a link to the folder models"),
    (link("__pycache__", "models"), "vllm/__pycache__", "is a link to the folder models"),
    (pipe("envs.py"), ENVS, "is a pipe, and not a file"),
    (pipe("data.json"), "vllm/data.json", "is a pipe, and not a file"),
    (link("envs.py", "/dev/zero"), ENVS, "is a device, and not a file"),
    (bound, ENVS, "is a socket, and not a file"),
]


@pytest.mark.parametrize(("change", "path", "what"), HIDING)
def test_what_hides_a_source_is_named(package, change, path, what, monkeypatch):
    monkeypatch.chdir(package)
    change(package)
    found = files_of_package(package, SUFFIXES).hidden
    assert list(found) == [path]
    assert found[path].startswith(what)


HARMLESS = [
    file("envs.cpython-398-x86_64-linux-gnu.so"),
    file("envs/data.json"),
    file("envs.pyi"),
    file("envs.json"),
    file("envs.pyc"),
    file("Envs.so"),
    file("__pycache__/envs.cpython-399.pyc"),
]


@pytest.mark.parametrize("change", HARMLESS)
def test_what_no_import_takes_hides_nothing(package, change):
    change(package)
    assert not files_of_package(package, SUFFIXES).hidden


@pytest.mark.parametrize(
    "path",
    [
        "new.py",
        "new.so",
        "new.abi3.so",
        "new.pyc",
        "deep/er/new.pyc",
        "models/new.so",
        "__pycache__/new.py",
        "__pycache__/new.pyc",
        "__pycache__/new.so",
        "__pycache__/new/__init__.py",
    ],
)
def test_what_an_import_could_take_is_listed(package, path):
    before = files_of_package(package, SUFFIXES).importable
    file(path)(package)
    after = files_of_package(package, SUFFIXES).importable
    assert set(after) - set(before) == {f"vllm/{path}"}


def test_bytecode_with_the_tag_of_a_python_is_not_a_module(package):
    file("__pycache__/envs.cpython-399.opt-1.pyc")(package)
    assert not [path for path in files_of_package(package, ()).importable if "pyc" in path]


def test_a_file_that_lies_elsewhere_is_a_link(package, tmp_path):
    (tmp_path / "x.py").write_text("")
    link("envs.py", tmp_path / "x.py")(package)
    link("other.py", "envs.py")(package)
    link("same.py", "models/llama.py")(package)
    found = files_of_package(package, SUFFIXES)
    assert found.links == dict.fromkeys([ENVS, "vllm/other.py"], str(tmp_path / "x.py"))
    assert not found.hidden


def test_the_package_itself_may_not_be_a_link(package):
    package.rename(package.parent.parent / "elsewhere")
    package.symlink_to("../elsewhere")
    assert files_of_package(package, SUFFIXES).hidden == {"vllm": "is a link to ../elsewhere"}


@pytest.mark.usefixtures("package")
def test_the_folder_of_packages_may_be_one(tmp_path):
    (tmp_path / "lib64").symlink_to("site")
    found = files_of_package(tmp_path / "lib64" / "vllm", SUFFIXES)
    assert not found.hidden
    assert not found.links


def asked(package, **more):
    return ImportPath(
        package, (), package, True, None, SUFFIXES, None, (), **{"importers": (), **more}
    )


def test_commands_refuse_it(package):
    refuse_hidden(asked(package), package)
    with fails("engine.hidden-code", "\n    vllm: x has a part"):
        refuse_hidden(asked(package, importers=("x has a part",)), package)
    file("envs.so")(package)
    with fails("engine.hidden-code", "\n    vllm/envs.py: is hidden by vllm/envs.so") as caught:
        refuse_hidden(asked(package), package)
    assert caught.value.where == str(package)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all folders")
def test_a_folder_that_cannot_be_read(package):
    (package / "models").chmod(stat.S_IWUSR)
    with fails("engine.hidden-code", "cannot be read"):
        refuse_hidden(asked(package), package)
    (package / "models").chmod(0o755)


def test_many_are_counted(package):
    for number in range(12):
        pipe(f"m{number:02}.py")(package)
    with fails("engine.hidden-code", "and 2 more"):
        refuse_hidden(asked(package), package)
    assert len(hidden_code(asked(package), package).problems) == 12
