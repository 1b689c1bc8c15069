from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.helpers import fails
from tests.projects import NAME_PROJ, write_patch
from vpatch.library.project import Project, find_project

pytestmark = pytest.mark.usefixtures("isolated")
SOMEBODY = 12345


@pytest.fixture
def below(tmp_path):
    """A folder two levels below one that may be a project."""
    folder = tmp_path / "project" / "a" / "b"
    folder.mkdir(parents=True)
    return folder


@pytest.fixture
def root(below):
    return below.parents[1]


def write(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_without_any_the_folder_itself_is_the_project(below):
    assert find_project(below) == Project(below, None)


@pytest.mark.parametrize(
    ("name", "text"), [("vpatch.toml", ""), ("pyproject.toml", "[tool.vpatch]\n")]
)
def test_settings_mark_a_project(below, root, name, text):
    marker = write(root / name, text)
    assert find_project(root) == find_project(below) == Project(root, marker)


def test_patches_mark_a_project(below, root):
    (root / "patches").mkdir()
    assert find_project(below).folder == below
    write_patch(root / "patches", "name-proj", NAME_PROJ)
    assert find_project(below) == Project(root, root / "patches")


def test_the_nearest_wins(below, root):
    write(root / "vpatch.toml")
    write(below.parent / "pyproject.toml", '[project]\nname = "other"\n')
    assert find_project(below).folder == root
    write_patch(below.parent / "patches", "name-proj", NAME_PROJ)
    assert find_project(below).folder == below.parent


def test_a_broken_file_on_the_way_is_an_error(below):
    write(below.parent / "pyproject.toml", "[tool.vpatch\n")
    with fails("declare.wrong-syntax", "not TOML"):
        find_project(below)


def test_nothing_above_the_home_folder_counts(below, root, monkeypatch):
    monkeypatch.setenv("HOME", str(below.parent))
    write(root / "vpatch.toml")
    assert find_project(below).folder == below
    # Elsewhere than in it, the search goes on to the root.
    monkeypatch.setenv("HOME", str(root / "home"))
    assert find_project(below).folder == root


def test_the_home_folder_is_a_project_by_settings_alone(below, root, monkeypatch):
    monkeypatch.setenv("HOME", str(root))
    write_patch(root / "patches", "name-proj", NAME_PROJ)
    assert find_project(below).folder == below
    assert find_project(root).folder == root
    write(root / "vpatch.toml")
    assert find_project(below).folder == root


def test_what_belongs_to_somebody_else_is_passed_by(below, root):
    mine = write(root.parent / "vpatch.toml")
    theirs = write(root / "vpatch.toml")
    os.chown(theirs, SOMEBODY, SOMEBODY)
    assert find_project(below) == Project(root.parent, mine, (theirs,))
    # Where everything is somebody's, as in a container, it is one project.
    os.chown(below, SOMEBODY, SOMEBODY)
    assert find_project(below) == Project(root, theirs)
    os.chown(below, 0, 0)
    assert find_project(root) == Project(root, theirs)


def test_folders_that_cannot_be_looked_into(below, root, monkeypatch):
    write(root / "vpatch.toml")
    real = Path.is_file

    def is_file(path):
        if path.parent == below.parent:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(Path, "is_file", is_file)
    assert find_project(below).folder == root
