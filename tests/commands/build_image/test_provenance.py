"""Labels that say where an image comes from: only what is known."""

from __future__ import annotations

import pytest

from tests.projects import git
from vpatch.commands.build_image.provenance import provenance_of
from vpatch.workspace.context import Context

OCI = "org.opencontainers.image."
PLACE = {f"{OCI}source", f"{OCI}revision"}


def labels(folder, epoch=86400):
    return provenance_of(Context(folder=folder), epoch)


@pytest.fixture
def committed(project):
    git(project.folder, "init", "-q")
    git(project.folder, "add", "-A")
    git(project.folder, "commit", "-q", "-m", "all")
    return project


def test_the_time_is_that_of_the_build(project):
    assert labels(project.folder)[f"{OCI}created"] == "1970-01-02T00:00:00Z"
    assert labels(project.folder, None)[f"{OCI}created"] > "2026"
    assert labels(project.folder)[f"{OCI}licenses"] == "Apache-2.0"


@pytest.mark.parametrize(
    ("url", "source"),
    [
        ("git@git.example:team/patches.git", "https://git.example/team/patches"),
        ("https://user:secret@git.example/team/patches", "https://git.example/team/patches"),
        ("/home/somebody/patches.git", ""),
    ],
)
def test_the_projects_repository_is_named_without_secrets(committed, url, source):
    git(committed.folder, "remote", "add", "origin", url)
    assert labels(committed.folder)[f"{OCI}source"] == source


def test_a_commit_that_is_not_all_of_it_is_marked(committed):
    commit = git(committed.folder, "rev-parse", "HEAD").strip()
    (committed.folder / "notes.txt").write_text("no part of the image\n")
    assert labels(committed.folder)[f"{OCI}revision"] == commit
    (committed.patches / "name-proj" / "more.txt").write_text("a part of it\n")
    assert labels(committed.folder)[f"{OCI}revision"] == f"{commit}-dirty"


def test_a_project_without_a_repository_names_none(project):
    assert not PLACE & labels(project.folder).keys()
    git(project.folder, "init", "-q")
    assert not PLACE & labels(project.folder).keys()  # it has no commit yet


def test_the_librarys_patches_are_of_no_project(empty):
    git(empty.folder, "init", "-q")
    git(empty.folder, "commit", "-q", "--allow-empty", "-m", "other")
    assert not PLACE & labels(empty.folder).keys()
