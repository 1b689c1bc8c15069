"""Quantises matrices with compressed-tensors, in a Python that has it: an engine's.

It reads one JSON object a line from stdin, and answers each with one or more lines. vpatch is not
installed where it runs. All arithmetic and packing is that of compressed-tensors: rounding to the
nearest, with scales from the smallest and the largest value, in `calculate_qparams`.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any, TypedDict

import compressed_tensors
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.format import infer_module_format
from compressed_tensors.quantization import QuantizationScheme, QuantizationStrategy
from compressed_tensors.quantization.utils import (
    calculate_qparams,
    generate_gparam,
    maybe_pad_tensor_for_block_quant,
)
from compressed_tensors.utils.match import is_match, match_targets

_DTYPES = {
    "BF16": torch.bfloat16,
    "F16": torch.float16,
    "F32": torch.float32,
    "F64": torch.float64,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I8": torch.int8,
    "U8": torch.uint8,
    "I32": torch.int32,
    "I64": torch.int64,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_FLOATS = ("BF16", "F16", "F32", "F64")
# Zero points of so many rows are packed into one number.
_PACKED = 32
_TENSOR_WIDE = (QuantizationStrategy.TENSOR, QuantizationStrategy.TENSOR_GROUP)
_GROUPED = (QuantizationStrategy.GROUP, QuantizationStrategy.TENSOR_GROUP)


class CannotQuantiseError(Exception):
    """A matrix cannot be quantised, and why."""


class WeightGroup:
    """One of the config's groups: its scheme, and what compresses it."""

    def __init__(self, scheme: object, kind: str | None) -> None:
        self.scheme = QuantizationScheme.model_validate(scheme)
        args = self.scheme.weights
        if args is None:
            raise CannotQuantiseError("it does not quantise weights")
        if self.scheme.format is not None:
            kind = self.scheme.format
        kind = kind or infer_module_format(torch.nn.Linear, self.scheme).value
        self.compressor = BaseCompressor.get_value_from_registry(kind)
        # Older releases chose among these by other rules; all of them write the same.
        plain = self.compressor in {
            BaseCompressor.get_value_from_registry(f"{one}-quantized")
            for one in ("naive", "int", "float")
        }
        if not plain and not self.compressor.can_compress(torch.nn.Linear, self.scheme):
            raise CannotQuantiseError(f"its format is {kind}, which does not fit its parameters")
        self.format = str(kind)
        self.args = args
        block = args.block_structure[0] if args.block_structure else 1
        # Rows are quantised in multiples of these, so that no block and no packed number is cut.
        self.unit = math.lcm(_PACKED, _PACKED // min(args.num_bits, _PACKED), block)

    def refusal(self, rows: int, columns: int) -> str | None:
        """Return why a matrix of this shape does not fit; None if it does."""
        size = self.args.group_size
        if self.args.strategy in _GROUPED and size and columns % size:
            return f"{rows} x {columns} cannot be cut into groups of {size}"
        if self.args.block_structure and columns % self.args.block_structure[1]:
            height, width = self.args.block_structure
            return f"{rows} x {columns} cannot be cut into blocks of {height} x {width}"
        packed = _PACKED // self.args.num_bits if self.format == "pack-quantized" else 1
        if columns % packed:
            return f"{rows} x {columns} cannot be packed: {columns} is no multiple of {packed}"
        return None


class MatrixPlace(TypedDict):
    """Where a matrix is."""

    path: str
    offset: int
    shape: tuple[int, ...]
    dtype: str


class MatrixOrder(MatrixPlace):
    """A matrix to quantise; `vpatch.checkpoint.quantiser.Job` says what each value is."""

    name: str
    group: str
    scale: str
    rename: dict[str, str]
    cast: dict[str, str]
    power_of_two: bool
    together: list[MatrixPlace]


class Matrix:
    """A matrix in a file."""

    def __init__(self, place: MatrixPlace) -> None:
        self.path = Path(place["path"])
        self.offset = place["offset"]
        self.rows, self.columns = place["shape"]
        self.dtype = _DTYPES[place["dtype"]]

    def pieces(self, rows: int) -> Any:
        """Yield it from the top, so many rows at a time."""
        with self.path.open("rb", buffering=0) as file:
            file.seek(self.offset)
            for first in range(0, self.rows, rows):
                count = min(rows, self.rows - first)
                data = bytearray(count * self.columns * self.dtype.itemsize)
                view, done = memoryview(data), 0
                while done < len(data):
                    got = file.readinto(view[done:])
                    if not got:
                        raise CannotQuantiseError("its file became shorter meanwhile")
                    done += got
                yield torch.frombuffer(data, dtype=self.dtype).reshape(count, self.columns)


class Work:
    """Matrices, by the groups of a config. `limit`: how many values are in memory at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.groups: dict[str, WeightGroup] = {}
        self.parent = os.getppid()

    def schemes(self, groups: dict[str, Any], kind: str | None) -> None:
        self.groups = {}
        for key, scheme in groups.items():
            try:
                self.groups[key] = WeightGroup(scheme, kind)
            except (CannotQuantiseError, ValueError, KeyError, StopIteration) as error:
                raise CannotQuantiseError(f"{key}: {error}") from error
        answer(formats={key: group.format for key, group in self.groups.items()})

    def match(self, modules: list[list[str]], ignore: list[str]) -> None:
        """Find each module's group, None where there is none, and whether it is left out."""
        linear = torch.nn.Linear(1, 1, device="meta")
        targets = {
            target: key for key, group in self.groups.items() for target in group.scheme.targets
        }
        matches = []
        for names in modules:
            hits = [hit for name in names for hit in match_targets(name, linear, targets)[:1]]
            ignored = any(is_match(name, linear, ignore) for name in names)
            matches.append([targets[hits[0]] if hits else None, ignored])
        answer(matches=matches)

    def layout(self, jobs: list[MatrixOrder]) -> None:
        """Say which tensors each matrix becomes: (name, dtype, shape, once)."""
        known: dict[str, list[tuple[str, str, list[int], bool]]] = {}
        layouts = []
        for job in jobs:
            key = json.dumps([job[k] for k in ("group", "shape", "dtype", "scale", "rename")])
            if key not in known:
                known[key] = self._layout(job)
            layouts.append(known[key])
        answer(layouts=layouts)

    def quantise(self, job: MatrixOrder, file: str, at: dict[str, int], once: list[str]) -> None:
        """Write the tensors of a matrix into a file; say how each is to be found there."""
        group, matrix = self.groups[job["group"]], Matrix(job)
        wide = self._wide(job, group, matrix)
        target = os.open(file, os.O_WRONLY)
        try:
            digests: dict[str, hashlib._Hash] = defaultdict(hashlib.sha256)
            for weight in matrix.pieces(self._rows(group, matrix.columns)):
                for name, tensor in self._compress(group, weight, job, wide).items():
                    if name in digests and name in once:
                        continue
                    data = memoryview(_bytes(tensor)).cast("B")
                    digests[name].update(data)
                    done = 0
                    while done < len(data):
                        if os.getppid() != self.parent:
                            sys.exit("the vpatch that started this is gone")
                        done += os.pwrite(target, data[done:], at[name] + done)
                    at[name] += len(data)
                answer(read=weight.numel() * weight.dtype.itemsize)
        finally:
            os.close(target)
        answer(digests={name: digest.hexdigest() for name, digest in digests.items()})

    def _rows(self, group: WeightGroup, columns: int) -> int:
        return max(1, self.limit // columns // group.unit) * group.unit

    def _layout(self, job: MatrixOrder) -> list[tuple[str, str, list[int], bool]]:
        group = self.groups[job["group"]]
        rows, columns = job["shape"]
        if refusal := group.refusal(rows, columns):
            raise CannotQuantiseError(f"{job['name']}: {refusal}")

        def compressed(count: int) -> dict[str, torch.Tensor]:
            weight = torch.ones(count, columns, dtype=_DTYPES[job["dtype"]])
            ranges = (weight.min(), weight.max())
            return self._compress(group, weight, job, ranges)

        one, two = compressed(group.unit), compressed(2 * group.unit)
        whole, rest = divmod(rows, group.unit)
        last = compressed(rest) if rest else {}
        layout = []
        for name, tensor in one.items():
            once = two[name].shape == tensor.shape
            shape = list(tensor.shape)
            if not once:
                shape[0] = whole * shape[0] + (last[name].shape[0] if rest else 0)
            layout.append((name, _NAMES[tensor.dtype], shape, once))
        return layout

    def _wide(self, job: MatrixOrder, group: WeightGroup, matrix: Matrix) -> Any:
        """Return the smallest and the largest value, where one scale is for all values."""
        if group.args.strategy not in _TENSOR_WIDE:
            return None
        ranges: list[Any] = []
        for one in (matrix, *map(Matrix, job["together"])):
            whole = one.pieces(self._rows(group, one.columns))
            ranges.extend((weight.min(), weight.max()) for weight in whole)
        lows, highs = zip(*ranges, strict=True)
        return torch.stack(lows).min(), torch.stack(highs).max()

    def _compress(
        self, group: WeightGroup, weight: torch.Tensor, job: MatrixOrder, wide: Any
    ) -> dict[str, torch.Tensor]:
        """Return the tensors of some rows; `wide` is what `_wide` returns."""
        args, dtype = group.args, weight.dtype
        if job["scale"] in _FLOATS:
            dtype = _DTYPES[job["scale"]]
        low, high = _ranges(weight, group)
        if not bool(torch.isfinite(low).all() and torch.isfinite(high).all()):
            raise CannotQuantiseError(f"{job['name']} has values that are infinite or not numbers")
        overall = None
        if args.strategy == QuantizationStrategy.TENSOR:
            low, high = wide
        if args.strategy == QuantizationStrategy.TENSOR_GROUP:
            largest = torch.max(wide[0].abs(), wide[1].abs()).reshape(1)
            overall = generate_gparam(-largest, largest)
        scale, zero = calculate_qparams(low.to(dtype), high.to(dtype), args, overall)
        if job["power_of_two"]:
            scale = torch.exp2(torch.ceil(torch.log2(scale)))
        if not bool(torch.isfinite(scale).all()):
            raise CannotQuantiseError(
                f"{job['name']} has values too large for a scale in {_NAMES[dtype]}"
            )
        state = {"weight": weight, "weight_scale": scale.to(dtype), "weight_zero_point": zero}
        if overall is not None:
            state["weight_global_scale"] = overall
        return _as_trunk(dict(group.compressor.compress(state, group.scheme)), job)


def _ranges(weight: torch.Tensor, group: WeightGroup) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the smallest and the largest value for each scale."""
    args = group.args
    if args.strategy == QuantizationStrategy.TENSOR:
        cut = weight.reshape(1, 1, -1)
    elif args.strategy == QuantizationStrategy.CHANNEL:
        cut = weight.unsqueeze(1)
    elif args.strategy in _GROUPED:
        cut = weight.unflatten(-1, (-1, args.group_size))
    elif args.strategy == QuantizationStrategy.BLOCK:
        height, width = args.block_structure
        padded = maybe_pad_tensor_for_block_quant(weight, (height, width))
        blocks = padded.unflatten(0, (-1, height)).unflatten(-1, (-1, width))
        cut = blocks.transpose(1, 2).flatten(-2)
    else:
        raise CannotQuantiseError(f"weights by {args.strategy} are not known")
    return cut.amin(-1), cut.amax(-1)


def _as_trunk(tensors: dict[str, torch.Tensor], job: MatrixOrder) -> dict[str, torch.Tensor]:
    """Give tensors the names and dtypes that the trunk has; they are of some rows."""
    if "weight_shape" in tensors:
        tensors["weight_shape"] = torch.tensor(job["shape"])
    for name, cast in job["cast"].items():
        if name in tensors:
            tensors[name] = tensors[name].to(_DTYPES[cast])
    return {job["rename"].get(name, name): tensor for name, tensor in tensors.items()}


def _bytes(tensor: torch.Tensor) -> Any:
    return tensor.detach().contiguous().flatten().view(torch.uint8).numpy()


def answer(**values: object) -> None:
    _ANSWERS.write(json.dumps(values) + "\n")
    _ANSWERS.flush()


def main() -> None:
    work = Work(int(sys.argv[1]))
    answer(compressed_tensors=compressed_tensors.__version__, torch=torch.__version__)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            with torch.no_grad():
                getattr(work, order.pop("op"))(**order)
        except CannotQuantiseError as error:
            answer(refused=str(error))


if __name__ == "__main__":
    # Libraries print what they like: only answers go where vpatch reads.
    _ANSWERS = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main()
