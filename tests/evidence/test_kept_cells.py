"""Cells of a cluster that are kept one by one."""

from __future__ import annotations

import pytest

from vpatch.evidence.kept_cells import FOLDER, KeptCell, KeptCells, key_of

CELL = KeptCell("node-a", {"result.json": b"{}", "log": b"loaded\n", "raw/1.json": b"1"})


@pytest.fixture
def kept(tmp_path):
    found = KeptCells(tmp_path / "evidence")
    found.keep("one", CELL)
    return found


def test_a_cell_is_there_again(kept):
    assert kept.find("one") == CELL
    assert kept.find("two") is None
    kept.keep("one", KeptCell("node-b", {}))
    assert kept.find("one").node == "node-b"
    assert [path.name for path in (kept.root / FOLDER).iterdir()] == ["one"]


@pytest.mark.parametrize("name", ["files/log", "files/raw/1.json", "node", "sums.json"])
@pytest.mark.parametrize("text", [None, "", "[]"])
def test_a_cell_that_was_changed_does_not_count(kept, name, text):
    file = kept.root / FOLDER / "one" / name
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    assert kept.find("one") is None


def test_the_key_is_of_all_facts():
    assert key_of({"a": 1, "b": 2}) == key_of({"b": 2, "a": 1})
    assert key_of({"a": 1}) != key_of({"a": 2})
