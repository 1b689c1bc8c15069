from __future__ import annotations

import ctypes
import errno
import sys
from pathlib import Path

import pytest

from vpatch.util import directories
from vpatch.util.directories import replace_dir, restore


@pytest.fixture
def folders(tmp_path):
    """A new folder, and where it goes and what was there goes."""
    new, target, aside = (tmp_path / name for name in ("new", "target", "aside"))
    new.mkdir()
    (new / "file").write_text("new")
    return new, target, aside


@pytest.fixture(params=["exchange", "renames"])
def way(request, monkeypatch):
    if request.param == "renames":
        monkeypatch.setattr(directories, "_exchange", lambda _left, _right: False)


def make_old(target):
    target.mkdir()
    (target / "file").write_text("old")


def text(folder):
    return (folder / "file").read_text()


@pytest.mark.usefixtures("way")
def test_put_in_place_where_nothing_was(folders):
    new, target, aside = folders
    replace_dir(new, target, aside)
    assert text(target) == "new"
    assert not new.exists()
    assert not aside.exists()


@pytest.mark.usefixtures("way")
def test_put_in_place_of_a_folder(folders):
    new, target, aside = folders
    make_old(target)
    replace_dir(new, target, aside)
    assert (text(target), text(aside)) == ("new", "old")
    assert not new.exists()


def test_exchange_never_leaves_the_target_away(folders, monkeypatch):
    new, target, aside = folders
    make_old(target)
    seen = []
    rename = Path.rename

    def watched(self, to):
        seen.append(text(target))
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", watched)
    replace_dir(new, target, aside)
    assert seen == ["new"]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "gone"), KeyboardInterrupt()])
def test_a_failure_between_the_two_renames_puts_the_old_back(folders, monkeypatch, error):
    new, target, aside = folders
    make_old(target)
    monkeypatch.setattr(directories, "_exchange", lambda _left, _right: False)
    rename = Path.rename

    def failing(self, to):
        if self == new:
            raise error
        return rename(self, to)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(type(error)):
        replace_dir(new, target, aside)
    assert (text(target), text(new)) == ("old", "new")
    assert not aside.exists()


@pytest.mark.parametrize("code", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP])
def test_a_file_system_that_cannot_exchange(folders, monkeypatch, code):
    new, target, aside = folders
    make_old(target)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: _Libc())
    monkeypatch.setattr(ctypes, "get_errno", lambda: code)
    replace_dir(new, target, aside)
    assert (text(target), text(aside)) == ("new", "old")


def test_an_exchange_that_is_refused(folders, monkeypatch):
    new, target, aside = folders
    make_old(target)
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: _Libc())
    monkeypatch.setattr(ctypes, "get_errno", lambda: errno.EACCES)
    with pytest.raises(PermissionError):
        replace_dir(new, target, aside)
    assert (text(target), text(new)) == ("old", "new")


def test_a_system_other_than_linux(folders, monkeypatch):
    new, target, aside = folders
    make_old(target)
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: pytest.fail("asked for libc"))
    replace_dir(new, target, aside)
    assert (text(target), text(aside)) == ("new", "old")


class _Libc:
    def renameat2(self, *_):
        return -1


def test_restore_where_nothing_is_left(folders):
    _, target, aside = folders
    make_old(target)
    restore(target, aside)
    assert text(target) == "old"


def test_restore_after_a_kill_between_the_renames(folders):
    _, target, aside = folders
    make_old(aside)
    restore(target, aside)
    assert text(target) == "old"
    assert not aside.exists()


def test_restore_after_a_kill_behind_the_swap(folders):
    new, target, aside = folders
    new.rename(target)
    make_old(aside)
    restore(target, aside)
    assert text(target) == "new"
    assert not aside.exists()
