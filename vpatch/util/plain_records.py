"""JSON that somebody kept, as a dataclass of plain values.

Where pydantic is loaded anyway, a model of its own is better. The commands that a shell waits for
do not load it.
"""

from __future__ import annotations

from dataclasses import fields
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


def as_record(kind: type[T], document: Any) -> T:
    """Make a dataclass of what JSON has.

    Raises:
        ValueError: it lacks a key, has others, or has values of other kinds.
    """
    hints = get_type_hints(kind)
    names = [field.name for field in fields(kind)]  # type: ignore[arg-type] # of a dataclass
    if not isinstance(document, dict) or not document.keys() <= {*names}:
        raise ValueError(f"it does not have the keys of a {kind.__name__}")
    for name, value in document.items():
        if not _is_of(value, hints[name]):
            raise ValueError(f"{name} has a value of another kind")
    try:
        return kind(**document)
    except TypeError as error:
        raise ValueError(f"it lacks a key: {error}") from error


def _is_of(value: object, hint: Any) -> bool:
    if get_origin(hint) in {Union, UnionType}:
        return any(_is_of(value, one) for one in get_args(hint))
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    kinds = (int, float) if hint is float else (hint,)
    # True is an int for Python.
    return type(value) in kinds and hint in {str, int, float, bool, NoneType}
