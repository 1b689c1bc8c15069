"""What a module binds: names, classes and signatures, as plain rows that JSON can have."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

# How sure it is that a binding is there once the module is imported. A "branch" is one of several,
# and one of them always runs.
Presence = Literal["always", "branch", "sometimes", "typing"]
ParameterKind = Literal["positional", "normal", "star", "keyword", "double-star"]


class Parameter(NamedTuple):
    """A parameter; `default` is its text, None where it has none."""

    name: str
    kind: ParameterKind
    default: str | None

    @property
    def is_required(self) -> bool:
        return self.default is None and self.kind not in {"star", "double-star"}


class Function(NamedTuple):
    """A function or a method. `decorators` are dotted names, "?" for another expression."""

    presence: Presence
    first: int
    last: int
    is_async: bool
    decorators: tuple[str, ...]
    parameters: tuple[Parameter, ...]
    returns: str | None = None


class Value(NamedTuple):
    """An assignment. `type` is its annotation if that names one class.

    `alias` is the dotted name that is assigned, and `call` that of what is called. `is_set` says
    that it has a value. `keys` are the keys of a dictionary, or the texts of a list. `options` are
    the keyword arguments of the call; one that is False has `=False` behind its name.
    """

    presence: Presence
    first: int
    type: str | None = None
    alias: str | None = None
    call: str | None = None
    is_set: bool = True
    keys: tuple[str, ...] | None = None
    options: tuple[str, ...] = ()
    is_annotated: bool = False
    is_class_variable: bool = False


class Import(NamedTuple):
    """An import. `module` has a dot in front for each level; `name` is "" for a module."""

    presence: Presence
    first: int
    module: str
    name: str


class Class(NamedTuple):
    """A class. `attributes` are those that its methods set on `self`.

    `decorators` are dotted names, each with the names of its keyword arguments that are true.
    """

    presence: Presence
    first: int
    last: int
    bases: tuple[str, ...]
    keywords: dict[str, str]
    decorators: tuple[str, ...]
    members: dict[str, tuple[Binding, ...]]
    attributes: dict[str, Value]
    is_dynamic: bool


Binding = Function | Value | Import | Class
_TAGS: dict[str, type[Any]] = {"f": Function, "v": Value, "i": Import, "c": Class}


class Outline(NamedTuple):
    """A module. `stars` are star imports. `dynamic` says what may bind more names, or is "".

    `lazy` is what the `__getattr__` of a module knows: names; None if it has none.
    `exported` is `__all__`, if that is a plain list. `error` says why the file cannot be read.
    """

    names: dict[str, tuple[Binding, ...]]
    stars: tuple[str, ...] = ()
    dynamic: str = ""
    lazy: tuple[str, ...] | None = None
    is_lazy_closed: bool = False
    exported: tuple[str, ...] | None = None
    error: str = ""


def row_of(outline: Outline) -> list[Any]:
    """Return an outline as JSON can have it."""
    return [_row_of_names(outline.names), *outline[1:]]


def outline_of(row: list[Any]) -> Outline:
    """Return the outline of a row."""
    names, stars, dynamic, lazy, is_closed, exported, error = row
    return Outline(
        _names_of(names),
        tuple(stars),
        dynamic,
        None if lazy is None else tuple(lazy),
        is_closed,
        None if exported is None else tuple(exported),
        error,
    )


def _row_of_names(names: dict[str, tuple[Binding, ...]]) -> dict[str, list[Any]]:
    return {name: [_row_of_binding(one) for one in several] for name, several in names.items()}


def _row_of_binding(binding: Binding) -> list[Any]:
    match binding:
        case Function():
            return ["f", *binding]
        case Value():
            return ["v", *binding]
        case Import():
            return ["i", *binding]
        case Class():
            row: list[Any] = list(binding)
            row[6] = _row_of_names(binding.members)
            return ["c", *row]


def _names_of(names: dict[str, list[Any]]) -> dict[str, tuple[Binding, ...]]:
    return {name: tuple(map(_binding_of, several)) for name, several in names.items()}


def _binding_of(row: list[Any]) -> Binding:
    tag, *fields = row
    if tag == "f":
        fields[4] = tuple(fields[4])
        fields[5] = tuple(Parameter(*one) for one in fields[5])
        return Function(*fields)
    if tag == "v":
        value = Value(*fields)
        keys = None if value.keys is None else tuple(value.keys)
        return value._replace(keys=keys, options=tuple(value.options))
    if tag == "i":
        return Import(*fields)
    presence, first, last, bases, keywords, decorators, members, attributes, dynamic = fields
    return Class(
        presence,
        first,
        last,
        tuple(bases),
        keywords,
        tuple(decorators),
        _names_of(members),
        {name: Value(*one) for name, one in attributes.items()},
        dynamic,
    )
