"""Which definitions of a tree a patch reads, and which it makes.

A patch reads the definitions in which its predicates and edits find places, those that its new code
names, and those that use what it changes. It also reads every definition that it is recorded to
read in another release, so that one that was renamed or moved away is missed.
"""

from __future__ import annotations

import ast
import json
from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.planning.outline import STATEMENT, dumped, outline, plain_name
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vpatch.planning.editing import FoundSite
    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change
    from vpatch.planning.view import View

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def definitions_read(
    sites: Iterable[FoundSite],
    changes: Mapping[str, Change],
    names: Iterable[str],
    view: View,
) -> dict[str, str]:
    """Return the definitions of the pristine tree that a patch reads, with their digests.

    Args:
        sites: the places that its predicates and edits found.
        changes: what it changes.
        names: definitions that it reads in other releases, as `PATH::QUALIFIED.NAME`.
        view: the pristine tree.
    """
    # By file, and then by name; a statement has no name, so it is known by its digest.
    wanted: dict[str, set[str]] = {}
    for site in sites:
        for one in _definitions_of(site, view):
            wanted.setdefault(site.path, set()).add(_key(one))
    for path, change in changes.items():
        for other, key in (*_named_by_new_code(path, change, view), *_users(path, change, view)):
            wanted.setdefault(other, set()).add(key)
    for known in names:
        wanted.setdefault(known.partition("::")[0], set()).add(plain_name(known))
    found: dict[str, str] = {}
    for path, keys in sorted(wanted.items()):
        found |= _numbered(path, [one for one in view.outline(path) if _key(one) in keys])
    return found


def _key(one: Definition) -> str:
    return one.digest if one.name.endswith(STATEMENT) else one.name


def definitions_patched(changes: Mapping[str, Change]) -> dict[str, str]:
    """Return the definitions that changes make or change, with the digests of the new syntax.

    Files that the patch creates are left out: its edits compare all of their bytes.
    """
    found: dict[str, str] = {}
    for path, change in changes.items():
        if change.before is not None:
            found |= _numbered(path, _changed(path, change))
    return found


def digest_of_changes(changes: Mapping[str, Change]) -> str:
    """Return `sha256:HEX` over the definitions that changes make, and the files they create.

    It stays the same if other code in the same files differs.
    """
    created = {path: digest_of(c.after) for path, c in changes.items() if c.before is None}
    parts = sorted((created | definitions_patched(changes)).items())
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
        found = view.outline(site.path) if pristine else outline(text, python=_is_python(site.path))
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
        if any(node is site.node for node in _all_nodes(statement)):
            code = cst.Module([]).code_for_node(statement)
            for one in outline(_dedented(code).encode()):
                name = f"{prefix}.{one.name}" if prefix else one.name
                yield type(one)(name, one.first, one.last, one.node)


def _dedented(code: str) -> str:
    # code_for_node writes a statement of a class without the indentation of its first line.
    return code.strip() + "\n"


def _all_nodes(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    yield node
    for child in node.children:
        yield from _all_nodes(child)


def _changed(path: str, change: Change) -> list[Definition]:
    python = _is_python(path)
    before = outline(change.before, python=python) if change.before is not None else []
    same = Counter((one.name, one.digest) for one in before)
    found: list[Definition] = []
    for one in outline(change.after, python=python):
        if same[one.name, one.digest]:
            same[one.name, one.digest] -= 1
        else:
            found.append(one)
    return found


def _named_by_new_code(path: str, change: Change, view: View) -> Iterator[tuple[str, str]]:
    """What the new code names: definitions of its module, of its class, and of the tree.

    The new code is each statement that differs. A keyword may name a field of what is called.
    """
    if not _is_python(path) or change.before is None:
        return
    own = view.outline(path)
    before = {one.name: one for one in own}
    for one in _changed(path, change):
        old = before.get(one.name) if not one.name.endswith(STATEMENT) else None
        if old is not None:
            yield path, old.name
        names, attributes = _new_names(old.node if old else None, one.node)
        owner = one.name.rpartition(".")[0]
        for other in own:
            if other.name in names:
                yield path, other.name
                yield from _imported(path, other.node, attributes, view)
            elif owner and other.name.startswith(f"{owner}."):
                assigned = {other.name.rpartition(".")[2], *_assigned(other.node)}
                if attributes & assigned:
                    yield path, other.name


def _users(path: str, change: Change, view: View) -> Iterator[tuple[str, str]]:
    """What uses a function or a class that a change edits, in the same module.

    Without it, code that nobody calls any more would be patched in silence.
    """
    if not _is_python(path) or change.before is None:
        return
    own = view.outline(path)
    roots = {one.name.partition(".")[0] for one in _changed(path, change)}
    roots &= {one.name for one in own if isinstance(one.node, (*_FUNCTIONS, ast.ClassDef))}
    for one in own:
        if one.name.partition(".")[0] not in roots and one.node is not None:
            names, _ = _names_in([one.node])
            if names & roots:
                yield path, _key(one)


def _new_names(old: ast.AST | None, new: ast.AST | None) -> tuple[set[str], set[str]]:
    """The names in the new statements, and the attributes and keywords that only these have."""
    before = {dumped(node): node for node in _statements(old)}
    after = {dumped(node): node for node in _statements(new)}
    names, attributes = _names_in(node for text, node in after.items() if text not in before)
    _, gone = _names_in(node for text, node in before.items() if text not in after)
    return names, attributes - gone


def _statements(node: ast.AST | None) -> Iterator[ast.AST]:
    """Each statement in a definition; of those with blocks, the parts that are no statements."""
    if node is None:
        return
    parts = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    if len(parts) == len(list(ast.iter_child_nodes(node))):
        yield node
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            yield from _statements(child)
        else:
            yield child


def _names_in(code: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names in some code, and those of attributes and keywords."""
    names: set[str] = set()
    attributes: set[str] = set()
    for inner in (inner for node in code for inner in ast.walk(node)):
        match inner:
            case ast.Name(id=name):
                names.add(name)
            case ast.Attribute(attr=name) | ast.keyword(arg=str(name)):
                attributes.add(name)
    return names, attributes


def _assigned(node: ast.AST | None) -> set[str]:
    """The attributes of `self` that a method assigns."""
    return {
        inner.attr
        for inner in (ast.walk(node) if node is not None else ())
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }


def _imported(
    path: str, node: ast.AST | None, attributes: set[str], view: View
) -> Iterator[tuple[str, str]]:
    """The definitions that an import of the tree's own package names.

    Of a class, these are its head, its `__init__`, and what the new code names of it. Of a module,
    these are what the new code names of it.
    """
    if not isinstance(node, ast.ImportFrom):
        return
    base = path.split("/")[: -node.level] if node.level else []
    parts = [*base, *(node.module or "").split(".")]
    folder = "/".join(part for part in parts if part)
    name = node.names[0].name
    for file in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py"):
        yield from ((file, one.name) for one in view.outline(file) if one.name in attributes)
    for file in (f"{folder}.py", f"{folder}/__init__.py"):
        members = {f"{name}.{member}" for member in (*attributes, "__init__")}
        for one in view.outline(file):
            if one.name == name or one.name in members:
                yield file, one.name


def _is_python(path: str) -> bool:
    return path.endswith((".py", ".pyi"))
