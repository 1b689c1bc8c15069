from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest

from tests.helpers import fails
from vpatch.checkout.lockfile import (
    LockedFile,
    LockedImage,
    LockedPackage,
    LockedPatch,
    LockedPin,
    LockFile,
    SkippedPatch,
    read_lock,
)
from vpatch.checkout.new_lock import NewFile, NewLock, NewPatch, NewSkipped, plain_pin
from vpatch.errors import ExitCode
from vpatch.source.tree import Pin

PIN = Pin("vllm", "pypi", "0.50.0", "sha256:ab", "vllm-0.50.0.tar.gz")
FILE = LockedFile(path="vllm/a.py", before=None, after="sha256:cd")
NEW_FILE = NewFile("vllm/a.py", None, "sha256:cd")
LOCK = LockFile(
    recipe="vllm-0.50",
    source=LockedPin(**asdict(PIN)),
    base="1" * 40,
    head="2" * 40,
    patches=(LockedPatch(id="p", digest="sha256:ef", variant="v", commit="2" * 40, files=(FILE,)),),
    skipped=(SkippedPatch(id="q", state="absent"),),
    files=(FILE,),
)


def test_lock_comes_back_as_it_went(tmp_path):
    path = tmp_path / "vpatch.lock"
    path.write_text(LOCK.dump())
    assert read_lock(path) == LOCK
    assert read_lock(path).source.pin() == PIN


def test_lock_has_the_same_bytes_each_time():
    again = LockFile.model_validate_json(LOCK.dump())
    assert again.dump() == LOCK.dump()
    assert LOCK.dump().endswith("}\n")


def test_what_is_not_known_of_an_image_is_left_out():
    """Locks from before these keys have the same digests."""
    image = LockedImage(mode="overlay", base="vllm:1", pinned="vllm@sha256:ab")
    lock = LOCK.model_copy(update={"image": image})
    written = json.loads(lock.dump())["image"]
    assert set(written) == {"mode", "base", "pinned", "compiler"}
    assert LockFile.model_validate_json(lock.dump()) == lock
    local = image.model_copy(update={"local": True})
    assert json.loads(LOCK.model_copy(update={"image": local}).dump())["image"]["local"] is True


@pytest.mark.parametrize("chosen", [(), ("p",)])
@pytest.mark.parametrize("mode", [None, "overlay", "cpu"])
def test_a_lock_is_written_as_it_is_read(chosen, mode):
    """Without pydantic, byte by byte."""
    image = mode and LockedImage(mode=mode, base="vllm:1", pinned="vllm@sha256:ab")
    if mode == "cpu":
        image = image.model_copy(update={"pip": (LockedPackage(name="torch", version="2"),)})
    keys = {"carried": ("c",), "chosen": chosen}
    lock = LOCK.model_copy(update={**keys, "image": image})
    new = NewLock(
        recipe="vllm-0.50",
        source=PIN,
        base="1" * 40,
        head="2" * 40,
        patches=(NewPatch("p", "sha256:ef", "v", "2" * 40, (NEW_FILE,)),),
        skipped=(NewSkipped("q", "absent"),),
        files=(NEW_FILE,),
        image=image,
        **keys,
    )
    assert new.dump() == lock.dump()
    assert new.model() == lock
    there = json.loads(new.dump()).keys()
    assert ("chosen" in there, "image" in there) == (bool(chosen), mode is not None)


@pytest.mark.parametrize("path", ["../a.py", "/a.py", "a//b.py", ".git/config", "a\n.py"])
def test_a_lock_with_a_path_elsewhere_is_not_made(path):
    with pytest.raises(ValueError, match=r"name|path|characters"):
        NewFile(path, None, "sha256:cd")


def test_the_pin_of_a_new_lock_is_checked():
    assert plain_pin(replace(PIN, version="0.50.0.RC1")).version == "0.50.0rc1"
    for wrong in ({"tree": "../vllm"}, {"tree": "VLLM"}, {"version": "../1"}):
        with pytest.raises(ValueError, match=r"name|version"):
            plain_pin(replace(PIN, **wrong))


@pytest.mark.parametrize("parent", ["", "none", "file"])
def test_lock_missing(tmp_path, parent):
    (tmp_path / "file").touch()
    path = tmp_path / parent / "vpatch.lock"
    with fails("checkout.no-lock") as caught:
        read_lock(path)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.where == str(path)


def test_lock_that_is_a_folder(tmp_path):
    with fails("checkout.unreadable-lock"):
        read_lock(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["source"].update(version="../../etc"), "version: is not a version"),
        (lambda d: d["source"].update(version="9" * 5000), "version: is not a version"),
        (lambda d: d["source"].update(tree="../etc"), "tree: is not a name of a tree"),
        (lambda d: d["files"][0].update(path="../etc/passwd"), "path: .*not a path below"),
        (lambda d: d["files"][0].update(path="/etc/passwd"), "path: .*not a path below"),
        (lambda d: d["files"][0].update(path="a\nb"), "path: .*control characters"),
        (lambda d: d["files"][0].update(path="a/" * 2000 + "b"), "path: .*too deep"),
        (lambda d: d.pop("head"), "is not a lock: the key 'head' is missing"),
        (lambda d: d.update(lock_version=2), "lock_version: must be 1, not the number 2"),
        (lambda d: d.update(extra=1), "is not a lock: unknown key 'extra'"),
        (lambda d: d["source"].pop("digest"), "source: the key 'digest' is missing"),
        (
            lambda d: d["patches"][0].update(files=3),
            r"patches\.0\.files: must be a list, not the number 3",
        ),
    ],
)
def test_lock_with_a_wrong_key(tmp_path, change, message):
    document = json.loads(LOCK.dump())
    change(document)
    path = tmp_path / "vpatch.lock"
    path.write_text(json.dumps(document))
    with fails("checkout.damaged-lock", message) as caught:
        read_lock(path)
    assert "--force" in caught.value.hint


@pytest.mark.parametrize("text", ["", "{", LOCK.dump()[:200], "\x00" * 40, "[]"])
def test_lock_cut_off(tmp_path, text):
    path = tmp_path / "vpatch.lock"
    path.write_text(text)
    with fails(
        "checkout.damaged-lock", r"is not a lock: must be (JSON: |a mapping of keys, not a list)"
    ):
        read_lock(path)
