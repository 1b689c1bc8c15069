"""How a module spells the names that it imports.

`from x import Y`, `from x import Y as Z`, `import x` and `import x as z` all make `Y` known, under
different names. So does `Z = Y` in the module. A pattern and new code write one of them.
"""

from __future__ import annotations

import builtins
from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node

from vpatch.codemods.names import bound_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_BUILTINS = frozenset(dir(builtins))


class Spellings:
    """The names of one module.

    A name counts as imported only if nothing else in the module binds it, in any function. So a
    local variable never passes for an import. `x = None` does not count: it is what a module writes
    where an import fails.
    """

    def __init__(self, module: cst.Module | None = None) -> None:
        self._imports: dict[str, str] = {}
        self._bound: set[str] = set()
        self._functions: dict[str, list[cst.FunctionDef]] = {}
        # Other names of the module's own functions and classes.
        self._own: set[str] = set()
        if module is not None:
            self._collect(module)

    def _collect(self, module: cst.Module) -> None:
        found: dict[str, set[str]] = {}
        others: Counter[str] = Counter()
        for node in _statements(module.body):
            if isinstance(node, (cst.Import, cst.ImportFrom)):
                for local, qualified in _imported(node):
                    found.setdefault(local, set()).add(qualified)
                continue
            if isinstance(node, cst.FunctionDef):
                self._functions.setdefault(node.name.value, []).append(node)
            if not _is_placeholder(node):
                others.update(_bound_by(node))
        self._bound = found.keys() | others
        self._imports = {
            name: min(qualified)
            for name, qualified in found.items()
            if len(qualified) == 1 and name not in others
        }
        definitions = (n for n in module.body if isinstance(n, (cst.FunctionDef, cst.ClassDef)))
        defined = {node.name.value for node in definitions}
        for alias, name in _aliases(module):
            if others[alias] == 1 and alias not in found:
                if name in self._imports:
                    self._imports[alias] = self._imports[name]
                elif others[name] == 1 and name in defined and name not in found:
                    self._imports[alias] = name
                    self._own.add(alias)

    def signature(self, name: str) -> list[str] | None:
        """The positional parameters of the one function that the module defines by this name."""
        functions = self._functions.get(name, ())
        if len(functions) != 1 or functions[0].decorators or name in self._imports:
            return None
        parameters = functions[0].params
        if parameters.posonly_params or isinstance(parameters.star_arg, cst.Param):
            return None
        return [parameter.name.value for parameter in parameters.params]

    def words(self, word: bytes) -> frozenset[bytes]:
        """The spellings of a word: a place that means it has one of them."""
        name = word.decode()
        others = (n for n, q in self._imports.items() if name in q.split("."))
        return frozenset([word, *(other.encode() for other in others)])

    def alike(self, pattern: cst.CSTNode, node: cst.CSTNode) -> bool:
        """Whether code names by the module's imports what a pattern names."""
        if not self._imports:
            return False
        code, wanted = get_full_name_for_node(node), get_full_name_for_node(pattern)
        if code is None or wanted is None or not _is_plain(node) or not _is_plain(pattern):
            return False
        meant = self._resolved(code)
        of_module = self._is_of_module(code) and code.partition(".")[0] not in self._own
        if meant is None or (isinstance(node, cst.Attribute) and not of_module):
            return False
        root = wanted.partition(".")[0]
        if root in self._bound:
            return meant == (self._resolved(wanted) or wanted)
        return meant == wanted or (root not in _BUILTINS and meant.endswith(f".{wanted}"))

    def spelt(self, name: str) -> str | None:
        """The module's own name for what new code calls `name`; None to leave it as it is."""
        if name in self._bound or name in _BUILTINS:
            return None
        own: dict[str, str] = {}
        for local, qualified in self._imports.items():
            if qualified.rpartition(".")[2] == name:
                # An alias comes after the import, and may not be there yet.
                own.setdefault(qualified, local)
        return next(iter(own.values())) if len(own) == 1 else None

    def _resolved(self, dotted: str) -> str | None:
        root, dot, rest = dotted.partition(".")
        return f"{self._imports[root]}{dot}{rest}" if root in self._imports else None

    def _is_of_module(self, dotted: str) -> bool:
        """Whether a dotted name begins with a module, and not with a class."""
        names = (self._resolved(dotted) or dotted).split(".")[:-1]
        return not any(name[:1].isupper() for name in names)


def brings(node: cst.Import | cst.ImportFrom, wanted: cst.ImportFrom) -> bool:
    """Whether an import makes all that another one imports known, under whatever names."""
    given = {qualified for _, qualified in _imported(node, whole=True)}
    sought = [qualified for _, qualified in _imported(wanted)]
    return bool(sought) and all(given & {one, one.rpartition(".")[0]} for one in sought)


def _is_plain(node: cst.CSTNode) -> bool:
    """Whether a node is names and dots alone."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)


def _statements(body: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Every statement in some blocks, and what is in them, without expressions."""
    for statement in body:
        if isinstance(statement, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
            yield from statement.body
            continue
        yield statement
        for part in ("body", "handlers", "cases", "orelse", "finalbody"):
            inner = getattr(statement, part, None)
            if isinstance(inner, cst.IndentedBlock):
                yield from _statements(inner.body)
            elif isinstance(inner, (list, tuple)):
                yield from _statements(inner)
            elif inner is not None:
                yield from _statements([inner])


def _imported(
    node: cst.Import | cst.ImportFrom, *, whole: bool = False
) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, and what it is.

    `import a.b` binds `a`; with `whole`, it is `a.b`.
    """
    if isinstance(node.names, cst.ImportStar):
        return
    above = ""
    if isinstance(node, cst.ImportFrom):
        module = get_full_name_for_node(node.module) if node.module else None
        above = "." * len(node.relative) + (f"{module}." if module else "")
    for alias in node.names:
        name, local = alias.evaluated_name, alias.evaluated_alias
        if isinstance(node, cst.Import) and local is None and not whole:
            name = name.partition(".")[0]
        yield local or name, above + name


def _aliases(module: cst.Module) -> Iterator[tuple[str, str]]:
    """The names that the module itself gives to other names, as `Z = Y` does, with these."""
    for line in module.body:
        for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=alias))],
                    value=cst.Name(value=name),
                ):
                    yield alias, name


def _is_placeholder(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Assign, cst.AnnAssign)) and (
        isinstance(node.value, cst.Name) and node.value.value == "None"
    )


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    """The names that a statement binds, its parameters included."""
    yield from bound_names(node)
    if isinstance(node, cst.With):
        for item in node.items:
            if item.asname is not None:
                yield from bound_names(item.asname)
    elif isinstance(node, (cst.ExceptHandler, cst.ExceptStarHandler)) and node.name is not None:
        yield from bound_names(node.name)
    elif isinstance(node, cst.FunctionDef):
        params = node.params
        for parameter in (
            *params.posonly_params,
            *params.params,
            *params.kwonly_params,
            params.star_arg,
            params.star_kwarg,
        ):
            if isinstance(parameter, cst.Param):
                yield parameter.name.value
