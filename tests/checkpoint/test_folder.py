from __future__ import annotations

import json
import os
import pickle

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.builders import matrix, trunk, write_checkpoint, write_shard
from tests.helpers import fails
from vpatch.checkpoint.folder import INDEX, open_checkpoint
from vpatch.errors import ManyErrors

TWO = {"a.safetensors": {"x": matrix()}, "b.safetensors": {"y": matrix()}}


def indexed(folder, weights, **document):
    (folder / INDEX).write_text(json.dumps({"weight_map": weights} | document))
    return folder


def test_shards_of_an_index(tmp_path):
    found = open_checkpoint(write_checkpoint(tmp_path, {}, TWO))
    assert [shard.path.name for shard in found.shards] == ["a.safetensors", "b.safetensors"]
    assert found.names() == {"x", "y"}
    assert (found.missing, found.absent, found.unlisted) == ({}, (), ())


def test_without_an_index_all_files_are_shards(tmp_path):
    found = open_checkpoint(write_checkpoint(tmp_path, {}, TWO, index=False))
    assert found.names() == {"x", "y"}


def test_a_shard_that_is_not_there(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    (tmp_path / "b.safetensors").unlink()
    assert open_checkpoint(tmp_path).missing == {"b.safetensors": ("y",)}


def test_a_link_that_leads_nowhere_is_a_missing_shard(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    (tmp_path / "b.safetensors").unlink()
    (tmp_path / "b.safetensors").symlink_to("../blobs/b")
    assert open_checkpoint(tmp_path).missing == {"b.safetensors": ("y",)}


def test_a_tensor_that_its_shard_does_not_have(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    indexed(tmp_path, {"x": "a.safetensors", "y": "b.safetensors", "z": "b.safetensors"})
    assert open_checkpoint(tmp_path).absent == ("z",)


def test_a_shard_that_the_index_does_not_name(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    write_shard(tmp_path / "c.safetensors", {"x": matrix()})
    found = open_checkpoint(tmp_path)
    assert found.unlisted == ("c.safetensors",)
    assert found.names() == {"x", "y"}


def test_links_as_in_the_cache_of_the_hub(tmp_path):
    blobs = tmp_path / "blobs"
    write_checkpoint(blobs, {"architectures": ["X"]}, TWO)
    snapshot = tmp_path / "snapshots" / "main"
    snapshot.mkdir(parents=True)
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(os.path.relpath(path, snapshot))
    found = open_checkpoint(snapshot)
    assert found.architecture == "X"
    assert found.names() == {"x", "y"}


@pytest.mark.parametrize("file", ["../b.safetensors", "/etc/b.safetensors", "..", "", 1, "c/b"])
def test_an_index_that_leads_out_of_the_folder(file, tmp_path):
    inside = write_checkpoint(tmp_path / "inside", {}, TWO)
    write_shard(tmp_path / "b.safetensors", {"y": matrix()})
    indexed(inside, {"x": "a.safetensors", "y": file})
    with fails("checkpoint.unsafe-index", "is not a file of this folder") as caught:
        open_checkpoint(inside)
    assert caught.value.where == str(inside / INDEX)


def test_an_index_that_names_a_pickle(tmp_path):
    indexed(write_checkpoint(tmp_path, {}, TWO), {"x": "pytorch_model.bin"})
    with fails("checkpoint.unsafe-index", "which is not a safetensors file"):
        open_checkpoint(tmp_path)


def test_a_tensor_that_is_there_twice(tmp_path):
    write_checkpoint(tmp_path, {}, TWO, index=False)
    write_shard(tmp_path / "c.safetensors", {"x": matrix()})
    with fails("checkpoint.damaged", r"x is in a\.safetensors as well as in c"):
        open_checkpoint(tmp_path)


def test_every_damaged_shard_is_named(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    for name in TWO:
        os.truncate(tmp_path / name, 4)
    with pytest.raises(ManyErrors) as caught:
        open_checkpoint(tmp_path)
    assert [error.where for error in caught.value.errors] == [str(tmp_path / n) for n in TWO]


class Trap:
    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_a_pickle_is_named_and_not_unpickled(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps(Trap()))
    with fails("checkpoint.wrong-format", r"a pickle \(pytorch_model\.bin\)"):
        open_checkpoint(tmp_path)
    assert not (tmp_path / "unpickled").exists()


def test_the_index_of_sharded_pickles_is_enough(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin.index.json").write_text("{}")
    with fails("checkpoint.wrong-format", r"a pickle \(pytorch_model\.bin\.index\.json\)"):
        open_checkpoint(tmp_path)


@pytest.mark.parametrize(
    ("mark", "tensors", "says"),
    [
        ("adapter_config.json", "adapter_model.safetensors", "it is a LoRA adapter.*\n.*merge"),
        ("model_index.json", "some.safetensors", "a pipeline of diffusers.*\n.*text_encoder"),
        ("model_index.json", None, "a pipeline of diffusers"),
    ],
)
def test_what_is_no_language_model_is_named(mark, tensors, says, tmp_path):
    (tmp_path / mark).write_text("{}")
    if tensors:
        b.write_shard(tmp_path / tensors, b.trunk())
    with fails("checkpoint.wrong-format", says):
        open_checkpoint(tmp_path)


def test_a_model_beside_an_adapter_is_a_model(tmp_path):
    b.mimo(tmp_path / "model")
    (tmp_path / "model" / "adapter_config.json").write_text("{}")
    assert open_checkpoint(tmp_path / "model").shards


def test_a_gguf_is_named(tmp_path):
    (tmp_path / "model.gguf").write_bytes(b"GGUF")
    with fails(
        "checkpoint.wrong-format", "GGUF, which vpatch does not read, and there is no config"
    ):
        open_checkpoint(tmp_path)


def test_a_folder_without_tensors(tmp_path):
    with fails("checkpoint.wrong-format", "there are no safetensors files"):
        open_checkpoint(tmp_path)
    with fails("checkpoint.no-such-folder"):
        open_checkpoint(tmp_path / "other")


@pytest.mark.parametrize("name", ["config.json", INDEX])
@pytest.mark.parametrize("text", [b"{", b"[]", b"\xff", b"[" * 100_000])
def test_json_that_is_none(name, text, tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    (tmp_path / name).write_bytes(text)
    with fails("checkpoint.damaged", "it is not (a )?JSON") as caught:
        open_checkpoint(tmp_path)
    assert caught.value.where == str(tmp_path / name)


def test_json_that_is_a_pipe(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    (tmp_path / "config.json").unlink()
    os.mkfifo(tmp_path / "config.json")
    with fails("checkpoint.damaged", "not a regular file"):
        open_checkpoint(tmp_path)


def test_an_index_without_a_map(tmp_path):
    write_checkpoint(tmp_path, {}, TWO)
    (tmp_path / INDEX).write_text("{}")
    with fails("checkpoint.damaged", "no weight_map"):
        open_checkpoint(tmp_path)


def test_the_config_of_a_language_model_may_be_nested(tmp_path):
    config = {"hidden_size": 1, "text_config": {"num_hidden_layers": 7, "hidden_size": 2}}
    found = open_checkpoint(write_checkpoint(tmp_path, config, trunk()))
    assert found.layers == 7
    assert found.language["hidden_size"] == 2


@pytest.mark.parametrize("named", [None, [], "X", [1], [["X"]], {"X": 1}])
def test_an_architecture_that_is_no_name(named, tmp_path):
    found = open_checkpoint(write_checkpoint(tmp_path, {"architectures": named}, trunk()))
    assert found.architecture is None
