from __future__ import annotations

import hashlib
import json
import os
import signal
import struct
import subprocess
import sys

import pytest

from tests.checkpoint import builders as b
from tests.checkpoint.test_switching import killed
from tests.helpers import fails
from vpatch.checkpoint import graft as module
from vpatch.checkpoint import shards
from vpatch.checkpoint.errors import CheckpointError
from vpatch.checkpoint.folder import open_checkpoint
from vpatch.checkpoint.graft import graft
from vpatch.checkpoint.writing import alone_in
from vpatch.progress import Silent

INDEX = "model.safetensors.index.json"
SHARD = "model-mtp.safetensors"
HEAD = b.mimo_head()


def numbered(tensors):
    """Values for tensors, different for each."""
    found = {}
    for i, (name, (dtype, shape)) in enumerate(tensors.items()):
        size = b.BITS[dtype] // 8
        count = 1
        for side in shape:
            count *= side
        if dtype == "F32":
            found[name] = struct.pack(f"<{count}f", *[i + n / 7 for n in range(count)])
        elif dtype == "F16":
            found[name] = struct.pack(f"<{count}e", *[i + n / 7 for n in range(count)])
        else:
            # The upper halves of small floats: finite whatever they are taken for.
            found[name] = bytes((i + n) % 60 for n in range(count * size))
    return found


def original(folder, head=HEAD, architecture="MiMoForCausalLM", values=None, **keys):
    shards = {"a.safetensors": b.trunk(), "b.safetensors": head}
    config = b.config_of(architecture, num_nextn_predict_layers=1, mtp_loss=0.3, **keys)
    return b.write_checkpoint(folder, config, shards, values=values or numbered(head))


def dropped(folder, trunk=None, *, declared=None, shards=2, **keys):
    tensors = trunk or b.trunk()
    count = {} if declared is None else {"num_nextn_predict_layers": declared}
    config = b.config_of("MiMoForCausalLM", **count, **keys)
    if shards == 1:
        return b.write_checkpoint(folder, config, tensors, values=numbered(tensors))
    half = len(tensors) // 2
    names = list(tensors)
    parts = {
        "x.safetensors": {name: tensors[name] for name in names[:half]},
        "y.safetensors": {name: tensors[name] for name in names[half:]},
    }
    return b.write_checkpoint(folder, config, parts, values=numbered(tensors))


def run(target, source, **options):
    return graft(target, source, **({"as_trunk": False, "progress": Silent()} | options))


def digests(folder):
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in folder.iterdir()}


def value(folder, name):
    for found, tensor, shard in open_checkpoint(folder).tensors():
        if found == name:
            start = shard.data + tensor.begin
            return tensor.dtype, shard.path.read_bytes()[start : start + tensor.size]
    raise KeyError(name)


@pytest.fixture
def source(tmp_path):
    return original(tmp_path / "source")


@pytest.mark.parametrize("shards", [1, 2])
def test_a_head_is_put_back(shards, source, tmp_path):
    target = dropped(tmp_path / "target", shards=shards)
    before = digests(target)
    done = run(target, source)
    assert sorted(done.written) == sorted(HEAD)
    assert done.shard == target / SHARD
    for name in HEAD:
        assert value(target, name) == value(source, name)
    assert set(digests(target)) - set(before) == {SHARD, "config.json.orig"} | (
        {INDEX} if shards == 1 else set()
    )
    kept = [name for name in before if name.endswith(".safetensors")]
    assert [digests(target)[name] for name in kept] == [before[name] for name in kept]


def test_the_index_leads_to_every_tensor(source, tmp_path):
    target = dropped(tmp_path / "target", shards=1)
    run(target, source)
    document = json.loads((target / INDEX).read_text())
    assert set(document["weight_map"]) == set(b.trunk()) | set(HEAD)
    assert {document["weight_map"][name] for name in HEAD} == {SHARD}
    sizes = [tensor.size for _, tensor, _ in open_checkpoint(target).tensors()]
    assert document["metadata"]["total_size"] == sum(sizes)


def test_links_into_a_cache_are_replaced_and_not_written_through(source, tmp_path):
    blobs = dropped(tmp_path / "blobs", shards=1)
    before = digests(blobs)
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    for path in blobs.iterdir():
        (snapshot / path.name).symlink_to(path)
    run(snapshot, source)
    assert digests(blobs) == before
    assert (snapshot / "model.safetensors").is_symlink()
    assert open_checkpoint(snapshot).names() == set(b.trunk()) | set(HEAD)


def test_what_the_config_lost_comes_back(source, tmp_path):
    target = dropped(tmp_path / "target")
    before = (target / "config.json").read_bytes()
    done = run(target, source)
    config = json.loads((target / "config.json").read_text())
    assert (config["num_nextn_predict_layers"], config["mtp_loss"]) == (1, 0.3)
    assert sorted(done.keys) == ["mtp_loss", "num_nextn_predict_layers"]
    assert (target / "config.json.orig").read_bytes() == before


def test_a_count_of_0_counts_as_lost_and_other_values_stay(source, tmp_path):
    target = dropped(tmp_path / "target", declared=0, mtp_loss=0.1)
    assert run(target, source).keys == ("num_nextn_predict_layers",)
    assert json.loads((target / "config.json").read_text())["mtp_loss"] == 0.1


def test_a_config_that_lost_nothing_is_not_written(source, tmp_path):
    target = dropped(tmp_path / "target", declared=1, mtp_loss=0.3)
    before = (target / "config.json").stat()
    assert run(target, source).backup is None
    assert (target / "config.json").stat() == before


def test_keys_of_a_nested_config(tmp_path):
    source = original(tmp_path / "source", text_config={"mtp_num_hidden_layers": 1})
    target = dropped(tmp_path / "target", text_config={"hidden_size": b.HIDDEN})
    run(target, source)
    config = json.loads((target / "config.json").read_text())
    assert config["text_config"] == {"hidden_size": b.HIDDEN, "mtp_num_hidden_layers": 1}


def test_a_second_run_changes_nothing(source, tmp_path):
    target = dropped(tmp_path / "target")
    run(target, source)
    before = {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in target.iterdir()}
    done = run(target, source)
    assert not done.changed
    assert sorted(done.there) == sorted(HEAD)
    assert {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in target.iterdir()} == before


def test_only_what_is_missing_is_taken(source, tmp_path):
    tensors = b.trunk() | HEAD
    lost = "model.mtp_layers.0.mlp.up_proj.weight"
    del tensors[lost]
    target = dropped(tmp_path / "target", tensors)
    values = numbered(HEAD)
    for file in ("x.safetensors", "y.safetensors"):
        inside = {n: (t.dtype, t.shape) for n, t in _tensors(target / file).items()}
        b.write_shard(target / file, inside, {n: values[n] for n in inside if n in values})
    done = run(target, source)
    assert done.written == (lost,)
    assert len(done.there) == len(HEAD) - 1


def _tensors(path):
    return b.read(path).tensors


def test_another_tensor_of_the_same_name_is_not_touched(source, tmp_path):
    target = dropped(tmp_path / "target", b.trunk() | HEAD)
    before = digests(target)
    with fails("checkpoint.graft-conflict", "is there already, with another value"):
        run(target, source)
    assert digests(target) == before


def test_an_index_that_still_names_the_dropped_shard(source, tmp_path):
    target = dropped(tmp_path / "target")
    document = json.loads((target / INDEX).read_text())
    document["weight_map"] |= dict.fromkeys(HEAD, "gone.safetensors")
    (target / INDEX).write_text(json.dumps(document))
    run(target, source)
    assert open_checkpoint(target).missing == {}


def test_of_the_source_only_shards_with_mtp_are_needed(source, tmp_path):
    (source / "a.safetensors").unlink()
    assert run(dropped(tmp_path / "target"), source).written
    (source / "b.safetensors").unlink()
    with fails("checkpoint.incomplete", r"shards are missing: b\.safetensors"):
        run(dropped(tmp_path / "other"), source)


def test_a_target_with_a_missing_shard(source, tmp_path):
    target = dropped(tmp_path / "target")
    (target / "y.safetensors").unlink()
    with fails("checkpoint.incomplete", r"shards are missing: y\.safetensors"):
        run(target, source)


@pytest.mark.parametrize(("old", "new"), [("F32", "BF16"), ("F32", "F16"), ("F16", "BF16")])
def test_floats_become_the_trunks(old, new, tmp_path):
    head = {n: (old, shape) for n, (_, shape) in HEAD.items()}
    source = original(tmp_path / "source", head)
    target = dropped(tmp_path / "target", {n: (new, s) for n, (_, s) in b.trunk().items()})
    done = run(target, source, as_trunk=True)
    assert done.converted == {(old, new): len(HEAD)}
    for name in HEAD:
        dtype, made = value(target, name)
        assert dtype == new
        before, after = floats(old, value(source, name)[1]), floats(new, made)
        bits = 8 if new == "BF16" else 11
        assert all(abs(x - y) <= abs(x) * 2**-bits for x, y in zip(before, after, strict=True))
    assert not run(target, source, as_trunk=True).changed
    with fails("checkpoint.graft-conflict", "with the same --tensor-format"):
        run(target, source)


@pytest.mark.parametrize("new", ["F32", "F16"])
def test_bf16_becomes_more(new, source, tmp_path):
    target = dropped(tmp_path / "target", {n: (new, s) for n, (_, s) in b.trunk().items()})
    run(target, source, as_trunk=True)
    for name in HEAD:
        dtype, made = value(target, name)
        assert dtype == new
        if new == "F32":
            assert floats("BF16", value(source, name)[1]) == floats(new, made)


def floats(dtype, data):
    if dtype == "BF16":
        pairs = [data[i : i + 2] for i in range(0, len(data), 2)]
        return [struct.unpack("<f", b"\0\0" + pair)[0] for pair in pairs]
    letter, size = {"F32": ("f", 4), "F16": ("e", 2)}[dtype]
    return list(struct.unpack(f"<{len(data) // size}{letter}", data))


def test_rounding_is_to_the_nearest_even(tmp_path):
    name = "model.mtp_layers.0.token_layernorm.weight"
    head = HEAD | {name: ("F32", (8,))}
    words = [0x3F808000, 0x3F818000, 0x3F808001, 0x7F800000, 0xFF800000, 0, 0x80000000, 0x3F7FFFFF]
    values = numbered(head) | {name: struct.pack("<8I", *words)}
    source = original(tmp_path / "source", head, values=values)
    target = dropped(tmp_path / "target")
    run(target, source, as_trunk=True)
    made = struct.unpack("<8H", value(target, name)[1])
    wanted = (0x3F80, 0x3F82, 0x3F81, 0x7F80, 0xFF80, 0, 0x8000, 0x3F80)
    assert made == wanted


def test_a_value_that_is_too_large_is_refused(tmp_path):
    name = "model.mtp_layers.0.token_layernorm.weight"
    head = HEAD | {name: ("F32", (8,))}
    values = numbered(head) | {name: struct.pack("<8f", *([7e4] * 8))}
    source = original(tmp_path / "source", head, values=values)
    target = dropped(tmp_path / "target", {n: ("F16", s) for n, (_, s) in b.trunk().items()})
    before = digests(target)
    with fails("checkpoint.cannot-convert", f"{name} has values that are too large for F16"):
        run(target, source, as_trunk=True)
    assert digests(target) == before


def test_what_is_no_float_is_not_converted(tmp_path):
    source = original(tmp_path / "source", b.mimo_head(dtype="F8_E4M3"))
    target = dropped(tmp_path / "target")
    with fails("checkpoint.cannot-convert", "is F8_E4M3 and cannot be made BF16"):
        run(target, source, as_trunk=True)
    run(target, source)
    assert value(target, "model.mtp_layers.0.mlp.up_proj.weight")[0] == "F8_E4M3"


def test_a_quantised_trunk_takes_its_own_floats(tmp_path):
    head = {n: ("F32", shape) for n, (_, shape) in HEAD.items()}
    source = original(tmp_path / "source", head)
    target = dropped(tmp_path / "target", b.trunk(dtype="F8_E4M3"))
    run(target, source, as_trunk=True)
    assert {value(target, name)[0] for name in HEAD} == {"BF16"}


def test_a_dtype_that_the_trunk_keeps_is_kept(tmp_path):
    norm = "model.mtp_layers.0.input_layernorm.weight"
    head = HEAD | {norm: ("F32", (b.HIDDEN,))}
    tensors = b.trunk()
    for i in range(2):
        tensors[f"model.layers.{i}.input_layernorm.weight"] = ("F32", (b.HIDDEN,))
    source = original(tmp_path / "source", head)
    target = dropped(tmp_path / "target", tensors)
    assert run(target, source, as_trunk=True).converted == {}
    assert value(target, norm)[0] == "F32"


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"hidden_size": 16}, "hidden_size 8 and 16"),
        ({"num_hidden_layers": 3}, "num_hidden_layers 2 and 3"),
        ({"architectures": ["Other"]}, "MiMoForCausalLM and Other"),
    ],
)
def test_a_source_of_another_model(keys, says, source, tmp_path):
    config = json.loads((source / "config.json").read_text())
    (source / "config.json").write_text(json.dumps(config | keys))
    with fails("checkpoint.wrong-source", f"not of one model: {says}"):
        run(dropped(tmp_path / "target"), source)


def test_a_source_that_has_none_either(tmp_path):
    with fails("checkpoint.wrong-source", "it has no MTP tensors"):
        run(dropped(tmp_path / "target"), dropped(tmp_path / "source"))


def test_a_source_that_lacks_some(source, tmp_path):
    head = dict(list(HEAD.items())[:-1])
    b.write_shard(source / "b.safetensors", head, numbered(head))
    index = source / INDEX
    document = json.loads(index.read_text())
    del document["weight_map"]["model.mtp_layers.0.mlp.down_proj.weight"]
    index.write_text(json.dumps(document))
    with fails("checkpoint.incomplete", "lacks MTP tensors itself"):
        run(dropped(tmp_path / "target"), source)


def test_its_own_source(source):
    with fails("checkpoint.wrong-source", "is its own source"):
        run(source, source)


def test_a_config_that_is_not_there(source, tmp_path):
    (source / "config.json").unlink()
    with fails("checkpoint.wrong-source", r"no config\.json"):
        run(dropped(tmp_path / "target"), source)


def test_layers_behind_a_trunk_of_another_name(tmp_path):
    head = b.deepseek_head(2)
    source = original(tmp_path / "source", head, "DeepseekV3ForCausalLM")
    tensors = b.trunk(prefix="model.language_model.layers")
    config = b.config_of("DeepseekV3ForCausalLM")
    target = b.write_checkpoint(tmp_path / "target", config, tensors)
    with fails("checkpoint.wrong-source", r"called model\.layers\.N, and the target's model\.l"):
        run(target, source)


def test_a_full_disk(source, tmp_path, monkeypatch):
    target = dropped(tmp_path / "target")
    before = digests(target)
    monkeypatch.setattr(shards.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 10})())
    with fails("checkpoint.unwritable", "are free"):
        run(target, source)
    assert digests(target) == before


def test_a_disk_that_lies_is_found_out(source, tmp_path, monkeypatch):
    target = dropped(tmp_path / "target")
    before = digests(target)
    real = shards.read_shard

    def flipped(files, name):
        with (files.root / name).open("r+b") as file:
            file.seek(-1, os.SEEK_END)
            file.write(b"\xff")
        return real(files, name)

    monkeypatch.setattr(shards, "read_shard", flipped)
    with fails("checkpoint.written-wrong"):
        run(target, source)
    assert digests(target) == before


def test_a_write_that_fails_leaves_nothing(source, tmp_path, monkeypatch):
    target = dropped(tmp_path / "target")
    before = digests(target)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shards.os, "fsync", full)
    with fails("checkpoint.unwritable", "No space left on device"):
        run(target, source)
    assert digests(target) == before


@pytest.mark.parametrize(
    ("change", "says"),
    [(os.unlink, "it cannot be read"), (lambda path: os.truncate(path, 1200), "shorter meanwhile")],
)
def test_a_source_that_changes_meanwhile(change, says, source, tmp_path, monkeypatch):
    target = dropped(tmp_path / "target")
    before = digests(target)
    real = module.plan_graft

    def then_changed(*args, **options):
        found = real(*args, **options)
        change(source / "b.safetensors")
        return found

    monkeypatch.setattr(module, "plan_graft", then_changed)
    with pytest.raises(CheckpointError, match=says) as caught:
        run(target, source)
    assert caught.value.where == str(source / "b.safetensors")
    assert digests(target) == before


def test_two_at_once(source, tmp_path):
    target = dropped(tmp_path / "target")
    with alone_in(target), fails("checkpoint.in-use", "another vpatch"):
        run(target, source)


@pytest.mark.parametrize("shards", [1, 2])
def test_killed_at_any_step_it_leaves_a_whole_checkpoint(shards, source, tmp_path):
    for step in range(1, 50):
        target = dropped(tmp_path / f"target-{step}", shards=shards)
        is_killed = killed(
            step,
            lambda target=target: run(target, source),
            lambda event, _: event in {"os.rename", "os.remove"},
        )
        found = open_checkpoint(target)
        assert (found.missing, found.absent) == ({}, ())
        assert found.names() in (set(b.trunk()), set(b.trunk()) | set(HEAD))
        assert run(target, source)
        assert open_checkpoint(target).names() == set(b.trunk()) | set(HEAD)
        assert not run(target, source).changed
        assert not [p for p in target.iterdir() if p.name.startswith(".")]
        if not is_killed:
            break
    assert step > 1
    assert not is_killed


def test_ctrl_c_at_any_step_leaves_nothing_half_done(source, tmp_path):
    """What it leaves is the old checkpoint, or the new one."""
    whole = dropped(tmp_path / "whole", shards=1)
    old = digests(whole)
    run(whole, source)
    new = digests(whole)
    seen = []
    for step in range(1, 100, 2):
        target = dropped(tmp_path / f"target-{step}", shards=1)
        if not killed(step, lambda target=target: run(target, source), ending=signal.SIGINT):
            break
        assert digests(target) in (old, new), step
        seen.append(digests(target) == new)
    assert {*seen} == {False, True}


def test_a_full_disk_after_the_new_shard(source, tmp_path, monkeypatch):
    target = dropped(tmp_path / "target", shards=1)
    before = digests(target)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.writing, "back_up", full)
    with fails("checkpoint.unwritable", "No space left on device"):
        run(target, source)
    assert digests(target) == before


def test_a_file_that_the_index_does_not_name_is_not_replaced(source, tmp_path):
    target = dropped(tmp_path / "target")
    (target / SHARD).write_bytes(b"somebody's own")
    assert run(target, source).shard == target / "model-mtp-2.safetensors"
    assert (target / SHARD).read_bytes() == b"somebody's own"


MEASURED = f"""
{b.PEAK}
import sys
from pathlib import Path
from vpatch.checkpoint.graft import graft
from vpatch.progress import Silent
graft(Path(sys.argv[1]), Path(sys.argv[2]), as_trunk=sys.argv[3] == "trunk", progress=Silent())
print(peak())
"""


@pytest.mark.slow
@pytest.mark.parametrize("form", ["source", "trunk"])
def test_memory_does_not_grow_with_a_tensor(form, tmp_path):
    large = "model.mtp_layers.0.input_proj.weight"
    head = HEAD | {large: ("F32", (400, 2**18))}  # 419 MB of holes
    source = original(tmp_path / "source", head, values={"none": b""})
    target = dropped(tmp_path / "target")
    command = [sys.executable, "-c", MEASURED, str(target), str(source), form]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert int(done.stdout) < 200e6
    size = (target / SHARD).stat().st_size
    assert size > (400e6 if form == "source" else 200e6)
