"""Random linear layers in the formats of checkpoints, always the same for the same seed.

It runs inside an engine's Python, where vpatch is not: nothing but torch is imported.
"""

from __future__ import annotations

import torch

__all__ = ["BLOCK", "Formats", "Tensors", "ones", "under"]

BLOCK = 128
"""The side of an FP8 block, and the length of an INT4 group."""
_NIBBLES = 8
# That of whole numbers from -8 to 7, all as often.
_INT4_DEVIATION = 21.25**0.5

Tensors = dict[str, torch.Tensor]
"""Tensors by their names."""


class Formats:
    """Makes layers, by their names within a layer: [out, into], as torch has a linear's weight.

    What has rows of size 1 (root mean square) for its input has rows of about `size` as its output.
    """

    def __init__(self, seed: int) -> None:
        self._random = torch.Generator().manual_seed(seed)

    def bf16(self, out: int, into: int, size: float = 1.0) -> Tensors:
        """Return a weight in bfloat16."""
        return {"weight": (self.normal(out, into) * size / into**0.5).to(torch.bfloat16)}

    def fp8(self, out: int, into: int, size: float = 1.0) -> Tensors:
        """Return compressed-tensors' float-quantized, with a scale for each block."""
        scale = torch.full((out // BLOCK, into // BLOCK), size / into**0.5)
        return {"weight": self.normal(out, into).to(torch.float8_e4m3fn), "weight_scale": scale}

    def int4(self, out: int, into: int, size: float = 1.0) -> Tensors:
        """Return compressed-tensors' pack-quantized, symmetric: 8 nibbles in a number."""
        shape, wide = (out, into // _NIBBLES), torch.int64
        packed = torch.randint(-(2**31), 2**31, shape, generator=self._random, dtype=wide)
        scale = torch.full((out, into // BLOCK), size / _INT4_DEVIATION / into**0.5)
        return {
            "weight_packed": packed.to(torch.int32),
            "weight_scale": scale.to(torch.bfloat16),
            "weight_shape": torch.tensor([out, into]),
        }

    def normal(self, *shape: int) -> torch.Tensor:
        """Return numbers from the standard normal distribution, in float32."""
        return torch.randn(shape, generator=self._random)


def ones(size: int) -> torch.Tensor:
    """Return so many ones in bfloat16, as the weight of a norm."""
    return torch.ones(size, dtype=torch.bfloat16)


def under(prefix: str, tensors: Tensors) -> Tensors:
    """Return the same tensors, with `prefix.` before each name."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
