"""The header of a safetensors file: read strictly, and nothing behind it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vpatch.checkpoint.errors import REMEDY, CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from pydantic import JsonValue

    from vpatch.checkpoint.files import Files

# The format's own limit; the reference implementation refuses larger ones too.
LARGEST = 100_000_000
LENGTH = 8
BITS = {
    **dict.fromkeys(("F4",), 4),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    **dict.fromkeys(("BOOL", "U8", "I8", "F8_E5M2", "F8_E4M3", "F8_E8M0"), 8),
    **dict.fromkeys(("F8_E4M3FNUZ", "F8_E5M2FNUZ"), 8),
    **dict.fromkeys(("I16", "U16", "F16", "BF16"), 16),
    **dict.fromkeys(("I32", "U32", "F32"), 32),
    **dict.fromkeys(("I64", "U64", "F64", "C64"), 64),
}
"""Each dtype of the format, and how many bits one value has."""
# What a clone without Git LFS has in the place of a file.
_POINTER = b"version https://git-lfs.github.com/spec/"
# A number of thousands of digits cannot even be shown.
_NUMBERS = 1 << 63
_DIMENSIONS = 64
# The headers of most files have less, so one read is enough for them.
_MOST_HEADERS = 100_000


class Tensor(NamedTuple):
    """One tensor of a file: `begin` and `end` are in bytes, from where the data begins."""

    dtype: str
    shape: tuple[int, ...]
    begin: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.begin


@dataclass(frozen=True)
class Shard:
    """A file of tensors. `data` is where the data begins in it, in bytes."""

    path: Path
    data: int
    tensors: dict[str, Tensor]


def read_shard(files: Files, name: str) -> Shard:
    """Read the header of a safetensors file, and compare it with the file's size.

    Raises:
        CheckpointError: the file is truncated, is not a safetensors file, or its header is wrong.
        CheckpointUnavailableError: the file cannot be read.
    """
    path, size = files.root / name, files.size(name)
    text = files.start(name, _MOST_HEADERS)
    if text.startswith(_POINTER):
        raise CheckpointError(
            "it is a pointer of Git LFS, and not the file itself",
            where=str(path),
            hint="run git lfs pull in the clone, or fetch it with a client of the Hub",
            code="checkpoint.damaged",
        )
    announced = int.from_bytes(text[:LENGTH], "little")
    if announced > LARGEST:
        raise _damage(
            path,
            f"is not a safetensors file: it announces a header of {announced} bytes, "
            f"more than the limit of {LARGEST}",
        )
    if announced > size - LENGTH:
        raise _damage(path, f"is truncated: {size} bytes, in the middle of its header")
    if announced > len(text) - LENGTH:
        text = files.start(name, LENGTH + announced)
    header = text[LENGTH : LENGTH + announced]
    return Shard(path, LENGTH + announced, _tensors(path, header, size - LENGTH - announced))


def write_header(tensors: dict[str, Tensor], metadata: dict[str, str]) -> bytes:
    """Return the first bytes of a safetensors file, so long that its data are aligned."""
    entries = {
        name: {"dtype": one.dtype, "shape": one.shape, "data_offsets": [one.begin, one.end]}
        for name, one in tensors.items()
    }
    document = {"__metadata__": metadata, **entries}
    text = json.dumps(document, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH)
    return len(text).to_bytes(LENGTH, "little") + text


def _tensors(path: Path, text: bytes, workdir: int) -> dict[str, Tensor]:
    try:
        document = json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError) as error:
        raise _damage(path, f"has a header that is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise _damage(path, "has a header that is not a JSON object")
    document.pop("__metadata__", None)
    tensors = {name: _tensor(path, name, entry) for name, entry in document.items()}
    end = 0
    for name, tensor in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if tensor.begin != end:
            raise _damage(path, f"has a wrong header: {name} begins at {tensor.begin}, not {end}")
        end = tensor.end
    if end > workdir:
        raise _damage(path, f"is truncated: {workdir} bytes of data, and the header lists {end}")
    if end < workdir:
        raise _damage(path, f"has {workdir - end} bytes that its header does not list")
    return tensors


def _tensor(path: Path, name: str, entry: object) -> Tensor:
    match entry:
        case {"dtype": str(dtype), "shape": list(shape), "data_offsets": [begin, end]}:
            numbers = (*shape, begin, end)
        case _:
            raise _damage(path, f"has a wrong header: {name} has no dtype, shape and offsets")
    if dtype not in BITS:
        raise _damage(path, f"has a wrong header: {name} is of no known dtype ({dtype})")
    plain = all(isinstance(n, int) and not isinstance(n, bool) for n in numbers)
    if not plain or not all(0 <= n < _NUMBERS for n in numbers) or len(shape) > _DIMENSIONS:
        raise _damage(path, f"has a wrong header: {name} has numbers that cannot be")
    bits = math.prod(shape) * BITS[dtype]
    if bits % 8 or bits // 8 != end - begin:
        raise _damage(
            path,
            f"has a wrong header: {name} is {dtype}{shape}, which is {bits // 8} bytes, "
            f"and has {end - begin}",
        )
    return Tensor(dtype, tuple(shape), begin, end)


def _without_duplicates(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    entries = dict(pairs)
    if len(entries) != len(pairs):
        raise ValueError("a name is there twice")
    return entries


def _damage(path: Path, what: str) -> CheckpointError:
    return CheckpointError(f"it {what}", where=str(path), hint=REMEDY)
