"""Strict reading of YAML declarations: errors name file, line, key and the nearest valid key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from vpatch.declare.errors import DeclarationError, unknown_key, unreadable
from vpatch.declare.plain_yaml import PlainComposer, PlainConstructor
from vpatch.errors import VpatchError, combine
from vpatch.util.untrusted import read_file
from vpatch.util.validation import KINDS, explained, wrong_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pydantic_core import ErrorDetails

# The largest of the library has 12 kB, and the parser takes seconds for a megabyte.
_LARGEST = 100_000
_SHOWN = 20


class Declared(BaseModel):
    """Base of everything that is declared in YAML: frozen, strict, keys spelt with hyphens."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        allow_inf_nan=False,
        alias_generator=lambda name: name.rstrip("_").replace("_", "-"),
        serialize_by_alias=True,
    )


Model = TypeVar("Model", bound=Declared)
# Begins the name of a member of a union, in an error's location: no key begins so.
TAG = "kind:"
_YAML = "look at the indentation, and quote text that has ': ' or begins with a special character"
# What vpatch schema knows.
SCHEMAS = ("patch", "recipe", "target")


class Positions:
    """The line of each key of a YAML document, and the bytes that it was read from."""

    def __init__(self, path: Path, document: CommentedMap, content: bytes = b"") -> None:
        self.path = path
        self.content = content
        self.document = document

    def where(self, location: Sequence[int | str]) -> str:
        """`file:line` of a key path such as `("edits", 0, "find")`, as far as the path exists."""
        line = self.document.lc.line
        node: Any = self.document
        for step in self.keys(location):
            line = (node.lc.key if isinstance(node, CommentedMap) else node.lc.item)(step)[0]
            node = node[step]
        return f"{self.path}:{line + 1}"

    def keys(self, location: Sequence[int | str]) -> list[int | str]:
        """The steps of a location that are keys here: pydantic also names members of unions."""
        return _steps(self.document, location)


def _steps(node: Any, location: Sequence[int | str]) -> list[int | str]:
    if not location:
        return []
    step, rest = location[0], location[1:]
    without = _steps(node, rest)
    if isinstance(node, CommentedMap):
        # A merged key comes from elsewhere and has no line of its own.
        there = step in node and step in (node.lc.data or {})
    else:
        there = isinstance(node, CommentedSeq) and isinstance(step, int) and step < len(node)
    if not there:
        return without
    # The member of a union may be called as one of its keys.
    return max(without, [step, *_steps(node[step], rest)], key=len)


def read_yaml(path: Path, model: type[Model]) -> tuple[Model, Positions]:
    """Read one declaration.

    Raises:
        DeclarationError: the file cannot be read, or is not what `model` asks for.
        ManyErrors: several things are wrong with it.
    """
    yaml = YAML(typ="rt", pure=True)
    yaml.Composer = PlainComposer
    yaml.Constructor = PlainConstructor
    try:
        content = read_file(path, _LARGEST)
        text = content.decode()
    except OSError as error:
        raise unreadable(path, error, f"{_LARGEST // 1000} kB") from error
    except UnicodeDecodeError as error:
        raise _not_yaml(f"is not UTF-8: {error.reason}", str(path), "save it as UTF-8") from error
    try:
        document = yaml.load(text)
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1
        problem = str(error.problem).split(" with value")[0]
        raise DeclarationError(
            problem,
            where=f"{path}:{line}",
            hint="keep one of the two keys",
            code="declare.duplicate-key",
        ) from error
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}" if mark else str(path)
        raise _not_yaml(f"not YAML: {error.problem}", where) from error
    except YAMLError as error:
        raise _not_yaml(f"not YAML: {error}", str(path)) from error
    except Exception as error:
        # Whatever else the parser raises: the file is wrong, not vpatch.
        raise _not_yaml(f"not YAML: {type(error).__name__}: {error}", str(path)) from error
    if not isinstance(document, CommentedMap):
        raise DeclarationError(
            "must hold a mapping of keys", where=f"{path}:1", hint=_see(model) or "write KEY: VALUE"
        )
    positions = Positions(path, document, content)
    try:
        return model.model_validate(_plain(document)), positions
    except ValidationError as error:
        problems = error.errors()
        errors = _explain_keys(problems[:_SHOWN], positions, model)
        if len(problems) > _SHOWN:
            more = f"and {len(problems) - _SHOWN} more"
            hint = "correct those above first"
            errors.append(
                DeclarationError(more, where=str(path), hint=hint, code="declare.more-errors")
            )
        raise combine(errors) from error


def _not_yaml(what: str, where: str, hint: str = _YAML) -> DeclarationError:
    return DeclarationError(what, where=where, hint=hint, code="declare.wrong-syntax")


def _plain(node: Any) -> Any:
    if isinstance(node, CommentedMap):
        return {key: _plain(value) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        return tuple(_plain(value) for value in node)
    if isinstance(node, (bool, type(None))):
        return node
    for kind in (str, int, float):
        if isinstance(node, kind):
            return kind(node)
    return node


def _explain_keys(
    problems: Sequence[ErrorDetails], positions: Positions, model: type[Declared]
) -> list[VpatchError]:
    """One error for each key, also if several kinds of value would be right there."""
    places: dict[tuple[int | str, ...], list[ErrorDetails]] = {}
    for number, details in enumerate(problems):
        keys = tuple(positions.keys(details["loc"]))
        is_of_kinds = details["type"] in KINDS
        places.setdefault(keys if is_of_kinds else (*keys, "", number), []).append(details)
    return [_explain(several, positions, model) for several in places.values()]


def _explain(
    several: Sequence[ErrorDetails], positions: Positions, model: type[Declared]
) -> VpatchError:
    details = several[0]
    location, value = details["loc"], details["input"]
    where = positions.where(location)
    # A merged key has no line of its own, and so no position.
    keys = positions.keys(location) or list(location[:-1] if _is_of_key(details) else location[-1:])
    beside = f"{'.'.join(str(step) for step in keys)}: " if keys else ""
    match details["type"]:
        case "extra_forbidden":
            return unknown_key(str(location[-1]), valid_keys(model, location[:-1]), where)
        case "missing":
            what = f"{beside}the key {location[-1]!r} is missing"
            return DeclarationError(what, where=where, hint="add it", code="declare.missing-key")
        case "string_type" | "model_type" | "model_attributes_type" if isinstance(
            value, (int, float)
        ) and not isinstance(value, bool):
            hint = f"quote it, as YAML takes {value} for a number"
            return DeclarationError(f"{beside}must be a string", where=where, hint=hint)
        case "tuple_type" | "list_type" if isinstance(value, str):
            hint = f"write [{value}], or lines that begin with '- '"
            return DeclarationError(f"{beside}{explained(details)}", where=where, hint=hint)
    if len(several) > 1:
        what = wrong_kind([KINDS[one["type"]] for one in several], value)
    elif location and location[-1] == "[key]":
        what = f"the key {explained(details)}"
    else:
        what = explained(details)
    return DeclarationError(f"{beside}{what}", where=where, hint=_see(model))


def _is_of_key(details: ErrorDetails) -> bool:
    """Whether an error is of a key, and not of a value."""
    return details["type"] in {"missing", "extra_forbidden"}


def _see(model: type[Declared]) -> str | None:
    """A hint that says where to look up what a key takes."""
    name = model.__name__.removesuffix("Declaration").lower()
    return f"vpatch schema {name} says what each key takes" if name in SCHEMAS else None


def valid_keys(model: type[BaseModel], location: Sequence[int | str] = ()) -> list[str]:
    """The keys that the schema of `model` knows at a location."""
    schema = model.model_json_schema()
    shared = schema.get("$defs", {})

    def members(node: Any) -> list[Any]:
        if "$ref" in node:
            node = shared[node["$ref"].rpartition("/")[2]]
        union = node.get("anyOf") or node.get("oneOf")
        return [inner for each in union for inner in members(each)] if union else [node]

    nodes = members(schema)
    for step in location:
        following: list[Any] = []
        if isinstance(step, str) and step.startswith(TAG):
            verb = step.removeprefix(TAG)
            nodes = [node for node in nodes if verb in node.get("properties", {})]
            continue
        for node in nodes:
            if isinstance(step, int):
                following += members(node.get("items", {}))
            elif step in node.get("properties", {}):
                # Among several models, the step is the name of this one.
                several = sum("properties" in other for other in nodes) > 1
                following += [node] if several else members(node["properties"][step])
        nodes = following or nodes
    return sorted({key for node in nodes for key in node.get("properties", {})})
