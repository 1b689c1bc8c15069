"""What is trusted: these bytes, in this place, recorded where only the user writes."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.helpers import fails
from vpatch.errors import ExitCode
from vpatch.trust.decision import Trust
from vpatch.trust.store import Store, content_of


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "home" / "trust")


@pytest.fixture
def patch(tmp_path):
    folder = tmp_path / "patches" / "fix"
    (folder / "examples").mkdir(parents=True)
    (folder / "patch.yaml").write_text("id: fix\n")
    (folder / "codemod.py").write_text("x = 1\n")
    (folder / "examples" / "a.py").write_text("")
    return folder


def trust_now(store, path):
    store.add("path", str(path.resolve()), content_of(path).digest)


def test_nothing_is_trusted_at_first(store, patch):
    assert Trust(store).state(patch) == "not trusted"
    with fails("trust.not-trusted", "you did not trust it") as caught:
        Trust(store).require(patch)
    assert caught.value.where == str(patch)
    assert caught.value.hint.endswith(f"vpatch trust {patch}")
    assert caught.value.exit_code == 1


CHANGES = {
    "a byte": lambda folder: (folder / "codemod.py").write_text("x = 2\n"),
    "a new file": lambda folder: (folder / "helper.py").write_text(""),
    "a file below": lambda folder: (folder / "examples" / "b.py").write_text(""),
    "a file gone": lambda folder: (folder / "examples" / "a.py").unlink(),
    "another name": lambda folder: (folder / "codemod.py").rename(folder / "codemod2.py"),
    "the declaration": lambda folder: (folder / "patch.yaml").write_text("id: fix \n"),
    "bytecode that Python would import": lambda folder: (folder / "re.pyc").write_bytes(b""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_every_change_ends_trust(store, patch, change):
    trust_now(store, patch)
    assert Trust(store).state(patch) == "trusted"
    CHANGES[change](patch)
    assert Trust(store).state(patch) == "changed"
    with fails("trust.not-trusted", "it changed since you trusted it"):
        Trust(store).require(patch)


def test_trust_is_of_a_place(store, patch, tmp_path):
    trust_now(store, patch)
    (tmp_path / "other").mkdir()
    patch.rename(tmp_path / "other" / "fix")
    assert Trust(store).state(tmp_path / "other" / "fix") == "not trusted"


def test_what_is_shipped_is_trusted_wherever_it_lies(store, patch, tmp_path):
    shipped = tmp_path / "installed"
    (shipped / "fix").mkdir(parents=True)
    for path, data in content_of(patch).files.items():
        (shipped / "fix" / path).parent.mkdir(exist_ok=True)
        (shipped / "fix" / path).write_bytes(data)
    trust = Trust(store, shipped=(shipped,))
    assert trust.state(patch) == trust.state(shipped / "fix") == "shipped"
    (patch / "codemod.py").write_text("x = 2\n")
    assert trust.state(patch) == "not trusted"


@pytest.mark.parametrize("kind", ["link", "link to a folder", "pipe"])
def test_what_is_no_plain_file_cannot_be_trusted(patch, tmp_path, kind):
    if kind == "pipe":
        os.mkfifo(patch / "codemod2.py")
    elif kind == "link":
        (patch / "codemod2.py").symlink_to(patch / "codemod.py")
    else:
        (patch / "more").symlink_to(tmp_path)
    with fails("trust.unreadable-file", "not a regular file"):
        content_of(patch)


def test_code_runs_from_a_copy_without_bytecode(store, patch):
    """Python would take old bytecode for a file of the same time and size."""
    (patch / "__pycache__").mkdir()
    (patch / "__pycache__" / "helper.cpython-311.pyc").write_bytes(b"evil")
    trust_now(store, patch)
    trust = Trust(store)
    copy = trust.runnable(patch, patch / "codemod.py", b"x = 1\n")
    assert copy != patch / "codemod.py"
    assert copy.read_bytes() == b"x = 1\n"
    assert content_of(copy.parent) == content_of(patch)
    assert not list(copy.parent.rglob("*.pyc"))
    assert stat.S_IMODE(copy.parents[1].stat().st_mode) == 0o700
    workdir = copy.parents[1]
    del trust
    assert not workdir.exists()


def test_a_forked_process_leaves_the_copies_to_the_one_that_made_them(store, patch):
    trust_now(store, patch)
    trust = Trust(store)
    theirs = trust.copy_of(patch)
    trust.disown()
    own = trust.copy_of(patch)
    trust.close()
    assert theirs.is_dir()
    assert not own.exists()
    shutil.rmtree(theirs.parent)


def test_other_bytes_than_those_trusted_do_not_run(store, patch):
    trust_now(store, patch)
    with fails("trust.changed-while-read"):
        Trust(store).runnable(patch, patch / "codemod.py", b"evil = 1\n")


def test_records_are_private(store, tmp_path):
    old = os.umask(0)
    try:
        store.add("host", "git.example.com", "")
    finally:
        os.umask(old)
    folder = tmp_path / "home" / "trust"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()] == [0o600]
    assert [record.name for record in store] == ["git.example.com"]


@pytest.mark.parametrize("what", ["mode", "link"])
def test_records_that_others_can_write_do_not_count(store, patch, tmp_path, what):
    trust_now(store, patch)
    folder = tmp_path / "home" / "trust"
    if what == "mode":
        folder.chmod(0o777)
    else:
        folder.rename(tmp_path / "elsewhere")
        folder.symlink_to(tmp_path / "elsewhere")
    with fails("trust.unsafe-store"):
        Trust(store).state(patch)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"{}", b'{"kind": "path"}'])
def test_a_record_that_was_cut_off_trusts_nothing(store, patch, tmp_path, data):
    trust_now(store, patch)
    (file,) = (tmp_path / "home" / "trust").iterdir()
    file.write_bytes(data)
    assert Trust(store).state(patch) == "not trusted"
    assert list(store) == []


def test_a_record_that_is_removed(store):
    store.add("host", "a", "")
    assert store.remove("host", "a")
    assert not store.remove("host", "a")
    assert list(store) == []


def test_several_write_at_once(store):
    names = [f"host{number}" for number in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: store.add("host", name, ""), names))
    assert sorted(record.name for record in store) == sorted(names)


def test_a_file_without_end_cannot_be_trusted(patch):
    with (patch / "large").open("wb") as file:
        file.truncate(1 << 40)
    with fails("trust.unreadable-file", "is larger than"):
        content_of(patch)


def test_a_record_that_cannot_be_written(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(json, "dump", full)
    with fails("trust.unwritable-store", "No space") as caught:
        Store(tmp_path / "trust").add("host", "example.com", "")
    assert caught.value.where == str(tmp_path / "trust")
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert list((tmp_path / "trust").iterdir()) == []


def test_a_record_that_is_none(tmp_path):
    store = Store(tmp_path / "trust")
    store.add("host", "example.com", "")
    os.mkfifo(tmp_path / "trust" / "pipe.json")
    (tmp_path / "trust" / "zero.json").symlink_to("/dev/zero")
    (tmp_path / "trust" / "deep.json").write_text("[" * 60_000)
    (tmp_path / "trust" / "large.json").write_text(" " * 1_000_000)
    assert [record.name for record in store] == ["example.com"]


def test_what_vpatch_records_beside_a_patch_is_not_code(patch):
    """Only at the top: elsewhere a patch may have a file of that name."""
    before = content_of(patch)
    (patch / "shapes.json").write_text("{}")
    assert content_of(patch) == before
    (patch / "examples" / "shapes.json").write_text("{}")
    assert "examples/shapes.json" in content_of(patch).files


def test_a_folder_is_trusted_for_good(store, patch, tmp_path):
    store.add("folder", str(patch.parent), "")
    for change in CHANGES.values():
        change(patch)
        assert Trust(store).state(patch) == "trusted"
    # Not what only looks as if it lay there.
    outside = tmp_path / "outside"
    patch.rename(outside)
    assert Trust(store).state(outside) == "not trusted"
    patch.symlink_to(outside)
    assert Trust(store).state(patch) == "not trusted"


def test_what_is_adopted_is_trusted_as_it_is(store, patch):
    Trust(store).adopt(patch)
    assert Trust(store).state(patch) == "trusted"
    (patch / "codemod.py").write_text("x = 2\n")
    with fails("trust.not-trusted") as caught:
        Trust(store).require(patch)
    assert caught.value.hint.endswith(f"vpatch trust --folder {patch}")
