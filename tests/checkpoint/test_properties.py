"""Whatever is in a checkpoint's files, it is looked at or refused, and never a fault of ours."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.checkpoint import builders as b
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.findings import findings_of
from vpatch.checkpoint.graft_plan import lost_keys
from vpatch.checkpoint.header import write_header
from vpatch.checkpoint.needs import needs_of
from vpatch.checkpoint.tokenizer import tokenizer_of
from vpatch.errors import VpatchError

SLOW = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
LEAVES = st.none() | st.booleans() | st.integers(-2, 5) | st.floats() | st.text(max_size=4)
WORDS = st.sampled_from(
    ["ignore", "fp8", "group", "block", "int", "re:(", "re:.*", "-:x", "compressed-tensors", "gptq"]
)
JSON = st.recursive(
    LEAVES | WORDS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | WORDS, inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    [
        "architectures",
        "num_hidden_layers",
        "num_nextn_predict_layers",
        "text_config",
        "mtp_config",
        "hidden_size",
        "quantization_config",
    ]
)
QUANTISED = st.fixed_dictionaries(
    {"quant_method": st.sampled_from(["compressed-tensors", "fp8", "awq", "gptq", "x"]) | JSON},
    optional=dict.fromkeys(
        (
            "ignore",
            "modules_to_not_convert",
            "ignored_layers",
            "dynamic",
            "config_groups",
            "weight_block_size",
            "bits",
        ),
        JSON,
    ),
)


@pytest.fixture
def folder(tmp_path):
    """A checkpoint for all examples, which write its config and its tokenizer anew."""
    return b.write_checkpoint(tmp_path / "any", {}, b.trunk() | b.mimo_head())


@pytest.fixture
def sharded(tmp_path):
    """The same for examples of an index."""
    return b.write_checkpoint(tmp_path, {}, {"a.safetensors": b.trunk()})


@pytest.fixture
def other(tmp_path):
    return b.look_at(b.mimo(tmp_path / "other")).checkpoint


@SLOW
@given(st.dictionaries(KEYS, JSON), st.none() | QUANTISED, st.dictionaries(WORDS, JSON))
def test_any_config(folder, other, keys, quantised, tokenizer):
    config = b.config_of("DeepseekV4ForCausalLM") | keys
    config |= {"quantization_config": quantised} if quantised else {}
    tokenizer |= {"tokenizer_class": keys.get("architectures"), "auto_map": keys.get("text_config")}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    found = b.look_at(folder)
    assert found.mtp.scheme.name == "model.mtp_layers.N"
    findings = findings_of(found, tokenizer_of(FolderFiles(folder), None), "cpu")
    # An architecture that nobody knows may have a head that fits its config.
    assert findings or "architectures" in keys
    needs_of(found, "cpu")
    assert found.quantisation is None or isinstance(found.quantisation.bits, tuple)
    lost_keys(other, found.checkpoint)
    lost_keys(found.checkpoint, other)


@SLOW
@given(JSON, st.dictionaries(st.text(max_size=3), JSON, min_size=1))
def test_any_index(sharded, document, weights):
    for written in (document, {"weight_map": weights}):
        (sharded / "model.safetensors.index.json").write_text(json.dumps(written))
        with pytest.raises(VpatchError):
            b.look_at(sharded)


@SLOW
@given(st.binary(max_size=60), JSON, st.binary(max_size=8))
def test_any_file(tmp_path, junk, header, data):
    text = json.dumps({"x": header} if len(junk) % 2 else header).encode()
    for content in (junk, len(text).to_bytes(8, "little") + text + data):
        (tmp_path / "a").write_bytes(content)
        try:
            shard = b.read(tmp_path / "a")
        except VpatchError:
            continue
        sizes = [tensor.size for tensor in shard.tensors.values()]
        assert shard.data + sum(sizes) == len(content)


@SLOW
@given(st.binary())
def test_a_cut_or_changed_header_is_found_or_harmless(tmp_path, change):
    path = b.write_shard(tmp_path / "a", {"x": b.matrix(), "y": ("F32", (3,))})
    content = bytearray(path.read_bytes())
    for i, byte in enumerate(change[:40]):
        content[(i * 7 + byte) % len(content)] = byte
    path.write_bytes(content[: len(content) - len(change) % 5])
    try:
        shard = b.read(path)
    except VpatchError:
        return
    assert all(0 <= t.begin <= t.end <= len(content) for t in shard.tensors.values())


def test_what_is_written_is_read(tmp_path):
    made = b.read(b.write_shard(tmp_path / "a", b.trunk()))
    header = write_header(made.tensors, {"format": "pt"})
    assert (tmp_path / "a").read_bytes()[: made.data] == header
