"""What bases outside vLLM have themselves, as far as that is known. None of them is imported."""

from __future__ import annotations

import abc
import enum
from pathlib import Path

_PLAIN = frozenset(dir(abc.ABC))
# By the last part of a base's name. Those that are not named may have anything.
CLOSED = {
    **dict.fromkeys(["ABC", "Generic", "Protocol", "object", "ABCMeta"], _PLAIN),
    **dict.fromkeys(
        ["Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"], frozenset(dir(enum.IntFlag))
    ),
    "str": frozenset(dir(str)),
    "int": frozenset(dir(int)),
    "Exception": frozenset(dir(Exception)),
    "NamedTuple": frozenset([*dir(tuple), "_asdict", "_replace", "_fields", "_make"]),
    "TypedDict": frozenset(dir(dict)),
}
_TORCH_MODULE = frozenset(Path(__file__).with_name("torch_module.txt").read_text().split())
_PYDANTIC_MODEL = frozenset(
    [
        *("construct", "copy", "dict", "from_orm", "json", "parse_file", "parse_obj"),
        *("parse_raw", "schema", "schema_json", "update_forward_refs", "validate"),
    ]
)
_OF_PYDANTIC = ("_", "model_")


def may_have(base: str, name: str) -> bool:
    """Whether a base outside vLLM may have a name of its own."""
    first, last = base.partition(".")[0], base.rpartition(".")[2]
    if last in CLOSED:
        return name in CLOSED[last]
    if last == "Module" and first in {"torch", "nn"}:
        return name in _TORCH_MODULE
    if last == "BaseModel" and first == "pydantic":
        return name in _PYDANTIC_MODEL or name.startswith(_OF_PYDANTIC)
    return True
