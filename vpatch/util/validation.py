"""What is wrong with a value that people wrote, in plain words instead of pydantic's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

# What must be there instead, by pydantic's name for the error.
KINDS = {
    "string_type": "a string",
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "datetime_type": "a date and time",
    "datetime_parsing": "a date and time",
    "datetime_from_date_parsing": "a date and time",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
}
_LIMITS = {
    "greater_than": "greater than {gt}",
    "greater_than_equal": "at least {ge}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
}
_LONGEST = 40


def wrong_kind(wanted: Sequence[str], value: Any) -> str:
    """Say that something is of another kind than all that may be there."""
    return f"must be {' or '.join(dict.fromkeys(wanted))}, not {_describe(value)}"


def explained(details: ErrorDetails) -> str:
    """Say what is wrong with a value, without its key."""
    kind, value = details["type"], details["input"]
    context = details.get("ctx", {})
    if kind in KINDS:
        return wrong_kind([KINDS[kind]], value)
    if kind in _LIMITS:
        return f"must be {_LIMITS[kind].format_map(context)}, not {value}"
    words = {
        "literal_error": f"must be {context.get('expected')}, not {_describe(value)}",
        "string_too_short": "must not be empty",
        "too_short": "must not be empty"
        if context.get("min_length") == 1
        else f"must have at least {context.get('min_length')} elements",
        "too_long": f"must have at most {context.get('max_length')} elements",
        "timezone_aware": "must name its time zone",
        "json_invalid": f"must be JSON: {context.get('error')}",
        "string_pattern_mismatch": f"{_describe(value)} does not match {context.get('pattern')}",
        "finite_number": "must be a finite number",
    }
    return words.get(kind) or details["msg"].removeprefix("Value error, ")


def first_of(error: ValidationError) -> str:
    """Say what is wrong first, with its key: for a file that nobody writes by hand."""
    details = error.errors()[0]
    keys = [str(step) for step in details["loc"]]
    match details["type"]:
        case "missing":
            what = f"the key {keys.pop()!r} is missing"
        case "extra_forbidden":
            what = f"unknown key {keys.pop()!r}"
        case _:
            what = explained(details)
    return f"{'.'.join(keys)}: {what}" if keys else what


def _describe(value: Any) -> str:
    if isinstance(value, str):
        short = value if len(value) <= _LONGEST else f"{value[:_LONGEST]}..."
        return f"the string {short!r}"
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return f"the number {value}"
    kinds = {type(None): "nothing", bool: str(value).lower(), tuple: "a list", list: "a list"}
    return kinds.get(type(value), "a mapping of keys")
