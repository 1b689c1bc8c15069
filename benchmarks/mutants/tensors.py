"""A torch of a few functions, on numpy: enough for the CPU's stand-ins for kernels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

DTYPES = {
    "int32": np.dtype("int32"),
    "int64": np.dtype("int64"),
    "long": np.dtype("int64"),
    "int": np.dtype("int32"),
    "float32": np.dtype("float32"),
    "float": np.dtype("float32"),
    "float64": np.dtype("float64"),
    "double": np.dtype("float64"),
    "bool": np.dtype("bool"),
    "uint8": np.dtype("uint8"),
}


def raw(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(raw, value))
    return value.array if isinstance(value, Tensor) else value


def wrap(value: Any) -> Tensor:
    return Tensor(np.asarray(value))


class Tensor:
    """Implements what the stand-ins use of torch.Tensor."""

    def __init__(self, array: Any) -> None:
        self.array = array

    @property
    def dtype(self) -> Any:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.array.shape)

    device = "cpu"
    is_cuda = False

    @property
    def ndim(self) -> int:
        return int(self.array.ndim)

    def dim(self) -> int:
        return self.ndim

    def size(self, at: int | None = None) -> Any:
        return self.shape if at is None else self.shape[at]

    def numel(self) -> int:
        return int(self.array.size)

    def to(self, dtype: Any = None, **kwargs: Any) -> Tensor:
        dtype = kwargs.get("dtype", dtype)
        dtype = dtype.dtype if isinstance(dtype, Tensor) else dtype
        if not isinstance(dtype, np.dtype) or dtype == self.dtype:
            return self
        return Tensor(self.array.astype(dtype))

    type = to

    def long(self) -> Tensor:
        return self.to(DTYPES["int64"])

    def float(self) -> Tensor:
        return self.to(DTYPES["float32"])

    def double(self) -> Tensor:
        return self.to(DTYPES["float64"])

    def int(self) -> Tensor:
        return self.to(DTYPES["int32"])

    def type_as(self, other: Tensor) -> Tensor:
        return self.to(other.dtype)

    def copy_(self, other: Any) -> Tensor:
        self.array[...] = raw(other)
        return self

    def fill_(self, value: Any) -> Tensor:
        self.array[...] = value
        return self

    def zero_(self) -> Tensor:
        return self.fill_(0)

    def clone(self) -> Tensor:
        return Tensor(self.array.copy())

    def contiguous(self) -> Tensor:
        return Tensor(np.ascontiguousarray(self.array))

    def is_contiguous(self) -> bool:
        return bool(self.array.flags.c_contiguous)

    def is_floating_point(self) -> bool:
        return bool(self.dtype.kind == "f")

    def new_zeros(self, *shape: Any, **_: Any) -> Tensor:
        return Tensor(np.zeros(shape[0] if len(shape) == 1 else shape, self.dtype))

    new_empty = new_zeros

    def masked_fill(self, mask: Any, value: Any) -> Tensor:
        return Tensor(np.where(raw(mask), raw(value), self.array).astype(self.dtype))

    def masked_fill_(self, mask: Any, value: Any) -> Tensor:
        return self.copy_(self.masked_fill(mask, value))

    def view(self, *shape: Any) -> Tensor:
        return Tensor(self.array.reshape(shape[0] if len(shape) == 1 else shape))

    reshape = view

    def flatten(self, *_: Any) -> Tensor:
        return Tensor(self.array.reshape(-1))

    def unsqueeze(self, at: Any) -> Tensor:
        return Tensor(np.expand_dims(self.array, at))

    def squeeze(self, at: Any = None) -> Tensor:
        return Tensor(np.squeeze(self.array, at))

    def expand(self, *shape: Any) -> Tensor:
        return Tensor(np.broadcast_to(self.array, shape))

    def clamp(self, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002 - torch's
        return Tensor(np.clip(self.array, min, max))

    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002 - torch's
        return self.copy_(self.clamp(min, max))

    clamp_min_ = clamp_

    def repeat_interleave(self, counts: Any, **_: Any) -> Tensor:
        return Tensor(np.repeat(self.array, raw(counts)))

    def item(self) -> Any:
        return self.array.item()

    def tolist(self) -> Any:
        return self.array.tolist()

    def cpu(self) -> Tensor:
        return self

    def numpy(self) -> Any:
        return self.array

    def stride(self, at: Any = None) -> Any:
        strides = tuple(s // self.array.itemsize for s in self.array.strides)
        return strides if at is None else strides[at]

    def __getitem__(self, key: Any) -> Tensor:
        found = self.array[raw(key)]
        return Tensor(found if isinstance(found, np.ndarray) else np.asarray(found))

    def __setitem__(self, key: Any, value: Any) -> None:
        self.array[raw(key)] = raw(value)

    def __len__(self) -> int:
        return len(self.array)

    def __int__(self) -> int:
        return int(self.array)

    __index__ = __int__

    def __bool__(self) -> bool:
        return bool(self.array)

    def __invert__(self) -> Tensor:
        return Tensor(~self.array)

    def __neg__(self) -> Tensor:
        return Tensor(-self.array)

    __hash__ = object.__hash__


def _operator(name: str) -> Any:
    def compute(self: Tensor, other: Any) -> Tensor:
        made = getattr(self.array, name)(raw(other))
        if self.dtype.kind == "i" and isinstance(other, int) and made.dtype.kind == "i":
            made = made.astype(self.dtype)
        return wrap(made)

    return compute


for _name in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or", "xor"):
    setattr(Tensor, f"__{_name}__", _operator(f"__{_name}__"))
for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod"):
    for _form in (f"__{_name}__", f"__r{_name}__"):
        setattr(Tensor, _form, _operator(_form))
for _name in ("min", "max", "sum", "all", "any", "cumsum"):
    setattr(
        Tensor,
        _name,
        lambda self, *a, _f=_name, **k: wrap(
            getattr(self.array, _f)(*a, **({"axis": k["dim"]} if "dim" in k else {}))
        ),
    )


def _diff(tensor: Tensor, prepend: Any = None, out: Any = None, **_: Any) -> Tensor:
    more = {} if prepend is None else {"prepend": raw(prepend)}
    made = wrap(np.diff(tensor.array, **more))
    return made if out is None else out.copy_(made)


def torch(operators: Any) -> Any:
    """The module, with the operators that `torch.ops._C` has."""

    def made(function: Any) -> Any:
        def make(*shape: Any, dtype: Any = None, **_: Any) -> Tensor:
            flat = shape[0] if len(shape) == 1 else shape
            return Tensor(function(flat, dtype=dtype or DTYPES["float32"]))

        return make

    def clamp(tensor: Tensor, min: Any = None, max: Any = None) -> Tensor:  # noqa: A002
        return tensor.clamp(min, max)

    return SimpleNamespace(
        **DTYPES,
        Tensor=Tensor,
        ops=SimpleNamespace(_C=operators),
        diff=_diff,
        clamp=clamp,
        where=lambda c, a, b: wrap(np.where(raw(c), raw(a), raw(b))),
        repeat_interleave=lambda t, n, **_: Tensor(np.repeat(raw(t), raw(n))),
        zeros=made(np.zeros),
        empty=made(np.zeros),
        ones=made(np.ones),
        arange=lambda *a, dtype=None, **_: Tensor(np.arange(*a, dtype=dtype or DTYPES["int64"])),
        tensor=lambda v, dtype=None, **_: Tensor(np.array(raw(v), dtype=dtype)),
        as_tensor=lambda v, dtype=None, **_: Tensor(np.asarray(raw(v), dtype=dtype)),
        zeros_like=lambda t, dtype=None, **_: Tensor(np.zeros_like(raw(t), dtype=dtype)),
        empty_like=lambda t, dtype=None, **_: Tensor(np.zeros_like(raw(t), dtype=dtype)),
        full_like=lambda t, v, dtype=None, **_: Tensor(np.full_like(raw(t), v, dtype=dtype)),
        cat=lambda ts, **_: Tensor(np.concatenate([raw(t) for t in ts])),
        no_grad=lambda: lambda function: function,
        inference_mode=lambda: lambda function: function,
    )
