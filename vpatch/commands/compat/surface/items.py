"""An item of the surface: what a target takes from vLLM, and where."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from vpatch.operators.registrations import BuiltOperators

if TYPE_CHECKING:
    from vpatch.commands.compat.code.outline import Function, Outline
    from vpatch.commands.compat.code.signature import Call
    from vpatch.commands.compat.surface.initialisers import Initialiser

ItemKind = Literal[
    "import",
    "attribute",
    "subclass",
    "override",
    "abstract",
    "initialiser",
    "call",
    "field",
    "patch",
    "copy",
    "operator",
    "entry point",
    "model",
    "argument",
    "string",
    "environment",
]
KINDS: tuple[ItemKind, ...] = get_args(ItemKind)
# Steps from what a reference begins with: what a call of it returns, and what its class inherits.
CALLED = "()"
ABOVE = "super()"


class Ref(NamedTuple):
    """A thing of vLLM: a dotted name, then steps, each a name, CALLED or ABOVE.

    Of several dotted names it is the first one that a release has: those of `try` and `except`.
    """

    roots: tuple[str, ...]
    steps: tuple[str, ...] = ()

    def then(self, *steps: str) -> Ref:
        return Ref(self.roots, self.steps + steps)

    def attribute(self, name: str) -> Ref:
        """Return what has a name in this: a longer dotted name as long as there are no steps."""
        if self.steps:
            return self.then(name)
        return Ref(tuple(f"{root}.{name}" for root in self.roots))

    @property
    def text(self) -> str:
        text = self.roots[0]
        for step in self.steps:
            text += {CALLED: "", ABOVE: " (inherited)"}.get(step, f".{step}")
        return text


@dataclass(frozen=True)
class Guard:
    """A condition under which an item runs.

    - typing: only type checkers see it
    - try: an error of it is caught; `names` are the exceptions
    - handler: it runs if one of `refs` cannot be imported
    - version: it runs if the version of vLLM compares so with `version`
    - platform: it runs on some platforms; vpatch judges it as if it ran
    - has: it runs if the first of `refs` has the attribute `names[0]`

    `is_not` turns the condition around.
    """

    kind: Literal["typing", "try", "handler", "version", "has", "platform"]
    text: str = ""
    refs: tuple[Ref, ...] = ()
    names: tuple[str, ...] = ()
    comparison: str = ""
    version: str = ""
    is_not: bool = False

    @property
    def said(self) -> str:
        """The condition in words."""
        negation = "not " if self.is_not else ""
        match self.kind:
            case "typing":
                return "outside type checking" if self.is_not else "for type checkers"
            case "try":
                return f"in a try with {', '.join(name or 'any error' for name in self.names)}"
            case "handler":
                return "where an import before it fails"
            case "version":
                return f"{negation}vLLM {self.comparison} {self.version}"
            case "has" | "platform":
                return f"{negation}{self.text}"


class Spot(NamedTuple):
    """A place in the target: a path and a line, from 1."""

    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Item:
    """What a target takes from vLLM.

    `when` says whether that happens at import. `is_soft` items may be something else: a text that
    looks like a module. They are judged only where some release has them. `bases` are the bases of
    the class that an override is in; `own` is the target's function, or the name of it. `note` says
    what the target's code alone does not.
    """

    kind: ItemKind
    name: str
    spot: Spot
    ref: Ref
    guards: tuple[Guard, ...] = ()
    when: Literal["import", "call"] = "import"
    is_soft: bool = False
    mode: Literal["read", "set"] = "read"
    call: Call | None = None
    bases: tuple[Ref, ...] = ()
    own: Function | None = None
    own_name: str = ""
    initialiser: Initialiser | None = None
    note: str = ""

    @property
    def conditions(self) -> tuple[str, ...]:
        """The conditions in words."""
        return tuple(dict.fromkeys(guard.said for guard in self.guards))

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two items the same one, wherever they are."""
        return (
            *(self.kind, self.name, self.ref, self.guards, self.mode, self.call),
            *(self.bases, self.own, self.own_name, self.initialiser),
            self.kind == "import" and self.when,
        )


@dataclass
class Surface:
    """All that a target takes from vLLM.

    `places` are all places of an item. `unread` says of files why they cannot be read. `stores` are
    the names of attributes that the target sets itself, and `outer_stores` those that it sets on
    something else than `self`. `read_first` are names that some code reads before it sets them.
    `operators` are those that its Python code registers, `libraries` the namespaces that this code
    adds to, and `built` what its C++ sources register. `kernels` are compiled modules of others
    that it imports. `parents` are names of classes that other classes of the target inherit from.
    """

    places: dict[tuple[object, ...], list[Spot]] = field(default_factory=dict)
    items: dict[tuple[object, ...], Item] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)
    stores: set[str] = field(default_factory=set)
    read_first: set[str] = field(default_factory=set)
    outer_stores: set[str] = field(default_factory=set)
    operators: set[str] = field(default_factory=set)
    libraries: set[str] = field(default_factory=set)
    kernels: set[str] = field(default_factory=set)
    built: BuiltOperators = field(default_factory=BuiltOperators)
    parents: set[str] = field(default_factory=set)
    outlines: dict[str, Outline] = field(default_factory=dict)
    files: int = 0

    def add(self, item: Item) -> None:
        self.items.setdefault(item.key, item)
        spots = self.places.setdefault(item.key, [])
        if item.spot not in spots:
            spots.append(item.spot)
