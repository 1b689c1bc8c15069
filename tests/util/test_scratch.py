"""What killed runs leave, and what live runs hold."""

from __future__ import annotations

import errno
import shutil
import signal
import tempfile

import pytest

from vpatch.util import os_errors, scratch
from vpatch.util.files import replace_file
from vpatch.util.scratch import clear_parts, open_part, scratch_folder, staging_folder

PART = ".x.1-0123abcd.part"


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def killed(folder):
    """What a killed run leaves of a scratch folder: its lock is gone with it."""
    folder.mkdir()
    (folder / ".vpatch-scratch").touch()
    (folder / "w" / "deep").mkdir(parents=True)
    (folder / "w" / "deep" / "file").write_text("x")
    (folder / "w" / "deep").chmod(0o500)
    return folder


def test_the_next_run_removes_what_killed_runs_left(temporary):
    left = killed(temporary / "vpatch-abcd1234")
    with scratch_folder() as folder:
        assert folder.is_dir()
        assert not list(folder.iterdir())
        assert not left.exists()
    assert list(temporary.iterdir()) == []


def test_live_runs_and_folders_of_others_stay(temporary, tmp_path):
    others = [temporary / name for name in ("vpatch-mine", "vpatch-checkout", "vpatch-abcd123")]
    others.append(temporary / "vpatch-12345678")  # as ours are called, and without our mark
    for one in others:
        (one / "w").mkdir(parents=True)
    killed(temporary / "vpatch-checkout2")
    real = killed(tmp_path / "real")
    (temporary / "vpatch-linked12").symlink_to(real)
    with scratch_folder() as first:
        (first / "x").touch()
        with scratch_folder():
            assert (first / "x").exists()
        assert all(one.is_dir() for one in [*others, real / "w"])
        assert (temporary / "vpatch-checkout2").is_dir()


def test_a_part_of_a_killed_run_goes_and_that_of_a_live_one_stays(tmp_path):
    (tmp_path / PART).write_text("x")
    (tmp_path / ".y.2-0123abcd.part").mkdir()
    others = [tmp_path / name for name in (".x.part", ".x.1-0123.part", "x.1-0123abcd.part")]
    for one in others:
        one.touch()
    with open_part(tmp_path / "b") as live, staging_folder(tmp_path, "c") as staging:
        replace_file(tmp_path / "a", "text")
        assert {p.name for p in tmp_path.iterdir() if p.name.startswith(".")} == {
            *(one.name for one in others if one.name.startswith(".")),
            live.name.rpartition("/")[2],
            staging.name,
        }
    assert not staging.exists()
    assert (tmp_path / "a").read_text() == "text"


def test_a_link_that_is_called_as_a_part_stays(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / PART).symlink_to(tmp_path / "kept")
    clear_parts(tmp_path)
    assert (tmp_path / PART).is_symlink()


def test_what_cannot_be_written_is_named(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vpatch.util.files.os.fchmod", full)
    (tmp_path / "a").write_text("old")
    with pytest.raises(OSError, match="No space") as caught:
        replace_file(tmp_path / "a", "new")
    assert caught.value.filename == str(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir() if path.name != "tmp"] == ["a"]


@pytest.mark.parametrize(("free", "named"), [(0, True), (10**9, False)])
def test_a_full_disk_is_named_where_it_is_known(temporary, monkeypatch, free, named):
    disk = type("Disk", (), {"f_bavail": free, "f_frsize": 1})()
    monkeypatch.setattr(os_errors.os, "statvfs", lambda _: disk)
    error = os_errors.path_or_machine_error(OSError(errno.ENOSPC, "No space left on device"))
    assert error.code == "util.os-error"
    assert (str(temporary) in (error.where or "")) is named


@pytest.mark.parametrize("make", ["scratch", "staging"])
def test_an_interrupt_while_it_is_removed_leaves_nothing(temporary, monkeypatch, make):
    whole = scratch.remove

    def interrupted(folder):
        signal.raise_signal(signal.SIGINT)
        whole(folder)

    monkeypatch.setattr(scratch, "remove", interrupted)
    folder = scratch_folder() if make == "scratch" else staging_folder(temporary, "x")
    with pytest.raises(KeyboardInterrupt), folder as place:
        (place / "file").write_text("x")
    assert list(temporary.iterdir()) == []


def test_a_folder_that_cannot_be_copied_is_an_error_of_the_machine(tmp_path):
    (tmp_path / "from").mkdir()
    (tmp_path / "from" / "file").touch()

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device", "file")

    with pytest.raises(shutil.Error) as caught:
        shutil.copytree(tmp_path / "from", tmp_path / "to", copy_function=full)
    error = os_errors.path_or_machine_error(caught.value)
    assert (error.exit_code, error.where) == (4, str(tmp_path / "to" / "file"))
