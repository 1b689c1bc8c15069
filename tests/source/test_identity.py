from __future__ import annotations

import os

import pytest

from tests.helpers import fails
from tests.index_server import renamed, sdist
from vpatch.errors import ExitCode
from vpatch.source.spec import FolderSpec, GitSpec, PypiSpec

from .test_resolve import git, write

PACKAGE = {"vllm/__init__.py": b"", "vllm/engine.py": b"x = 1\n"}
SETUP = b'from setuptools import Extension, setup\nsetup(\n    name="vllm_ascend",\n)\n'


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_metadata_that_names_nothing(here, opening):
    write(here / "src", PACKAGE | {"pyproject.toml": b"[project]\nname = 1\n"})
    with fails("source.wrong-tree", "no metadata .* has that name"):
        opening(FolderSpec("vllm", "./src"))


@pytest.mark.parametrize(
    ("tree", "files"),
    [
        ("vllm", PACKAGE | {"vllm/version.py": b""}),
        ("vllm", PACKAGE | {"vllm/_version.py": b""}),
        ("vllm", PACKAGE | {"PKG-INFO": b"Metadata-Version: 2.1\nName: vllm\n"}),
        ("vllm", PACKAGE | {"pyproject.toml": b'[project]\nname = "vllm"\n'}),
        # A fork that renamed the distribution, and not the package.
        ("vllm", PACKAGE | {"vllm/version.py": b"", "pyproject.toml": b'project.name = "acme"\n'}),
        ("vllm-ascend", {"vllm_ascend/__init__.py": b"", "setup.py": SETUP}),
        ("vllm-metax", {"vllm_metax/__init__.py": b"", "vllm_metax/_version.py": b""}),
        ("acme", {"plugin/__init__.py": b"", "setup.cfg": b"[metadata]\nname = Acme\n"}),
    ],
)
def test_a_tree_is_what_it_is_called(here, opening, tree, files):
    write(here / "src", files)
    with opening(FolderSpec(tree, "./src")) as opened:
        assert opened.paths() == sorted(files)


@pytest.mark.parametrize(
    ("tree", "files", "what"),
    [
        ("vllm", {"a.txt": b""}, "it has no vllm/__init__.py"),
        ("vllm", {"vllm/engine.py": b""}, "it has no vllm/__init__.py"),
        ("vllm", PACKAGE, "no metadata ("),
        ("vllm", PACKAGE | {"pyproject.toml": b"not toml"}, "no metadata ("),
        ("vllm", PACKAGE | {"pyproject.toml": b"a = " + b"[" * 9000}, "no metadata ("),
        ("vllm", PACKAGE | {"pyproject.toml": b'project.name = "acme"\n'}, "metadata says acme"),
        ("vllm", {"pyproject.toml": b'project.name = "vllm"\n'}, "it has no vllm/__init__.py"),
        ("vllm-metax", renamed("vllm-ascend"), "its metadata says vllm-ascend"),
        (
            "acme",
            {"setup.py": b"name='acme'", "src/acme/__init__.py": b""},
            "it has no acme/__init",
        ),
    ],
)
def test_what_is_something_else_is_refused(here, opening, cache, tree, files, what):
    write(here / "src", files)
    with fails("source.wrong-tree") as error:
        opening(FolderSpec(tree, "./src"))
    assert error.value.what.startswith(f"is not a source tree of {tree}: ")
    assert what in error.value.what
    assert (error.value.where, error.value.exit_code) == ("./src", ExitCode.USAGE)
    assert error.value.hint
    assert not cache.folder.exists()


@pytest.mark.parametrize(
    ("tree", "shown", "hint"),
    [
        ("vllm", "./repo/vllm", "name the folder above it, which is one"),
        ("vllm", "./work/", "did you mean ./work/vllm?"),
        ("vllm", "./ascend", "give it as --tree vllm-ascend=./ascend"),
        ("vllm", "./empty", "name the root of a checkout or an unpacked source archive of vllm"),
    ],
)
def test_the_folder_that_was_meant_is_named(here, opening, tree, shown, hint):
    for root in ("repo", "work/vllm"):
        write(here / root, PACKAGE | {"vllm/version.py": b""})
    write(here / "ascend", renamed("vllm-ascend"))
    (here / "empty").mkdir()
    with fails("source.wrong-tree") as error:
        opening(FolderSpec(tree, shown))
    assert error.value.hint == hint


def test_no_file_is_read_before_the_folder_is_known_to_be_one(here, opening, cache):
    """A recipe names the folder, and may have come from anybody."""
    write(here / "etc", {"shadow": b"secret\n"})
    os.mkfifo(here / "etc" / "pipe")
    with fails("source.wrong-tree"):
        opening(FolderSpec("vllm", "./etc"))
    assert not cache.folder.exists()


def test_a_repository_of_something_else_is_refused(here, opening):
    write(here / "repo", renamed("vllm-ascend"))
    git(here / "repo", "init", "-q")
    git(here / "repo", "add", "-A")
    git(here / "repo", "commit", "-q", "-m", "one")
    with fails("source.wrong-tree", "metadata says vllm-ascend") as error:
        opening(GitSpec("vllm", "./repo", "HEAD"))
    assert error.value.where == "./repo@HEAD"
    # The entry's lock is given back: the same commit opens under its own name.
    with opening(GitSpec("vllm-ascend", "./repo", "HEAD")) as tree:
        assert tree.pin.tree == "vllm-ascend"


def test_an_archive_of_something_else_is_refused(index, opening):
    index.add("1.0.0", sdist("1.0.0", renamed("acme")), name="vllm-ascend")
    with fails("source.wrong-tree", "metadata says acme"):
        opening(PypiSpec("vllm-ascend", "1.0.0"))
