"""Patches of the library without a variant, carried to the release that it was written for."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.commands.edit.library_conflicts import CONFLICTS, take_away
from tests.projects import git
from vpatch.commands.edit.refresh import refresh_patch
from vpatch.commands.edit.refresh_result import RefreshRequest
from vpatch.commands.edit.series import planned_series, selected
from vpatch.commands.edit.work_tree import open_edit
from vpatch.workspace.context import Context

# These prove a figure: test_carry.py guards the code.
pytestmark = [pytest.mark.slow, pytest.mark.full]

ROOT = Path(__file__).parents[3]


def made(folder, patch, release):
    """What a patch makes of a release; None if it is not needed there."""
    with Context(folder=folder, trust_everything=True) as context:
        selection = selected(context, patch, release, None)
        patches = context.library.load([one.id for one in selection.patches])
        with context.tree(selection.spec) as tree:
            decision = planned_series(context, patches, patch, tree).decision
            if decision.state != "needed":
                return None
            return {path: one.after for path, one in decision.changes.items()}


def solve(opened, wanted):
    """Write what the patch is to make, and return how many files that changes."""
    changed = 0
    for path in sorted({*opened.files, *wanted}):
        file = opened.folder / path
        before = file.read_bytes() if file.exists() else None
        if path in wanted:
            file.write_bytes(wanted[path])
        else:
            git(opened.folder, "checkout", "--quiet", opened.record.below, "--", path)
        changed += file.read_bytes() != before
    return changed


@pytest.mark.parametrize("conflict", CONFLICTS, ids=[c.patch for c in CONFLICTS])
def test_a_variant_that_was_taken_away_is_written_anew(conflict, tmp_path):
    place, old, new = ROOT / "patches" / conflict.patch, conflict.old, conflict.new
    patch = place.name
    copy = tmp_path / "patches" / patch
    shutil.copytree(place, copy)
    wanted, before = made(tmp_path, patch, new), made(tmp_path, patch, old)
    take_away(copy, conflict.variant)
    assert made(tmp_path, patch, new) is None
    assert made(tmp_path, patch, old) == before
    with Context(folder=tmp_path, trust_everything=True) as context:
        opened = open_edit(context, patch, new, None, tmp_path / "edit")
        by_hand = solve(opened, wanted)
        result = refresh_patch(context, RefreshRequest(patch, tmp_path / "edit", "none"))
    assert by_hand == conflict.by_hand
    assert result.variant is not None
    assert made(tmp_path, patch, new) == wanted
    assert made(tmp_path, patch, old) == before
