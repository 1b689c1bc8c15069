"""How a module spells the names that it imports.

`from x import Y`, `from x import Y as Z`, `import x` and `import x as z` all make `Y` known, under
different names. So does `Z = Y` in the module. A pattern and new code write one of them.
"""

from __future__ import annotations

import builtins
from collections import Counter

import libcst as cst
from libcst.helpers import get_full_name_for_node

from vpatch.codemods.binding import Bindings, imported

_BUILTINS = frozenset(dir(builtins))


class Spellings:
    """The names of one module.

    A name counts as imported only if nothing else in the module binds it, in any function. So a
    local variable never passes for an import. `x = None` does not count: it is what a module writes
    where an import fails.
    """

    def __init__(self, bindings: Bindings | None = None) -> None:
        bindings = Bindings() if bindings is None else bindings
        others = Counter(bindings.bound)
        imports: dict[str, set[str]] = {}
        for local, qualified in bindings.imports:
            imports.setdefault(local, set()).add(qualified)
        self._bound: set[str] = imports.keys() | others
        self._imports = {
            name: min(qualified)
            for name, qualified in imports.items()
            if len(qualified) == 1 and name not in others
        }
        self._functions: dict[str, list[list[str] | None]] = {}
        for name, parameters in bindings.functions:
            self._functions.setdefault(name, []).append(parameters)
        # Other names of the module's own functions and classes.
        self._own: set[str] = set()
        for alias, name in bindings.aliases:
            if others[alias] == 1 and alias not in imports:
                if name in self._imports:
                    self._imports[alias] = self._imports[name]
                elif others[name] == 1 and name in bindings.defined and name not in imports:
                    self._imports[alias] = name
                    self._own.add(alias)

    def signature(self, name: str) -> list[str] | None:
        """The positional parameters of the one function that the module defines by this name."""
        functions = self._functions.get(name, ())
        return None if len(functions) != 1 or name in self._imports else functions[0]

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
        meant = self._resolve(code)
        of_module = self._is_of_module(code) and code.partition(".")[0] not in self._own
        if meant is None or (isinstance(node, cst.Attribute) and not of_module):
            return False
        root = wanted.partition(".")[0]
        if root in self._bound:
            return meant == (self._resolve(wanted) or wanted)
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

    def _resolve(self, dotted: str) -> str | None:
        root, dot, rest = dotted.partition(".")
        return f"{self._imports[root]}{dot}{rest}" if root in self._imports else None

    def _is_of_module(self, dotted: str) -> bool:
        """Whether a dotted name begins with a module, and not with a class."""
        names = (self._resolve(dotted) or dotted).split(".")[:-1]
        return not any(name[:1].isupper() for name in names)


def brings(node: cst.Import | cst.ImportFrom, wanted: cst.ImportFrom) -> bool:
    """Whether an import makes all that another one imports known, under whatever names."""
    names = {qualified for _, qualified in imported(node, whole=True)}
    sought = [qualified for _, qualified in imported(wanted)]
    return bool(sought) and all(names & {one, one.rpartition(".")[0]} for one in sought)


def _is_plain(node: cst.CSTNode) -> bool:
    """Whether a node is names and dots alone."""
    while isinstance(node, cst.Attribute):
        node = node.value
    return isinstance(node, cst.Name)
