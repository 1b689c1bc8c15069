"""Write a safetensors file whose tensors are mostly one value: plain Python.

It runs inside an engine's Python, where vpatch is not: only the standard library is imported. The
bytes are those that `safetensors.torch.save_file` writes for the same tensors.
"""

from __future__ import annotations

import json
import struct
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

_WIDTHS = {"BF16": 2, "I32": 4, "I64": 8}
_ORDER = ("I64", "I32", "BF16")
_ALIGNMENT = 8


class Sparse(NamedTuple):
    """A tensor of one or two dimensions: `fill` everywhere, but for `values` at [row, column].

    `dtype` is that of safetensors: BF16, or I32 and I64 for whole numbers.
    """

    shape: tuple[int, ...]
    values: Mapping[tuple[int, int], float] = {}
    fill: float = 0.0
    dtype: str = "BF16"

    @property
    def size(self) -> int:
        """The number of its bytes."""
        return prod(self.shape) * _WIDTHS[self.dtype]

    def encoded(self) -> bytes:
        """Return its bytes, row by row."""
        width, content = _WIDTHS[self.dtype], bytearray(self._encode(self.fill) * prod(self.shape))
        for (row, column), value in self.values.items():
            start = (row * self.shape[-1] + column) * width
            content[start : start + width] = self._encode(value)
        return bytes(content)

    def _encode(self, value: float) -> bytes:
        if self.dtype == "BF16":
            return _bfloat16(value)
        return int(value).to_bytes(_WIDTHS[self.dtype], "little", signed=True)


def write_safetensors(file: Path, tensors: Mapping[str, Sparse]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    # As the library sorts them: the widest type first.
    names = sorted(tensors, key=lambda name: (_ORDER.index(tensors[name].dtype), name))
    for name in names:
        tensor = tensors[name]
        start, end = end, end + tensor.size
        header[name] = {
            "dtype": tensor.dtype,
            "shape": tensor.shape,
            "data_offsets": [start, end],
        }
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            stream.write(tensors[name].encoded())


def _bfloat16(value: float) -> bytes:
    """Return the nearest bfloat16 of a float32; of two, the one whose last bit is 0."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
