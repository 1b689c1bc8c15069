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


def edited(change, folder):
    for path, texts in change.texts.items():
        text = (folder / path).read_text()
        for old, new in texts:
            assert text.count(old) >= 1, (path, old)
            text = text.replace(old, new)
        (folder / path).write_text(text)
    for path, text in change.new.items():
        (folder / path).write_text(text)
    for path in change.gone:
        (folder / path).unlink()


def made(context, selection, change):
    """What the patch makes now, behind those that were before it."""
    patches = context.library.load([patch.id for patch in selection.patches])
    with context.tree(selection.spec) as tree:
        decision = planned_series(context, patches, change.patch, tree).decision
        assert decision.state == "needed", decision.reason
        return {path: one.after for path, one in decision.changes.items()}


@pytest.mark.parametrize("change", CHANGES, ids=[f"{c.patch}: {c.name}" for c in CHANGES])
def test_a_change_of_the_work_tree_becomes_the_patch(change, tmp_path):
    shutil.copytree(ROOT / "patches" / change.patch, tmp_path / "patches" / change.patch)
    with Context(folder=tmp_path, trust_everything=True) as context:
        selection = selected(context, change.patch, change.release, None)
        opened = open_edit(context, change.patch, change.release, None, tmp_path / "edit")
        edited(change, opened.folder)
        wanted = {
            path: (opened.folder / path).read_bytes()
            for path in {*opened.files, *change.texts, *change.new} - {*change.gone}
        }
        result = refresh_patch(context, RefreshRequest(change.patch, tmp_path / "edit", "none"))
    with Context(folder=tmp_path, trust_everything=True) as context:
        files = made(context, selection, change)
    pristine = {path for path in wanted if path not in files}
    assert {path: files[path] for path in wanted.keys() - pristine} == {
        path: wanted[path] for path in wanted.keys() - pristine
    }
    assert all(path in opened.files for path in pristine)
    assert result.by_text == ()
    assert sum(lines_of(result.diff)) <= change.lines


def lines_of(diff):
    """Which lines of a diff add or remove a line of patch.yaml."""
    name = b""
    for line in diff:
        if line[:4] in {b"--- ", b"+++ "}:
            name = line[4:].strip()
        elif line[:1] in {b"+", b"-"}:
            yield name.endswith(b"/patch.yaml")
