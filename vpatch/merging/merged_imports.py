"""Imports that a change adds, apart from its other lines: their order means nothing."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from difflib import SequenceMatcher

from vpatch.merging.syntax import parses

_LONGEST = 88


@dataclass(frozen=True, order=True)
class ImportedName:
    """A name that `from module import name as alias` gives, at the top of a file."""

    module: str
    name: str
    alias: str | None = None

    @property
    def bound(self) -> str:
        return self.alias or self.name

    @property
    def text(self) -> str:
        return self.name if self.alias is None else f"{self.name} as {self.alias}"


@dataclass(frozen=True)
class ApartImports:
    """A changed file with the imports as they were, and the names that it adds and removes."""

    text: str
    added: tuple[ImportedName, ...]
    removed: tuple[ImportedName, ...]


def imported_names(text: str) -> set[ImportedName]:
    """The names that a file imports at its top, each from a module."""
    return {
        one
        for node in _imports(text)
        if isinstance(node, ast.ImportFrom)
        for one in _names_of(node)
    }


def apart(base: str, theirs: str) -> ApartImports | None:
    """The change without what it does to imported names; None if that is nothing."""
    lines = [text.splitlines(keepends=True) for text in (base, theirs)]
    spans = [_import_lines(text) for text in (base, theirs)]
    matcher = SequenceMatcher(None, lines[0], lines[1], autojunk=False)
    rest: list[str] = []
    for tag, first, last, begin, end in matcher.get_opcodes():
        pairs = ((0, range(first, last)), (1, range(begin, end)))
        is_import = tag != "equal" and all(
            number in spans[side] or not lines[side][number].strip()
            for side, numbers in pairs
            for number in numbers
        )
        rest += lines[0][first:last] if is_import else lines[1][begin:end]
    text = "".join(rest)
    names, before = imported_names(theirs), imported_names(text)
    if names == before or not parses(text):
        return None
    added, removed = (tuple(sorted(one, key=_key)) for one in (names - before, before - names))
    return ApartImports(text, added, removed)


def without_imports(text: str, names: tuple[ImportedName, ...]) -> str:
    """A file that does not import these names any more, but for those that it uses."""
    for one in names:
        uses = len(re.findall(rf"\b{re.escape(one.bound)}\b", text))
        lines = text.splitlines(keepends=True)
        for node in _imports(text):
            if isinstance(node, ast.ImportFrom) and _module_of(node) == one.module and uses == 1:
                rest = [each for each in _names_of(node) if each != one]
                if len(rest) < len(node.names):
                    text = _rewritten(lines, node, rest) or text
    return text


def with_imports(text: str, names: tuple[ImportedName, ...]) -> str | None:
    """A file that imports these names as well; None if there is no place for them."""
    for one in names:
        present = imported_names(text)
        if one in present:
            continue
        if any(other.bound == one.bound for other in present):
            return None
        changed = _with_import(text, one)
        if changed is None or imported_names(changed) != present | {one}:
            return None
        text = changed
    return text


def _with_import(text: str, new: ImportedName) -> str | None:
    lines = text.splitlines(keepends=True)
    listed = [one for one in _imports(text) if isinstance(one, ast.ImportFrom)]
    for one in listed:
        if _module_of(one) == new.module:
            return _in_statement(lines, one, new)
    root = new.module.partition(".")[0]
    group = [
        one for one in listed if not one.level and (one.module or "").partition(".")[0] == root
    ]
    before = [one for one in group if (one.module or "") < new.module]
    statement = f"from {new.module} import {new.text}\n"
    if len(statement) > _LONGEST + 1:
        statement = f"from {new.module} import (\n    {new.text},\n)\n"
    if before:
        lines.insert(before[-1].end_lineno or 0, statement)
    elif group:
        lines.insert(group[0].lineno - 1, statement)
    elif listed:
        lines.insert(listed[-1].end_lineno or 0, statement)
    else:
        return None
    return "".join(lines)


def _in_statement(lines: list[str], one: ast.ImportFrom, new: ImportedName) -> str | None:
    """Let a statement import a name more, in the order that it has."""
    names = _names_of(one)
    at = next((n for n, each in enumerate(names) if _key(each) > _key(new)), len(names))
    names.insert(at, new)
    return _rewritten(lines, one, names)


def _rewritten(lines: list[str], one: ast.ImportFrom, names: list[ImportedName]) -> str | None:
    """The file with other names in a statement; without one, the statement goes."""
    first, last = one.lineno - 1, one.end_lineno or one.lineno
    if any("#" in line for line in lines[first:last]) or one.names[0].name == "*":
        return None
    statement = ""
    if names:
        statement = f"from {_module_of(one)} import {', '.join(each.text for each in names)}\n"
        if len(statement) > _LONGEST + 1 or last - first > 1:
            inner = "".join(f"    {each.text},\n" for each in names)
            statement = f"from {_module_of(one)} import (\n{inner})\n"
    return "".join([*lines[:first], statement, *lines[last:]])


def _module_of(one: ast.ImportFrom) -> str:
    return "." * one.level + (one.module or "")


def _names_of(one: ast.ImportFrom) -> list[ImportedName]:
    return [ImportedName(_module_of(one), each.name, each.asname) for each in one.names]


def _key(one: ImportedName) -> tuple[str, int, str]:
    """Constants come first, then classes, as ruff sorts them."""
    kind = 0 if one.name.isupper() else 1 if one.name[:1].isupper() else 2
    return one.module, kind, one.name


def _imports(text: str) -> list[ast.Import | ast.ImportFrom]:
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError):
        return []
    return [one for one in body if isinstance(one, (ast.Import, ast.ImportFrom))]


def _import_lines(text: str) -> set[int]:
    return {
        number
        for one in _imports(text)
        if isinstance(one, ast.ImportFrom)
        for number in range(one.lineno - 1, one.end_lineno or one.lineno)
    }
