"""What the definitions of a file bind and name, as its syntax says."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from vpatch.planning.around.semantics import is_idle
from vpatch.planning.names import STATEMENT
from vpatch.planning.users import FUNCTIONS, imported_from

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vpatch.planning.outline import Definition

SELF = frozenset(["self", "cls"])
# Functions of an owner and a name that change nothing.
READERS = ("getattr", "hasattr")
# Fields of syntax that decide nothing when code runs, or have no names in them.
_NOT_READ = frozenset(
    ["annotation", "attr", "ctx", "id", "kind", "op", "ops", "returns", "type_comment"]
)
_MAY_BE_IDLE = frozenset([ast.Expr, ast.Pass])
# A longer text is for people.
_LONGEST_TEXT = 200


@dataclass(frozen=True)
class CodeEntry:
    """A definition of a Python file, with what it binds and names.

    `kind` is `function`, `class`, `import` or `value`. It has the lines from `first` to `last`,
    which count from 1. `binds` are the names that it gives to something. An import has the module's
    path without an ending in `module`, and what it takes from there in `taken`. `own` are
    attributes of `self` and `cls`, `stored` those that it gives a value. `dotted` are attributes of
    other names, as `NAME.ATTRIBUTE`. `assigned` are attributes of names and of attributes that it
    gives a value, also by `setattr` or `patch.object`. `attributes` are all of these and keywords.
    `texts` are the last names of strings, `asked` those by which it asks whether something has an
    attribute. `bases` are those of a class.
    """

    name: str
    key: str
    kind: str
    first: int
    last: int
    binds: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    stored: frozenset[str] = frozenset()
    dotted: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    bases: tuple[str, ...] = ()
    module: str = ""
    taken: str = ""

    @property
    def owner(self) -> str:
        """The class of a method or a class attribute; empty at the top level."""
        return self.name.rpartition(".")[0]

    @property
    def is_statement(self) -> bool:
        return self.name.endswith(STATEMENT)

    def has_name(self, name: str) -> bool:
        """Whether its code has a name, in whatever way."""
        return name in self.names or name in self.attributes or name in self.texts

    def without_names_of(self, other: CodeEntry) -> CodeEntry:
        """The same definition without the names that another edition of it has too."""
        return replace(
            self,
            names=self.names - other.names,
            attributes=self.attributes - other.attributes,
            own=self.own - other.own,
            dotted=self.dotted - other.dotted,
        )


def entry_of(row: Mapping[str, object]) -> CodeEntry:
    """An entry as `row_of` writes it."""
    sets = {
        name: frozenset(value) if name != "bases" else tuple(value)
        for name, value in row.items()
        if isinstance(value, list)
    }
    return CodeEntry(**{**row, **sets})  # type: ignore[arg-type]


def row_of(entry: CodeEntry) -> dict[str, object]:
    """What an entry has, for JSON."""
    return {
        name: sorted(value) if isinstance(value, frozenset) else value
        for name, value in vars(entry).items()
        if value
    }


def read_entries(path: str, definitions: Iterable[Definition]) -> Iterator[CodeEntry]:
    """The entries of the definitions of a Python file."""
    for one in definitions:
        if one.node is not None and not _is_for_types(one.node):
            yield _read_entry(one, one.node, path)


def _is_for_types(node: ast.AST) -> bool:
    """Whether it is `if TYPE_CHECKING`, whose block never runs."""
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
            return not node.orelse
        case _:
            return False


def _read_entry(one: Definition, node: ast.AST, path: str) -> CodeEntry:
    match node:
        case ast.ImportFrom(module=module, level=level, names=[alias]):
            stem = imported_from(path, module, level)
            binds = frozenset([one.name])
            return CodeEntry(*_head(one, "import"), binds, module=stem, taken=alias.name)
        case ast.Import(names=[alias]):
            stem = alias.name.replace(".", "/") if alias.asname else one.name
            binds = frozenset([one.name])
            return CodeEntry(*_head(one, "import"), binds, module=stem)
    reader = _NameReader()
    reader.read(node)
    if not one.name.endswith(STATEMENT):
        reader.binds = {one.name.rpartition(".")[2]}
    return reader.entry(one, node)


class _NameReader:
    """Collects what the code of a definition binds and names; see `CodeEntry`."""

    def __init__(self) -> None:
        self.binds: set[str] = set()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.own: set[str] = set()
        self.stored: set[str] = set()
        self.dotted: set[str] = set()
        self.assigned: set[str] = set()
        self.texts: set[str] = set()
        self.asked: set[str] = set()
        # By the class of a node: a `match` over all of them takes most of the time.
        self._readers: dict[type, Callable[[Any], None]] = {
            ast.Name: self._add_name,
            ast.Attribute: self._add_attribute,
            ast.Call: self._add_call,
            ast.keyword: self._add_keyword,
            ast.Constant: self._add_constant,
            ast.alias: self._add_alias,
            ast.FunctionDef: self._add_definition,
            ast.AsyncFunctionDef: self._add_definition,
            ast.ClassDef: self._add_definition,
        }

    def entry(self, one: Definition, node: ast.AST) -> CodeEntry:
        return CodeEntry(
            *_head(one, _kind_of(node)),
            frozenset(self.binds),
            frozenset(self.names),
            frozenset(self.attributes),
            frozenset(self.own),
            frozenset(self.stored),
            frozenset(self.dotted),
            frozenset(self.assigned),
            frozenset(self.texts),
            frozenset(self.asked),
            _bases_of(node),
        )

    def read(self, node: ast.AST) -> None:
        """Read all nodes of some code, without annotations and log lines.

        These do not decide anything.
        """
        readers, waiting = self._readers, [node]
        while waiting:
            one = waiting.pop()
            kind = one.__class__
            if kind in _MAY_BE_IDLE and is_idle(one):
                continue
            reader = readers.get(kind)
            if reader is not None:
                reader(one)
            for name in _fields_to_read(kind):  # type: ignore[arg-type] # a class has a hash
                value = getattr(one, name, None)
                if value.__class__ is list:
                    waiting += [inner for inner in value if isinstance(inner, ast.AST)]
                elif isinstance(value, ast.AST):
                    waiting.append(value)

    def _add_name(self, node: ast.Name) -> None:
        self.names.add(node.id)
        if isinstance(node.ctx, ast.Store):
            self.binds.add(node.id)

    def _add_keyword(self, node: ast.keyword) -> None:
        if node.arg is not None:
            self.attributes.add(node.arg)

    def _add_constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and len(node.value) < _LONGEST_TEXT:
            last = node.value.rpartition(".")[2]
            if last.isidentifier():
                self.texts.add(last)

    def _add_alias(self, node: ast.alias) -> None:
        self.binds.add(node.asname or node.name.partition(".")[0])

    def _add_definition(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> None:
        self.binds.add(node.name)

    def _add_call(self, node: ast.Call) -> None:
        match node.args:
            case [owner, ast.Constant(value=str(name)), *_]:
                if ast.unparse(node.func) in READERS:
                    self.asked.add(name)
                else:
                    # `setattr(OWNER, "NAME", ...)`, or a helper that does so.
                    self.assigned.update(_dotted(owner, name))

    def _add_attribute(self, node: ast.Attribute) -> None:
        name, owner = node.attr, node.value
        self.attributes.add(name)
        is_stored = not isinstance(node.ctx, ast.Load)
        if isinstance(owner, ast.Name):
            if owner.id in SELF:
                self.own.add(name)
                if is_stored:
                    self.stored.add(name)
                return
            self.dotted.add(f"{owner.id}.{name}")
        if is_stored:
            self.assigned.update(_dotted(owner, name))


@cache
def _fields_to_read(kind: type[ast.AST]) -> tuple[str, ...]:
    return tuple(name for name in kind._fields if name not in _NOT_READ)


def _dotted(owner: ast.AST, name: str) -> Iterator[str]:
    """`OWNER.NAME`, where the owner is a name or an attribute."""
    match owner:
        case ast.Name(id=own) | ast.Attribute(attr=own):
            yield f"{own}.{name}"


def _head(one: Definition, kind: str) -> tuple[str, str, str, int, int]:
    return one.name, one.key, kind, one.first, one.last


def _kind_of(node: ast.AST) -> str:
    if isinstance(node, FUNCTIONS):
        return "function"
    return "class" if isinstance(node, ast.ClassDef) else "value"


def _bases_of(node: ast.AST) -> tuple[str, ...]:
    """The last names of a class's bases; `Generic[T]` is `Generic`."""
    if not isinstance(node, ast.ClassDef):
        return ()
    bases = (base.value if isinstance(base, ast.Subscript) else base for base in node.bases)
    return tuple(ast.unparse(base).rpartition(".")[2] for base in bases)
