from __future__ import annotations

import json
import os

import pytest

from tests.checkpoint.builders import matrix, read, write_shard
from vpatch.checkpoint.errors import CheckpointError
from vpatch.checkpoint.header import BITS, LARGEST


def with_header(path, document, data=b"", *, announced=None):
    text = document if isinstance(document, bytes) else json.dumps(document).encode()
    path.write_bytes((announced or len(text)).to_bytes(8, "little") + text + data)
    return path


def entry(begin=0, end=4, dtype="F32", shape=(1,)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


def refused(path):
    with pytest.raises(CheckpointError) as caught:
        read(path)
    error = caught.value
    assert error.where == str(path)
    assert error.hint
    assert error.code == ("checkpoint.damaged" if path.exists() else "checkpoint.unreadable")
    return error.what


def test_a_header_is_read(tmp_path):
    path = write_shard(tmp_path / "a.safetensors", {"x": ("F32", (2, 3)), "y": ("BF16", ())})
    shard = read(path)
    assert shard.tensors["x"] == ("F32", (2, 3), 0, 24)
    assert shard.tensors["y"].size == 2
    assert path.stat().st_size == shard.data + 26
    assert shard.data % 8 == 0


@pytest.mark.parametrize("dtype", BITS)
def test_every_dtype_has_its_size(dtype, tmp_path):
    path = write_shard(tmp_path / "a.safetensors", {"x": (dtype, (8,))})
    assert read(path).tensors["x"].size == BITS[dtype]


@pytest.mark.parametrize("kept", [0, 7, 8, 20])
def test_a_file_that_ends_in_its_header(kept, tmp_path):
    path = write_shard(tmp_path / "a.safetensors", {"x": matrix()})
    os.truncate(path, kept)
    assert "is truncated" in refused(path)


def test_a_file_that_ends_in_its_data(tmp_path):
    path = write_shard(tmp_path / "a.safetensors", {"x": matrix()})
    os.truncate(path, path.stat().st_size - 1)
    assert "is truncated: 127 bytes of data, and the header lists 128" in refused(path)


def test_bytes_that_nothing_tells_of(tmp_path):
    path = with_header(tmp_path / "a", {"x": entry()}, b"12345678")
    assert "has 4 bytes that its header does not list" in refused(path)


def test_a_header_that_is_too_large_is_not_read(tmp_path):
    path = tmp_path / "a"
    path.write_bytes((LARGEST + 1).to_bytes(8, "little"))
    os.truncate(path, LARGEST + 100)
    assert f"a header of {LARGEST + 1} bytes" in refused(path)


def test_a_pickle_is_no_safetensors_file(tmp_path):
    (tmp_path / "a").write_bytes(b"\x80\x04\x95 and so on, for some bytes")
    assert "is not a safetensors file" in refused(tmp_path / "a")


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (b"[1]", "not a JSON object"),
        (b"{", "not JSON"),
        (b"\xff{}", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"x": 1, "x": 2}', "is there twice"),
        ({"x": 1}, "x has no dtype, shape and offsets"),
        ({"x": {"dtype": "F32", "shape": [1]}}, "x has no dtype"),
        ({"x": entry(dtype="F33")}, "x is of no known dtype (F33)"),
        ({"x": entry(shape=[2])}, "which is 8 bytes, and has 4"),
        ({"x": entry(shape=[-1, -1])}, "numbers that cannot be"),
        ({"x": entry(shape=[True])}, "numbers that cannot be"),
        ({"x": entry(shape=[1.0])}, "numbers that cannot be"),
        ({"x": entry(shape=[10**400])}, "numbers that cannot be"),
        ({"x": entry(shape=[10**18] * 400)}, "numbers that cannot be"),
        ({"x": entry(4, 8)}, "x begins at 4, not 0"),
        ({"x": entry(), "y": entry()}, "begins at 0, not 4"),
        ({"x": entry(), "y": entry(8, 12)}, "y begins at 8, not 4"),
        ({"x": entry(4, 0)}, "has -4"),
        ({"x": entry(0, 1, "F4", [3])}, "has a wrong header"),
    ],
)
def test_a_header_that_lies(document, says, tmp_path):
    assert says in refused(with_header(tmp_path / "a", document, b"1234"))


def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a")
    assert "not a regular file" in refused(tmp_path / "a")


def test_a_file_that_is_not_there(tmp_path):
    assert "cannot be read" in refused(tmp_path / "a")
