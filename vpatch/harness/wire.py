"""What is measured, and where, as JSON: it travels to a node and back, and is kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from vpatch.declare.smoke import Mode

_T = TypeVar("_T")


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    if not adapter.pydantic_complete:
        adapter.rebuild(_types_namespace={"Mapping": Mapping, "Mode": Mode, "Any": Any})
    return adapter


def to_json(value: object) -> Any:
    """Return a dataclass, such as a `Cell`, a `Measured` or a `Machine`, as JSON has it."""
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)


def from_json(kind: type[_T], value: Any) -> _T:
    """Return the dataclass that `to_json` made the value of.

    Raises:
        ValidationError: it is of another form.
    """
    any_kind: Any = kind
    validated: _T = _adapter(any_kind).validate_python(value)
    return validated
