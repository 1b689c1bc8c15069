"""Faults of names that a patch brings into a Python file: pyflakes before and after, compared."""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Literal

from pyflakes import messages
from pyflakes.checker import Checker

from vpatch.codemods.nesting import NestedTooDeeplyError, parsed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.planning.state import Change

Kind = Literal["undefined", "unused", "redefined"]

# The kind of a message, and its code in a comment that accepts it.
_KINDS: dict[type[messages.Message], tuple[Kind, str]] = {
    messages.UndefinedName: ("undefined", "F821"),
    messages.UndefinedExport: ("undefined", "F822"),
    messages.UndefinedLocal: ("undefined", "F823"),
    messages.UnusedImport: ("unused", "F401"),
    messages.RedefinedWhileUnused: ("redefined", "F811"),
    messages.ImportShadowedByLoopVar: ("redefined", "F402"),
}
# What is in a block of these may not run.
_MAY_NOT_RUN = (
    ast.If
    | ast.For
    | ast.AsyncFor
    | ast.While
    | ast.With
    | ast.AsyncWith
    | ast.Try
    | ast.TryStar
    | ast.ExceptHandler
    | ast.match_case
)
_NEWLINE = re.compile(r"\r\n|\r|\n")
_NOQA = re.compile(
    r"#\s*noqa(?!\w)(?::\s*(?P<codes>[A-Z]+\d+(?:[,\s]+[A-Z]+\d+)*))?", re.IGNORECASE
)


@dataclass(frozen=True)
class NameFault:
    """A name that is used without a definition, imported without a use, or defined over a use.

    `line` counts from 1; `code` is that line, without the white space around it.
    """

    kind: Kind
    name: str
    line: int
    code: str


def new_faults(path: str, before: bytes | None, after: bytes) -> list[NameFault]:
    """The faults of names in a file that it did not have before.

    A file that has a star import may define any name, so no name in it counts as undefined.
    """
    faults = list(_faults(path, after))
    if not faults or before is None:
        return faults
    known = {(fault.kind, fault.name) for fault in _faults(path, before)}
    return [fault for fault in faults if (fault.kind, fault.name) not in known]


def unused_imports(changes: Mapping[str, Change]) -> Iterator[tuple[str, NameFault]]:
    """The imports that nothing in a changed file uses any more, each with the file's path.

    Such code works, and an import may be there for what it does, or for others.
    """
    for path, change in changes.items():
        if path.endswith(".py"):
            faults = new_faults(path, change.before, change.after)
            yield from ((path, fault) for fault in faults if fault.kind == "unused")


def is_package(path: str) -> bool:
    """Whether others import from a file what it imports itself."""
    return path.rpartition("/")[2] == "__init__.py"


def _faults(path: str, source: bytes) -> Iterator[NameFault]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = parsed(source)
        except (SyntaxError, ValueError, NestedTooDeeplyError):
            return  # whoever asks has compiled the new file, and the old one may be broken
    is_lazy = any(_is_lazy(node) for node in tree.body)
    optional = list(_optional_blocks(tree))
    # Not splitlines(): Python's own parser does not count a form feed as the end of a line.
    lines = _NEWLINE.split(source.decode(errors="replace"))
    imports = {
        node.lineno: node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
    }
    reported = Checker(tree, path, withDoctest=False).messages
    for message in sorted(reported, key=attrgetter("lineno", "col")):
        kind, code = _KINDS.get(type(message), (None, ""))
        if kind is None or (kind == "unused" and is_package(path)):
            continue
        if is_lazy and isinstance(message, messages.UndefinedExport):
            continue
        first, name = message.lineno, str(message.message_args[0])
        if kind == "redefined":
            _, earlier = message.message_args
            sources = {_imported_as(name, imports.get(line)) for line in (earlier, first)}
            is_same = len(sources) == 1 and None not in sources
            if not _hides(first, earlier, optional, is_same=is_same):
                continue
        last = imports[first].end_lineno if first in imports else first
        if not _is_excused(lines[first - 1 : last], code):
            yield NameFault(kind, name, first, lines[first - 1].strip())


def _hides(line: int, earlier: int, optional: Sequence[range], *, is_same: bool) -> bool:
    """Whether a definition hides an earlier one wherever that runs; `is_same` as they import."""
    # Where it does not run, the earlier one is the one that counts.
    if any(line in block and earlier not in block for block in optional):
        return False
    # As the import for type checkers, and the one for the program.
    return not (is_same and any(earlier in block and line not in block for block in optional))


def _imported_as(name: str, node: ast.Import | ast.ImportFrom | None) -> tuple[str, ...] | None:
    """What a statement imports by a name: the module, and the name there."""
    if node is None:
        return None
    module = "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else ""
    aliases = (alias.name for alias in node.names if name == (alias.asname or alias.name))
    return next(((module, alias) for alias in aliases), None)


def _optional_blocks(tree: ast.Module) -> Iterator[range]:
    """The lines of each block that may not run, or not to its end."""
    for node in ast.walk(tree):
        if isinstance(node, _MAY_NOT_RUN):
            for block in (node.body, getattr(node, "orelse", None)):
                if block:
                    yield range(block[0].lineno, (block[-1].end_lineno or block[-1].lineno) + 1)


def _is_lazy(node: ast.stmt) -> bool:
    """Whether a statement of a module defines `__getattr__`, which may give any name to others."""
    return isinstance(node, ast.FunctionDef) and node.name == "__getattr__"


def _is_excused(lines: list[str], code: str) -> bool:
    """Whether a comment on a line says that this is meant."""
    for line in lines:
        comment = _NOQA.search(line)
        if comment and (comment["codes"] is None or code in comment["codes"].upper()):
            return True
    return False
