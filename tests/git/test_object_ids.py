"""Ids of commits that are computed are those that git makes."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from vpatch.git.checkout import NewCommit, add_commits, create_checkout
from vpatch.git.command import create_base_repository
from vpatch.git.files import EXECUTABLE, REGULAR, SYMLINK, SourceFile
from vpatch.git.object_ids import base_id, blobs_of, ids_on_top

FILES = [
    SourceFile("a", REGULAR, b""),
    SourceFile("a.b/c", REGULAR, b"between a and a/ in git's order\n"),
    SourceFile("a0", EXECUTABLE, b"#!/bin/sh\n"),
    SourceFile("d/e/f.py", REGULAR, b"x = 1\r\n"),
    SourceFile("d/link", SYMLINK, b"e/f.py"),
    SourceFile("d-e", REGULAR, b"\0\xff"),
    SourceFile("grün/\udcff name", REGULAR, b"1"),
]
COMMITS = [
    NewCommit("[Bugfix] One\n\nwhy\n", {"a0": b"#!/bin/bash\n", "d/e/f.py": b"x = 2\n"}),
    NewCommit("Zwei ü\n", {"d/new/g.py": b"y = 1\n", "d/e/f.py": b"x = 3\n"}),
]


def by_git(folder, files, message, commits):
    repository, checkout = folder / "base.git", folder / "checkout"
    base = create_base_repository(repository, files, message)
    create_checkout(checkout, repository, base, [])
    return base, add_commits(checkout, base, commits)


def test_they_are_those_of_git(tmp_path):
    blobs = blobs_of(FILES)
    base = base_id(blobs, "vllm 0.50.0\n")
    found = by_git(tmp_path, FILES, "vllm 0.50.0\n", COMMITS)
    assert (base, ids_on_top(blobs, base, COMMITS)) == found


def test_without_a_commit_there_is_the_base_alone(tmp_path):
    blobs = blobs_of(FILES)
    base = base_id(blobs, "m")
    assert by_git(tmp_path, FILES, "m", []) == (base, [])
    assert ids_on_top(blobs, base, []) == []


NAMES = st.text("ab.-0~", min_size=1, max_size=3).filter(lambda name: name not in {".", ".."})
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)


@settings(max_examples=12)
@given(st.dictionaries(PATHS, st.binary(max_size=9), min_size=1, max_size=8))
def test_names_are_in_gits_order(tmp_path_factory, files):
    kept = {
        path: data
        for path, data in files.items()
        # A file and a folder cannot have one name.
        if not any(other.startswith(f"{path}/") for other in files)
    }
    listed = [SourceFile(path, REGULAR, data) for path, data in kept.items()]
    folder = tmp_path_factory.mktemp("git")
    assert by_git(folder, listed, "m", [])[0] == base_id(blobs_of(listed), "m")
