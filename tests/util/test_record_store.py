"""Records that are kept: what is damaged, private or not used for long."""

from __future__ import annotations

import os

import pytest

from vpatch.util import record_store
from vpatch.util.record_store import RecordStore


@pytest.fixture
def store(tmp_path):
    return RecordStore(tmp_path / "kind")


def test_a_record_comes_back_as_json_has_it(store):
    assert store.get("a", dict) is None
    store.put("a", {"x": (1, None)})
    assert store.get("a", dict) == {"x": [1, None]}
    assert store.get("b", dict) is None


@pytest.mark.parametrize("change", [lambda _: b"", lambda old: old[:-1], lambda old: old + b" "])
def test_a_damaged_record_is_not_believed(store, change):
    store.put("a", [1])
    store.file("a").write_bytes(change(store.file("a").read_bytes()))
    assert store.get("a", list) is None


@pytest.mark.parametrize("error", [KeyError, TypeError, ValueError, OverflowError, OSError])
def test_a_record_that_cannot_be_read_is_none(store, error):
    def read(_):
        raise error

    store.put("a", 1)
    assert store.get("a", read) is None


@pytest.mark.parametrize(("is_private", "mode"), [(True, 0o700), (False, 0o755)])
def test_who_may_read_a_folder(tmp_path, is_private, mode):
    before = os.umask(0o022)
    try:
        RecordStore(tmp_path / "kind", is_private).put("a", 1)
    finally:
        os.umask(before)
    assert (tmp_path / "kind").stat().st_mode & 0o777 == mode


def test_what_was_not_used_longest_goes(store, monkeypatch):
    for age, key in enumerate("abc"):
        store.put(key, "0" * 1000)
        os.utime(store.file(key), (age, age))
    assert store.get("a", str)
    for name in ("folder", "clone.git"):
        (store.folder / name).mkdir()
    monkeypatch.setattr(record_store, "LARGEST", 3500)
    store.put("d", "0" * 1000)
    kept = [key for key in "abcd" if store.file(key).exists()]
    assert kept == ["a", "c", "d"]
    assert (store.folder / "folder").is_dir()


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    store = RecordStore(tmp_path / "file")
    store.put("a", 1)
    with pytest.raises(OSError, match="file"):
        store.write("a", 1)
