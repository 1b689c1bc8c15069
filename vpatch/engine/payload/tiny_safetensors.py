"""Write a safetensors file whose tensors are bfloat16 and mostly one value: plain Python.

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

_WIDTH = 2
_ALIGNMENT = 8


class Sparse(NamedTuple):
    """A tensor of one or two dimensions: `fill` everywhere, but for `values` at [row, column]."""

    shape: tuple[int, ...]
    values: Mapping[tuple[int, int], float] = {}
    fill: float = 0.0

    def encoded(self) -> bytes:
        """Return its bytes in bfloat16, row by row."""
        content = bytearray(_bfloat16(self.fill) * prod(self.shape))
        for (row, column), value in self.values.items():
            start = (row * self.shape[-1] + column) * _WIDTH
            content[start : start + _WIDTH] = _bfloat16(value)
        return bytes(content)


def write_safetensors(file: Path, tensors: Mapping[str, Sparse]) -> None:
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(tensors):
        shape = tensors[name].shape
        start, end = end, end + prod(shape) * _WIDTH
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [start, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    with file.open("wb") as stream:
        stream.write(struct.pack("<Q", len(text)) + text)
        for name in sorted(tensors):
            stream.write(tensors[name].encoded())


def _bfloat16(value: float) -> bytes:
    """Return the nearest bfloat16 of a float32; of two, the one whose last bit is 0."""
    (bits,) = struct.unpack("<I", struct.pack("<f", value))
    return struct.pack("<H", (bits + 0x7FFF + (bits >> 16 & 1)) >> 16)
