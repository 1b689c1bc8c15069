"""A merged change, imported at the first release that has it, and applied to the one before.

The machine need not reach GitHub: the change is taken out of the difference of two releases. Runs
of lines that differ are the change's if imports/merged.py names them. The diff that is imported
takes these runs alone out of the newer release. So it is what `git diff` shows of a tree that has
the change as its last commit.

What is right for the older release is that release with these runs as they are in the newer one.
`equal` compares definition by definition, by Python's syntax tree: each definition that the change
touches must be so in the patched tree, and every other one as it was. The statements outside of
definitions are one more, where the order of imports does not count. A definition is `as upstream`
if it also is the newer release's own. If not, the newer release changed it elsewhere, too.
"""

from __future__ import annotations

import ast
import difflib
import warnings
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from imports.merged import ANY, MODULE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from imports.merged import Merged
    from vpatch.source.tree import Tree

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
Files = dict[str, bytes]


@dataclass(frozen=True)
class Run:
    """Lines of the older file that became lines of the newer one."""

    old: tuple[int, int]
    new: tuple[int, int]


@dataclass(frozen=True)
class Sides:
    """The files of a change: of both releases, and of each with the change moved.

    `without` is the newer release without the change, `right` the older one with it.
    """

    older: Files
    newer: Files
    without: Files
    right: Files


@dataclass
class Equality:
    """How many definitions a change touches, and how many of them came out right."""

    touched: int = 0
    equal: int = 0
    as_upstream: int = 0
    same_bytes: int = 0
    files: int = 0
    why: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        return self.touched > 0 and not self.why


def sides(merged: Merged, older: Tree, newer: Tree) -> Sides:
    """Move the change between the files of two releases."""
    there = set(older.paths())
    found = Sides({}, {}, {}, {})
    for path, parts in merged.parts.items():
        new = newer.read(path)
        found.newer[path] = new
        if path not in there:
            found.right[path] = new  # the change adds the file
            continue
        old = found.older[path] = older.read(path)
        lines = [text.decode().splitlines(keepends=True) for text in (old, new)]
        runs = list(_runs(lines, parts))
        if not runs:
            raise ValueError(f"{merged.name}: nothing of it differs in {path}")
        found.without[path] = "".join(_moved(lines[1], lines[0], runs, back=True)).encode()
        found.right[path] = "".join(_moved(lines[0], lines[1], runs, back=False)).encode()
    return found


def _runs(lines: Sequence[list[str]], parts: Mapping[str, tuple[str, ...]]) -> Iterator[Run]:
    spans = [_spans("".join(side)) for side in lines]
    matcher = difflib.SequenceMatcher(None, lines[0], lines[1], autojunk=False)
    for tag, first, last, other, end in matcher.get_opcodes():
        if tag == "equal":
            continue
        text = "".join([*lines[0][first:last], *lines[1][other:end]])
        names = _names(spans[0], lines[0], first, last) | _names(spans[1], lines[1], other, end)
        for name, words in parts.items():
            if (name == ANY or name in names) and (not words or any(w in text for w in words)):
                yield Run((first, last), (other, end))
                break


def names_of_runs(old: bytes, new: bytes) -> set[str]:
    """The definitions that two versions of a file have otherwise."""
    texts = [text.decode() for text in (old, new)]
    spans, lines = [_spans(text) for text in texts], [text.splitlines() for text in texts]
    matcher = difflib.SequenceMatcher(None, lines[0], lines[1], autojunk=False)
    names: set[str] = set()
    for tag, first, last, other, end in matcher.get_opcodes():
        if tag != "equal":
            names |= _names(spans[0], lines[0], first, last)
            names |= _names(spans[1], lines[1], other, end)
    return names


def _moved(
    lines: Sequence[str], others: Sequence[str], runs: Sequence[Run], *, back: bool
) -> Iterator[str]:
    """The lines of one file with the runs as the other file has them."""
    at = 0
    for run in runs:
        here, there = (run.new, run.old) if back else (run.old, run.new)
        yield from lines[at : here[0]]
        yield from others[slice(*there)]
        at = here[1]
    yield from lines[at:]


def _spans(text: str) -> list[tuple[int, int, str]]:
    """The lines of each definition, decorators included, with its qualified name."""
    found: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, scope: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, _DEFINITIONS):
                visit(inner, scope)
                continue
            name = f"{scope}.{inner.name}" if scope else inner.name
            top = min([inner.lineno, *(each.lineno for each in inner.decorator_list)])
            found.append((top - 1, inner.end_lineno or top, name))
            visit(inner, name)

    visit(_parsed(text.encode()), "")
    return found


def _names(
    spans: Sequence[tuple[int, int, str]], lines: Sequence[str], first: int, last: int
) -> set[str]:
    """The definitions that some lines are in."""
    found = set()
    for number in range(first, last):
        if lines[number].strip():
            inside = [span for span in spans if span[0] <= number < span[1]]
            found.add(max(inside)[2] if inside else MODULE)
    return found


def _parsed(text: bytes) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(text)


def compared(files: Sides, made: Mapping[str, bytes]) -> Equality:
    """Compare a patched older release with what is right for it."""
    found = Equality()
    for path, right in files.right.items():
        found.files += 1
        text = made.get(path, files.older.get(path))
        if text is None:
            found.why.append(f"{path} is not there")
            continue
        found.same_bytes += text == right
        before, wanted, upstream, got = (
            units(each) for each in (files.older.get(path, b""), right, files.newer[path], text)
        )
        for name in sorted({*before, *wanted, *got}):
            touched = before.get(name) != wanted.get(name)
            found.touched += touched
            if got.get(name) != wanted.get(name):
                found.why.append(f"{path}: {name or 'outside of definitions'}")
            else:
                found.equal += touched
                found.as_upstream += touched and got.get(name) == upstream.get(name)
    found.why += [f"{path} changed" for path in sorted(made.keys() - files.right.keys())]
    return found


def definitions(text: bytes) -> dict[str, str]:
    """The code of each function, and of each class without its functions, by qualified name."""
    found: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)

    def visit(node: ast.AST, scope: str) -> None:
        for inner in ast.iter_child_nodes(node):
            if not isinstance(inner, _DEFINITIONS):
                continue
            name = f"{scope}.{inner.name}" if scope else inner.name
            if isinstance(inner, ast.ClassDef):
                visit(inner, name)
                own = [each for each in inner.body if not isinstance(each, _DEFINITIONS)]
                head = [*inner.decorator_list, *inner.bases, *inner.keywords]
                code = "\n".join(map(ast.dump, [*head, *own]))
            else:
                code = ast.dump(inner)
            # An overload or a setter has the name of another one.
            found[name] = f"{found[name]}\n{code}" if name in found else code

    visit(tree, "")
    return found


def units(text: bytes) -> dict[str, str]:
    """The code of each definition of a file, and of what is outside of them."""
    body = _parsed(text).body
    found = definitions(text)
    imports = Counter(
        ast.dump(ast.ImportFrom(node.module, [name], node.level))
        if isinstance(node, ast.ImportFrom)
        else ast.dump(name)
        for node in body
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in node.names
    )
    others = [
        ast.dump(node)
        for node in body
        if not isinstance(node, (*_DEFINITIONS, ast.Import, ast.ImportFrom))
    ]
    found[MODULE] = "\n".join([*sorted(imports.elements()), *others])
    return found
