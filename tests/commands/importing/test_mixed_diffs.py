"""Diffs of many kinds, each compared with what `git apply` makes of it: nothing is lost unsaid.

Of each file that git changes, an import gives the same bytes, or it names the file and does not end
with 0. What git refuses is refused, or looked at by a person.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.commands.importing.mixed_diffs import CASES, FILES
from tests.helpers import tree_of
from vpatch.changes.undo import fitted
from vpatch.commands.importing.sources.source import from_diffs
from vpatch.errors import VpatchError


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    """The release as files, for git, and as a tree."""
    folder = tmp_path_factory.mktemp("release")
    for path, content in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    return folder


def by_git(release, content, folder, options):
    """The files that `git apply` changes, by the paths of the release; None if it refuses all."""
    subprocess.run(["cp", "-a", f"{release}/.", folder], check=True)
    environment = {**os.environ, "GIT_CEILING_DIRECTORIES": str(folder.parent)}
    run = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", *options, "-"],
        input=content, cwd=folder, env=environment, capture_output=True, check=False,
    )  # fmt: skip
    if run.returncode != 0:
        return None
    files = (path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    seen = {str(path.relative_to(folder)): path for path in files}
    changed = {
        path: str(place.readlink()) if place.is_symlink() else place.read_bytes()
        for path, place in seen.items()
    }
    differ = {path: text for path, text in changed.items() if FILES.get(path) != text}
    return differ | dict.fromkeys(FILES.keys() - seen.keys())


def by_vpatch(content, folder):
    """The files that an import gives, what it says, and its exit code."""
    (folder / "fix.diff").write_bytes(content)
    try:
        changes = fitted(from_diffs(folder / "fix.diff"), tree_of(FILES)).changes
    except VpatchError as error:
        return {}, str(error), 2
    files = {file.path: file.after for change in changes for file in change.files}
    aside = [left for change in changes for left in change.aside]
    doubts = [doubt for change in changes for doubt in change.doubts]
    words = [*(f"{left.path}: {left.why}" for left in aside), *doubts, *files]
    return files, "\n".join(words), int(bool(doubts) or any(left.lost for left in aside))


@pytest.mark.parametrize("name", CASES)
def test_nothing_of_a_diff_is_lost_unsaid(release, tmp_path, name):
    text, outcome, named = CASES[name]
    content = text if isinstance(text, bytes) else text.encode()
    files, words, code = by_vpatch(content, tmp_path)
    assert code == {"takes": 0, "empties": 0, "looks": 1, "refuses": 2}[outcome], words
    assert named in words
    (tmp_path / "git").mkdir()
    inside = ["--directory=vllm"] if name.startswith("without vllm") else ["-p1"]
    options = ["-p0"] if "no prefixes" in name else inside
    expected = by_git(release, content, tmp_path / "git", options)
    if expected is None:
        # git takes no diff in which one file is missing; an import may leave a test aside.
        assert code or ": it is " in words
    elif code == 0:
        taken = {path: text for path, text in expected.items() if f"{path}: it is " not in words}
        assert files == taken
    elif code == 1:
        assert all(files.get(path) == text or path in words for path, text in expected.items())
