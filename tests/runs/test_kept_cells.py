"""Cells of a cluster that are kept one by one."""

from __future__ import annotations

import pytest

from tests.helpers import fails
from vpatch.runs.kept_cells import FOLDER, KeptCell, KeptCells, key_of, own_secret

CELL = KeptCell("node-a", {"result.json": b"{}", "log": b"loaded\n", "raw/1.json": b"1"})


@pytest.fixture
def kept(tmp_path):
    found = KeptCells(tmp_path / "evidence", b"1")
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


def test_a_cell_that_somebody_else_kept_does_not_count(kept):
    """A project may bring a folder of evidence along, whose cells nobody ran."""
    assert KeptCells(kept.root, b"2").find("one") is None
    # ... nor one that was kept for something else.
    (kept.root / FOLDER / "one").rename(kept.root / FOLDER / "two")
    assert kept.find("two") is None


def test_nothing_is_kept_through_a_link_of_a_project(tmp_path):
    root, elsewhere = tmp_path / "evidence", tmp_path / "elsewhere"
    root.mkdir()
    elsewhere.mkdir()
    (root / FOLDER).symlink_to(elsewhere)
    with fails("evidence.linked-folder"):
        KeptCells(root, b"1").keep("one", CELL)
    assert not list(elsewhere.iterdir())


def test_the_secret_is_this_users_alone(tmp_path):
    secret = own_secret(tmp_path / "cache")
    assert own_secret(tmp_path / "cache") == secret
    assert (tmp_path / "cache/kept-cells.secret").stat().st_mode & 0o777 == 0o600
    (tmp_path / "file").write_text("")
    assert len(own_secret(tmp_path / "file")) == len(secret)
