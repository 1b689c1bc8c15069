"""Floating-point numbers of one dtype, made another, a piece at a time."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from vpatch.checkpoint.errors import CheckpointError

# numpy itself has no bfloat16.
_TYPES = {
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F16": np.dtype(np.float16),
    "F32": np.dtype(np.float32),
    "F64": np.dtype(np.float64),
}


def converted(piece: bytes, old: str, new: str, name: str) -> bytes:
    """Return whole numbers of values in another dtype, each rounded to the nearest there is.

    Raises:
        CheckpointError: a finite value of the tensor of that name is too large for the new dtype.
    """
    values = np.frombuffer(piece, dtype=_TYPES[old])
    with np.errstate(over="ignore"):
        rounded = values.astype(_TYPES[new])
    if not np.array_equal(np.isfinite(values), np.isfinite(rounded)):
        raise CheckpointError(
            f"{name} has values that are too large for {new}",
            hint="graft it in the format of its source: --tensor-format source",
            code="checkpoint.cannot-convert",
        )
    return rounded.tobytes()
