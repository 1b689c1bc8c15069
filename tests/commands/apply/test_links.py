"""Symbolic links that somebody else put into a project: nothing is written where they lead."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from tests.helpers import fails
from tests.projects import VERSION, snapshot
from vpatch.commands.build_image import log as build_log
from vpatch.errors import VpatchError
from vpatch.evidence import claim
from vpatch.evidence.collecting import collected

LABEL = f"vllm-{VERSION}"


@pytest.fixture
def outside(tmp_path):
    """A folder of the user's, which no project has a word in."""
    folder = tmp_path / "outside"
    (folder / "inner").mkdir(parents=True)
    (folder / "inner").chmod(0o750)
    (folder / "mine.txt").write_text("mine")
    return folder


def _kept(folder):
    """Contents and modes of a folder."""
    modes = {str(path): stat.S_IMODE(path.lstat().st_mode) for path in folder.rglob("*")}
    return snapshot(folder), modes


@pytest.mark.parametrize("there", [True, False])
def test_the_folder_of_checkouts_is_a_link(project, outside, there):
    place = outside if there else outside / "none"
    (project.folder / ".vpatch").symlink_to(place)
    before = _kept(outside)
    run = project.apply(code=2)
    assert run.codes == ("library.symbolic-link",)
    assert "error: .vpatch: this is a symbolic link" in run.err
    assert "next: remove the link, or name the folder with --checkout" in run.err
    assert _kept(outside) == before


def test_a_checkout_below_it_is_a_link(project, outside):
    """A link that the user names is followed, and one that lies there is not."""
    (project.folder / ".vpatch").mkdir()
    (project.folder / ".vpatch" / LABEL).symlink_to(outside / "new")
    before = _kept(outside)
    run = project.apply(code=2)
    assert f"error: .vpatch/{LABEL}: this is a symbolic link" in run.err
    assert _kept(outside) == before


@pytest.mark.parametrize("name", ["", "lock", "old", "new-1"])
@pytest.mark.parametrize("there", [True, False])
def test_the_room_beside_a_checkout_has_links(project, outside, name, there):
    workdir = project.folder / ".vpatch" / f".{LABEL}.vpatch"
    workdir.parent.mkdir()
    if name:
        workdir.mkdir()
        (workdir / "lock").touch()
        (workdir / name).unlink(missing_ok=True)
        leads = outside / "mine.txt" if name == "lock" and there else outside
        (workdir / name).symlink_to(leads if there else outside / "none")
    else:
        empty = outside / "inner"
        workdir.symlink_to(empty if there else outside / "none")
    before = _kept(outside)
    run = project.apply(code=2)
    link = workdir / name if name else workdir
    assert f"error: {os.path.relpath(link, project.folder)}: is a symbolic link" in run.err
    assert "next: remove it" in run.err
    assert _kept(outside) == before
    assert not project.target.exists()


@pytest.mark.parametrize("folder", ["evidence", "bench"])
def test_the_folder_of_what_is_measured_is_a_link(project, outside, folder):
    (project.folder / folder).symlink_to(outside)
    command = ["smoke", "--vllm", VERSION] if folder == "evidence" else ["bench", "--vllm", VERSION]
    run = project.run(*command, code=2)
    assert f"error: {folder}: this is a symbolic link" in run.err
    assert sorted(path.name for path in outside.iterdir()) == ["inner", "mine.txt"]


def test_what_is_collected_begins_with_a_folder_of_its_own(tmp_path, outside):
    """Of a run whose claim somebody removed, or put there as a link."""
    root = tmp_path / "evidence"
    root.mkdir()
    (root / ".linked.partial").symlink_to(outside)
    (root / ".left.partial").mkdir()
    (root / ".left.partial" / "old").touch()
    before = _kept(outside)
    for name in ("linked", "left"):
        with collected(root, name) as made:
            assert [path.name for path in made.workdir.iterdir()] == ["logs"]
    assert _kept(outside) == before
    assert not (root / "linked").is_symlink()


def test_the_log_of_a_build_is_a_link_or_a_pipe(tmp_path, outside):
    (tmp_path / "link.log").symlink_to(outside / "mine.txt")
    os.mkfifo(tmp_path / "pipe.log")
    for name in ("link.log", "pipe.log"):
        with (
            pytest.raises(VpatchError, match="the log cannot be written"),
            build_log.opened_log(tmp_path / name),
        ):
            pass
    assert (outside / "mine.txt").read_text() == "mine"


def test_a_claim_that_could_not_be_written_is_not_left(tmp_path, monkeypatch):
    """On a full disk, where the file can be made and nothing be written into it."""

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(claim.json, "dump", full)
    with fails("util.cannot-write", "No space left on device"), collected(tmp_path, "mine"):
        pass
    assert list(tmp_path.iterdir()) == []
