"""Cells and what was seen of them as JSON: so they travel to a node and back, and are kept."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, cast

from pydantic import TypeAdapter

from vpatch.declare.smoke import Mode
from vpatch.harness.machine import Machine
from vpatch.harness.measured import Measured
from vpatch.smoke.cells import Cell


@cache
def _adapter(kind: Any) -> TypeAdapter[Any]:
    found: TypeAdapter[Any] = TypeAdapter(kind)
    if not found.pydantic_complete:
        found.rebuild(_types_namespace={"Mapping": Mapping, "Mode": Mode, "Any": Any})
    return found


def to_json(value: Cell | Measured | Machine) -> Any:
    kind: Any = type(value)
    return _adapter(kind).dump_python(value, mode="json", by_alias=True)


def cell_from(found: Any) -> Cell:
    return cast("Cell", _adapter(Cell).validate_python(found))


def measured_from(found: Any) -> Measured:
    return cast("Measured", _adapter(Measured).validate_python(found))


def machine_from(found: Any) -> Machine:
    return cast("Machine", _adapter(Machine).validate_python(found))
