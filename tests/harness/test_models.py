from __future__ import annotations

import json
import os
import re

import pytest

from tests.helpers import fails
from tests.projects import write_tree
from vpatch.declare.smoke import Model
from vpatch.errors import ExitCode, UsageError
from vpatch.harness import model_digest
from vpatch.harness.model_digest import digest_of_checkpoint
from vpatch.harness.models import given, locate, prepare
from vpatch.harness.sandbox import OverlaySandbox
from vpatch.progress import Silent
from vpatch.source.cache import Cache

FILES = {"config.json": b"{}", "model.safetensors": b"\0\1", "sub/tokenizer.json": b"[]"}
COMMIT = "0123abc"
PLACE = f"models--org--name/snapshots/{COMMIT}"
SITE = OverlaySandbox("/nonexistent/python", ())


def model_of(checkpoint, revision=None):
    return Model.model_validate({"checkpoint": str(checkpoint), "revision": revision})


def hub(folder, **refs):
    """A hub cache: a snapshot of links into blobs, and what names it."""
    write_tree(folder / "models--org--name/blobs", {"b1": b"{}"})
    snapshot = folder / PLACE
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/b1")
    for name, commit in (refs or {"main": COMMIT}).items():
        place = folder / "models--org--name/refs" / name.replace("__", "/")
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(commit)
    return snapshot


def test_a_synthetic_model_lies_nowhere_yet():
    assert locate(Model(synthetic="all")) is None


def test_a_folder(tmp_path, monkeypatch):
    write_tree(tmp_path / "m", FILES)
    (tmp_path / "link").symlink_to(tmp_path / "m")
    assert locate(model_of(tmp_path / "link")) == tmp_path / "m"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert locate(model_of("~/m")) == tmp_path / "m"


@pytest.mark.parametrize("variable", ["HF_HUB_CACHE", "HF_HOME", "HOME"])
def test_where_the_hub_cache_is(isolated, monkeypatch, variable):
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    below = {"HF_HUB_CACHE": ".", "HF_HOME": "hub", "HOME": ".cache/huggingface/hub"}
    snapshot = hub(isolated / "place" / below[variable])
    monkeypatch.setenv(variable, str(isolated / "place"))
    assert locate(model_of("org/name")) == snapshot


def test_the_narrower_variable_wins(tmp_path, monkeypatch):
    hub(tmp_path / "home/hub")
    snapshot = hub(tmp_path / "hub")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    assert locate(model_of("org/name")) == snapshot


def test_the_hub_cache_in_another_cache_folder(isolated, monkeypatch):
    for name in ("HF_HOME", "HF_HUB_CACHE"):
        monkeypatch.delenv(name, raising=False)
    snapshot = hub(isolated / "xdg/huggingface/hub")
    monkeypatch.setenv("XDG_CACHE_HOME", str(isolated / "xdg"))
    assert locate(model_of("org/name")) == snapshot


@pytest.mark.parametrize("revision", [None, "main", "v1", "refs/pr/1", COMMIT])
def test_a_revision(tmp_path, monkeypatch, revision):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = hub(tmp_path, main=COMMIT, v1=f"{COMMIT}\n", refs__pr__1=COMMIT)
    assert locate(model_of("org/name", revision)) == snapshot


def refused(checkpoint, revision=None, code="harness.no-such-model"):
    with fails(code) as caught:
        locate(model_of(checkpoint, revision))
    assert caught.value.exit_code == ExitCode.USAGE
    return caught.value


@pytest.mark.parametrize(
    ("checkpoint", "revision", "shown"),
    [
        ("org/name", "v2", "org/name (v2)"),
        ("org/other", None, "org/other (main)"),
    ],
)
def test_a_snapshot_that_is_not_there(tmp_path, monkeypatch, checkpoint, revision, shown):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub(tmp_path)
    error = refused(checkpoint, revision, "harness.model-not-fetched")
    assert error.what == f"the checkpoint {shown} is not on this machine"
    assert error.where == str(tmp_path / f"models--{checkpoint.replace('/', '--')}")
    command = f"hf download {checkpoint} --revision {revision or 'main'}"
    assert error.hint == f"fetch it ({command}), or give --model PATH"


def test_a_snapshot_that_was_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    hub(tmp_path, main="4567def")
    assert "is not on this machine" in refused("org/name", code="harness.model-not-fetched").what


@pytest.mark.parametrize(
    "checkpoint", ["/where", "/no/where", "./where", "~/where", "a/b/c", "name"]
)
def test_a_folder_that_is_not_there(checkpoint):
    error = refused(checkpoint)
    assert (error.what, error.where) == ("there is no such folder", checkpoint)
    assert error.hint == "correct --model"


def test_a_folder_without_a_model(tmp_path):
    error = refused(tmp_path)
    assert (error.what, error.where) == ("it has no config.json", str(tmp_path))
    assert error.hint == "name the folder of a checkpoint"


def digest(folder):
    return prepare("m", model_of(folder), SITE, folder.parent).digest


def test_digest_of_names_and_bytes(tmp_path):
    first = digest(write_tree(tmp_path / "a", FILES))
    assert re.fullmatch(r"sha256:[0-9a-f]{64}", first)
    assert digest(write_tree(tmp_path / "b", FILES)) == first
    others = [
        {"model.safetensors": b"\0\2"},
        {"sub/tokenizer.json": b""},
        {"new": b""},
    ]
    renamed = {name.replace("sub/", "tub/"): data for name, data in FILES.items()}
    swapped = FILES | {"model.safetensors": b"[]", "sub/tokenizer.json": b"\0\1"}
    trees = [*(FILES | other for other in others), renamed, swapped]
    found = [digest(write_tree(tmp_path / f"c{n}", tree)) for n, tree in enumerate(trees)]
    assert len({first, *found}) == 1 + len(trees)


def test_what_vllm_never_loads_is_not_in_the_digest(tmp_path):
    index = json.dumps({"weight_map": {"a": "model-1.safetensors"}}).encode()
    files = FILES | {"model.safetensors.index.json": index, "model-1.safetensors": b"1"}
    files |= {"consolidated.safetensors": b"m", "sub/model.safetensors": b"s"}
    del files["model.safetensors"]
    first = digest(write_tree(tmp_path / "a", files))
    more = {
        ".cache/huggingface/download/config.json.metadata": b"when it was fetched",
        ".gitattributes": b"*",
        "sub/.hidden": b"",
        "README.md": b"# A model",
        "LICENSE": b"x",
        "model-2.safetensors": b"not in the index",
    }
    assert digest(write_tree(tmp_path / "b", files | more)) == first
    changed = ("model-1.safetensors", "consolidated.safetensors", "sub/model.safetensors", "new.py")
    found = [digest(write_tree(tmp_path / name, files | {name: b"2"})) for name in changed]
    assert len({first, *found}) == 1 + len(changed)
    # Without an index that can be read, every shard counts.
    broken = files | {"model.safetensors.index.json": b"{"}
    found = [
        digest(write_tree(tmp_path / f"broken-{n}", broken | {"model-2.safetensors": b"2"[:n]}))
        for n in range(2)
    ]
    assert len(set(found)) == 2


@pytest.fixture
def memory(tmp_path):
    return Cache(tmp_path / "cache").answers("checkpoints")


LONG_AGO = 1_700_000_000_000_000_000


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read whole."""
    found = []
    real = model_digest._read
    monkeypatch.setattr(model_digest, "_read", lambda file: found.append(file.name) or real(file))
    return found


def large(tmp_path, monkeypatch, read, memory):
    """A checkpoint whose shard was read once, and is old."""
    monkeypatch.setattr(model_digest, "_SETTLED_SECONDS", 0.0)
    folder = write_tree(tmp_path / "m", FILES | {"model.safetensors": b"x" * 2**20})
    shard = folder / "model.safetensors"
    os.utime(shard, ns=(LONG_AGO, LONG_AGO))
    first = digest_of_checkpoint(folder, memory)
    assert "model.safetensors" in read
    read.clear()
    return folder, shard, first


def test_a_large_file_is_read_once(tmp_path, monkeypatch, read, memory):
    folder, _, first = large(tmp_path, monkeypatch, read, memory)
    assert digest_of_checkpoint(folder, memory) == first
    assert sorted(read) == ["config.json", "tokenizer.json"]
    assert digest_of_checkpoint(folder, None) == first
    read.clear()
    Cache(tmp_path / "cache").clear(None, Silent())
    assert digest_of_checkpoint(folder, memory) == first
    assert "model.safetensors" in read


@pytest.mark.parametrize("how", ["another time", "same time", "another file", "by a link"])
def test_a_large_file_that_was_changed_is_read_again(tmp_path, monkeypatch, read, memory, how):
    folder, shard, first = large(tmp_path, monkeypatch, read, memory)
    if how == "another file":
        (tmp_path / "new").write_bytes(b"y" * 2**20)
        os.utime(tmp_path / "new", ns=(LONG_AGO, LONG_AGO))
        (tmp_path / "new").replace(shard)
    elif how == "by a link":
        shard.unlink()
        (tmp_path / "blob").write_bytes(b"y" * 2**20)
        shard.symlink_to(tmp_path / "blob")
    else:
        with shard.open("r+b") as file:
            file.write(b"y")
        if how == "same time":  # its size and time are what they were
            os.utime(shard, ns=(LONG_AGO, LONG_AGO))
    assert digest_of_checkpoint(folder, memory) != first
    assert "model.safetensors" in read


def test_a_file_that_is_being_written_is_not_remembered(tmp_path, read, memory):
    folder = write_tree(tmp_path / "m", FILES | {"model.safetensors": b"x" * 2**20})
    for _ in range(2):
        digest_of_checkpoint(folder, memory)
    assert read.count("model.safetensors") == 2


@pytest.mark.parametrize("text", ["", "0" * 63, "\xff"])
def test_what_is_damaged_in_the_memory_is_not_believed(tmp_path, monkeypatch, read, memory, text):
    folder, _, first = large(tmp_path, monkeypatch, read, memory)
    (entry,) = memory.iterdir()
    entry.write_text(text, encoding="latin-1")
    assert digest_of_checkpoint(folder, memory) == first


def test_a_memory_that_cannot_be_written(tmp_path, monkeypatch, read, memory):
    folder, _, first = large(tmp_path, monkeypatch, read, memory)
    (tmp_path / "file").touch()
    assert digest_of_checkpoint(folder, tmp_path / "file") == first


def test_digest_of_links_is_that_of_what_they_lead_to(tmp_path):
    assert digest(hub(tmp_path / "hub")) == digest(
        write_tree(tmp_path / "a", {"config.json": b"{}"})
    )


@pytest.mark.parametrize("revision", [None, "v1"])
def test_a_checkpoint_is_described_by_its_commit(tmp_path, monkeypatch, revision):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    snapshot = hub(tmp_path, main=COMMIT, v1=COMMIT)
    found = prepare("m", model_of("org/name", revision), SITE, tmp_path)
    assert (found.name, found.folder, found.described) == ("m", snapshot, f"org/name@{COMMIT}")
    assert found.acceptance is None


def site_that(tmp_path, script):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    return OverlaySandbox(python, ())


@pytest.mark.parametrize(
    ("kind", "script", "acceptance"),
    [
        ("all", "tiny_mtp.py", "all"),
        ("most", "tiny_mtp.py", "most"),
        ("deepseek-v4", "tiny_deepseek_v4.py", "all"),
    ],
)
def test_a_synthetic_model_is_made_by_the_engine(tmp_path, kind, script, acceptance):
    sandbox = site_that(tmp_path, 'mkdir "$2"; echo "${1##*/} $3" >"$2/config.json"')
    workdir = tmp_path / "room"
    workdir.mkdir()
    found = prepare("tiny", Model(synthetic=kind), sandbox, workdir)
    assert (found.folder, found.described) == (workdir / "tiny", f"synthetic: {kind}")
    assert found.acceptance == acceptance
    assert (workdir / "tiny/config.json").read_text() == f"{script} {kind}\n"


def test_a_synthetic_model_that_cannot_be_made(tmp_path):
    sandbox = site_that(tmp_path, "echo No space left on device >&2; exit 1")
    with fails("harness.model-not-made") as caught:
        prepare("tiny", Model(synthetic="all"), sandbox, tmp_path)
    assert caught.value.what.startswith("the synthetic checkpoint tiny cannot be made:\nNo space")
    assert caught.value.where == str(tmp_path / "tiny")
    assert caught.value.hint.startswith("free space")


@pytest.mark.parametrize(
    ("typed", "checkpoint", "revision"),
    [("org/name", "org/name", None), ("org/name@v1", "org/name", "v1"), ("a/b@", "a/b", None)],
)
def test_model_of_the_command_line(typed, checkpoint, revision):
    found = given(typed)
    assert (found.checkpoint, found.revision) == (checkpoint, revision)


def test_a_folder_of_the_command_line_may_have_any_name(tmp_path):
    folder = tmp_path / "org@v1"
    folder.mkdir()
    assert given(str(folder)).checkpoint == str(folder)


@pytest.mark.parametrize(
    "typed",
    [
        "@v1",
        "",
    ],
)
def test_nothing_on_the_command_line(typed):
    with fails("cli.bad-value") as caught:
        given(typed)
    assert isinstance(caught.value, UsageError)
    assert caught.value.hint == "give a folder or an id, as org/name"
