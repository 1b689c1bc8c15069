"""Which definitions of a tree a patch reads, and which it makes.

A patch reads the definitions in which its predicates and edits find places, and those that have the
words of such a place. It reads those that its new code names, and those that use what it changes.
It also reads every definition that it is recorded to read in another release, so that one that was
renamed or moved away is missed.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.nodes import all_nodes
from vpatch.planning.editing import words_of
from vpatch.planning.names import STATEMENT, plain_name
from vpatch.planning.outline import is_python, outline
from vpatch.planning.references import (
    changed_definitions,
    named_by_new_code,
    users_elsewhere,
    users_in_module,
)
from vpatch.util.digest import digest_of
from vpatch.util.words import has_word

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from vpatch.codemods.bind import BoundEdit
    from vpatch.planning.editing import FoundSite
    from vpatch.planning.outline import Definition
    from vpatch.planning.references import Reference
    from vpatch.planning.state import Change
    from vpatch.planning.view import View

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# With fewer, half of the tree would be read.
_FEWEST_WORDS = 3


def definitions_read(
    sites: Iterable[FoundSite],
    changes: Mapping[str, Change],
    names: Iterable[str],
    view: View,
    edits: Iterable[BoundEdit] = (),
) -> dict[str, str]:
    """Return the definitions of the pristine tree that a patch reads, with their digests.

    Args:
        sites: the places that its predicates and edits found.
        changes: what it changes.
        names: definitions that it reads in other releases, as `PATH::QUALIFIED.NAME`.
        view: the pristine tree.
        edits: those that were tried.
    """
    wanted: dict[str, set[str]] = {}
    for site in sites:
        for one in _definitions_of(site, view):
            wanted.setdefault(site.path, set()).add(one.key)
    changed = {
        path: changed_definitions(path, change, view)
        for path, change in changes.items()
        if is_python(path) and change.before is not None
    }
    read = [(path, frozenset(keys)) for path, keys in wanted.items()]
    for other, key in (
        *(found for path, keys in read for found in users_elsewhere(path, keys, view)),
        *(found for path, one in changed.items() for found in named_by_new_code(path, one, view)),
        *(found for path, one in changed.items() for found in users_in_module(path, one, view)),
        *_respelt(edits, view),
    ):
        wanted.setdefault(other, set()).add(key)
    for known in names:
        wanted.setdefault(known.partition("::")[0], set()).add(plain_name(known))
    found: dict[str, str] = {}
    for path, keys in sorted(wanted.items()):
        found |= _numbered(path, _with_statements_around(view.outline(path), keys))
    return found


def combined(one: Mapping[str, str], other: Mapping[str, str]) -> dict[str, str]:
    """Return the definitions that either has. Numbers tell apart those of one name."""
    both = Counter(map(_unnumbered, one.items())) | Counter(map(_unnumbered, other.items()))
    found: dict[str, str] = {}
    seen: Counter[str] = Counter()
    for key, digest in sorted(both.elements()):
        seen[key] += 1
        found[f"{key}#{seen[key]}" if seen[key] > 1 else key] = digest
    return found


def _unnumbered(item: tuple[str, str]) -> tuple[str, str]:
    key, digest = item
    return f"{key.partition('::')[0]}::{plain_name(key)}", digest


def _with_statements_around(
    definitions: Sequence[Definition], keys: Container[str]
) -> Iterator[Definition]:
    """Some definitions, and each statement that one lies in: an `if` may have another one."""
    spans = [(one.first, one.last) for one in definitions if one.key in keys]
    for one in definitions:
        around = one.name.endswith(STATEMENT) and any(
            one.first <= first and last <= one.last for first, last in spans
        )
        if one.key in keys or around:
            yield one


def _respelt(edits: Iterable[BoundEdit], view: View) -> Iterator[Reference]:
    """The definitions that have all the words of what an edit looks for: it may be spelt otherwise.

    Words that are too few say nothing.
    """
    for edit in edits:
        for words in words_of(edit):
            if len(words) < _FEWEST_WORDS:
                continue
            for path in filter(is_python, view.holding([words], edit.files)):
                for one in view.outline(path):
                    if not isinstance(one.node, ast.ClassDef | None) and all(
                        has_word(word, one.text) for word in words
                    ):
                        yield path, one.key


def _definitions_patched(changes: Mapping[str, Change]) -> dict[str, str]:
    """Return the definitions that changes make or change, with the digests of the new syntax.

    Files that the patch creates are left out: its edits compare all of their bytes.
    """
    found: dict[str, str] = {}
    for path, change in changes.items():
        if change.before is not None:
            found |= _numbered(path, changed_definitions(path, change))
    return found


def digest_of_changes(changes: Mapping[str, Change]) -> str:
    """Return `sha256:HEX` over the definitions that changes make, and the files they create.

    It stays the same if other code in the same files differs.
    """
    created = {path: digest_of(c.after) for path, c in changes.items() if c.before is None}
    parts = sorted((created | _definitions_patched(changes)).items())
    return digest_of(json.dumps(parts).encode())


def _numbered(path: str, definitions: Iterable[Definition]) -> dict[str, str]:
    """Digests by unique names: `PATH::NAME`, then `PATH::NAME#2`."""
    seen: Counter[str] = Counter()
    found: dict[str, str] = {}
    for one in definitions:
        seen[one.name] += 1
        number = f"#{seen[one.name]}" if seen[one.name] > 1 else ""
        found[f"{path}::{one.name}{number}"] = one.digest
    return found


def _definitions_of(site: FoundSite, view: View) -> Iterator[Definition]:
    """The definitions in which a site lies, or which it is."""
    if site.module is None or site.node is None:
        if site.text_line is None:
            return  # a file that the patch creates: its edit compares all of it
        text = site.text if site.text is not None else b""
        pristine = text == view.pristine(site.path)
        found = view.outline(site.path) if pristine else outline(text, python=is_python(site.path))
        around = [one for one in found if one.first <= site.text_line <= one.last]
        # The head of a class comes before what is in it.
        yield from around[-1:]
        return
    is_definition = isinstance(site.node, (cst.FunctionDef, cst.ClassDef))
    own = [site.node.name.value] if isinstance(site.node, (cst.FunctionDef, cst.ClassDef)) else []
    parts = [*site.scope.split("."), *own] if site.scope else own
    by_name = {one.name: one for one in view.outline(site.path)}
    for depth in range(len(parts), 0, -1):
        one = by_name.get(".".join(parts[:depth]))
        if one is None:
            continue
        yield one
        if isinstance(one.node, _FUNCTIONS) or is_definition:
            return
        break
    yield from _statement_of(site, parts)


def _statement_of(site: FoundSite, parts: Sequence[str]) -> Iterator[Definition]:
    """What the statement defines, in a module or a class, that a site is a part of."""
    body: Sequence[cst.CSTNode] = site.module.body if site.module else ()
    for name in parts:
        inner = next(
            (s for s in body if isinstance(s, cst.ClassDef) and s.name.value == name), None
        )
        if inner is None:
            break
        body = inner.body.body
    prefix = ".".join(parts)
    for statement in body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            continue
        if any(node is site.node for node in all_nodes(statement)):
            code = cst.Module([]).code_for_node(statement)
            for one in outline(_dedented(code).encode()):
                name = f"{prefix}.{one.name}" if prefix else one.name
                yield type(one)(name, one.first, one.last, one.node)


def _dedented(code: str) -> str:
    # code_for_node writes a statement of a class without the indentation of its first line.
    return code.strip() + "\n"
