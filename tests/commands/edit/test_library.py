"""Real changes of patches of the library, by edit and refresh, without a look at patch.yaml."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from benchmarks.edit_changes import CHANGES
from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshRequest
from vpatch.commands.edit.series import planned_series, selected
from vpatch.commands.edit.work_tree import open_edit
from vpatch.workspace.context import Context

# These prove a figure: the tests beside this file guard the code.
pytestmark = [pytest.mark.slow, pytest.mark.full]

ROOT = Path(__file__).parents[3]


def project(change, folder):
    """A project with a copy of the patch, and a recipe with those below it."""
    copy = folder / "patches" / change.patch
    shutil.copytree(ROOT / "patches" / change.folder, copy)
    for old, new in change.declared.items():
        text = (copy / "patch.yaml").read_text()
        assert old in text
        (copy / "patch.yaml").write_text(text.replace(old, new))
    names = ", ".join([*change.below, change.patch])
    (folder / "recipes").mkdir()
    (folder / "recipes" / "ours.yaml").write_text(f"vllm: {change.release}\npatches: [{names}]\n")


def made(context, change, paths):
    """Files of the release with the patch, behind those that were before it."""
    selection = selected(context, change.patch, None, None)
    patches = context.library.load([patch.id for patch in selection.patches])
    with context.tree(selection.spec) as tree:
        series = planned_series(context, patches, change.patch, tree)
        assert series.decision.state == "needed", series.decision.reason
        changes, below = series.decision.changes, series.tree_below
        present = set(below.paths())
        pristine = {path: below.read(path) if path in present else None for path in paths}
    return pristine | {path: one.after for path, one in changes.items()}


@pytest.mark.parametrize("change", CHANGES, ids=[f"{c.patch}: {c.name}" for c in CHANGES])
def test_a_change_of_the_work_tree_becomes_the_patch(change, tmp_path):
    project(change, tmp_path)
    with Context(folder=tmp_path, trust_everything=True) as context:
        opened = open_edit(context, change.patch, None, None, tmp_path / "edit")
        wanted = change.make(opened.folder, opened.files)
        result = refresh_patch(context, RefreshRequest(change.patch, tmp_path / "edit", "none"))
    with Context(folder=tmp_path, trust_everything=True) as context:
        assert made(context, change, wanted) == wanted
    assert sum(lines_of(result.diff)) <= change.lines


def lines_of(diff):
    """Which lines of a diff add or remove a line of patch.yaml."""
    name = b""
    for line in diff:
        if line[:4] in {b"--- ", b"+++ "}:
            name = line[4:].strip()
        elif line[:1] in {b"+", b"-"}:
            yield name.endswith(b"/patch.yaml")
