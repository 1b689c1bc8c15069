from __future__ import annotations

import os
from pathlib import Path

import pytest

from vpatch.util.files import replace_file


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    return folder


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_new_file_has_the_mode_that_the_user_wants(folder, umask):
    before = os.umask(umask)
    try:
        replace_file(folder / "file", "text")
    finally:
        os.umask(before)
    assert (folder / "file").stat().st_mode & 0o777 == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o600])
def test_a_file_keeps_its_mode(folder, mode):
    file = folder / "file"
    file.write_text("old")
    file.chmod(mode)
    replace_file(file, "nëw")
    assert (file.read_text(encoding="utf-8"), file.stat().st_mode & 0o777) == ("nëw", mode)
    assert list(folder.iterdir()) == [file]


def test_what_fails_leaves_nothing(folder, monkeypatch):
    file, workdir = folder / "file", folder / "room"
    file.write_text("old")
    workdir.mkdir()
    seen = []

    def replace(part, _target):
        seen.append(part.parent)
        raise KeyboardInterrupt

    monkeypatch.setattr(Path, "replace", replace)
    for place in (None, workdir):
        with pytest.raises(KeyboardInterrupt):
            replace_file(file, "new", workdir=place)
    assert seen == [folder, workdir]
    assert sorted(folder.rglob("*")) == [file, workdir]
    assert file.read_text() == "old"
