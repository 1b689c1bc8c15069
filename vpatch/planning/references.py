"""The definitions that new code names."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from typing import TYPE_CHECKING, TypedDict

from vpatch.planning.names import STATEMENT
from vpatch.planning.outline import dumped, is_python, outline
from vpatch.planning.users import FUNCTIONS, imported_from, names_in, users_in

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change
    from vpatch.planning.users import Reference
    from vpatch.planning.view import View

_STAR = "*"


def changed_definitions(path: str, change: Change) -> list[Definition]:
    """Return the definitions that a change makes, as they are after it."""
    before = [] if change.before is None else outline(change.before, python=is_python(path))
    return _changed(before, outline(change.after, python=is_python(path)), change)


def _changed(
    before: Sequence[Definition], after: Sequence[Definition], change: Change
) -> list[Definition]:
    # Most definitions have the same lines as before, and to compare lines costs much less.
    old, new = (text.splitlines(keepends=True) for text in (change.before or b"", change.after))
    lines = Counter((one.name, *old[one.first - 1 : one.last]) for one in before)
    rest: list[Definition] = []
    for one in after:
        own = (one.name, *new[one.first - 1 : one.last])
        if lines[own]:
            lines[own] -= 1
        else:
            rest.append(one)
    unmatched = (one for one in before if lines[one.name, *old[one.first - 1 : one.last]])
    same = Counter((one.name, one.digest) for one in unmatched)
    changed: list[Definition] = []
    for one in rest:
        if same[one.name, one.digest]:
            same[one.name, one.digest] -= 1
        else:
            changed.append(one)
    return changed


def named_by_change(path: str, change: Change, view: View) -> Iterator[Reference]:
    """Return what new code names, and what uses in the same module what a change edits.

    The new code names definitions of its module, of its class, and of the tree. It is each
    statement that differs. A keyword may name a field of what is called. Without the users, code
    that nobody calls any more would be patched in silence.
    """
    digests = [hashlib.sha256(text).digest() for text in (change.before or b"", change.after)]
    known: _Named = view.answers.ask(
        "what a change names", digests, lambda: _named_by_change(path, change, view)
    )
    yield from ((path, key) for key in known["own"])
    for module, level, name, attributes in known["imports"]:
        yield from _imported(path, (module, level, name), attributes, view)


class _Named(TypedDict):
    own: list[str]
    imports: list[tuple[str | None, int, str, list[str]]]


def _named_by_change(path: str, change: Change, view: View) -> _Named:
    before, after = (view.outline_of(path, text) for text in (change.before or b"", change.after))
    changed = _changed(before, after, change)
    own: list[str] = []
    imports: list[tuple[str | None, int, str, list[str]]] = []
    for key, node, attributes in _named_by_new_code(before, changed):
        if key is not None:
            own.append(key)
        if isinstance(node, ast.ImportFrom):
            imports.append((node.module, node.level, node.names[0].name, sorted(attributes)))
    roots = {one.name.partition(".")[0] for one in changed}
    roots &= {one.name for one in before if isinstance(one.node, (*FUNCTIONS, ast.ClassDef))}
    own += [one.key for one in users_in(before, roots)]
    return {"own": own, "imports": imports}


def _named_by_new_code(
    own: Sequence[Definition], changed: Sequence[Definition]
) -> Iterator[tuple[str | None, ast.AST | None, set[str]]]:
    """The key of a definition that is named, or an import, with the attributes that are named."""
    before = {one.name: one for one in own}
    for one in changed:
        old = before.get(one.name) if not one.name.endswith(STATEMENT) else None
        if old is not None:
            yield old.key, None, set()
        names, attributes = _new_names(old.node if old else None, one.node)
        owner = one.name.rpartition(".")[0]
        bases, _ = names_in([before[owner].node] if owner in before else [])
        for other in own:
            bound = _bound(other)
            if bound & {*names, _STAR}:
                yield other.key, other.node, attributes
            elif attributes and bound & bases:
                yield None, other.node, attributes
            elif owner and other.name.startswith(f"{owner}."):
                assigned = {other.name.rpartition(".")[2], *_assigned(other.node)}
                if attributes & assigned:
                    yield other.key, None, set()


def _bound(one: Definition) -> set[str]:
    """The names that a definition gives something to, in its module or class."""
    if not one.name.endswith(STATEMENT) or one.node is None:
        return {one.name}
    bound: set[str] = set()
    for inner in ast.walk(one.node):
        match inner:
            case ast.Name(id=name, ctx=ast.Store()):
                bound.add(name)
            case ast.alias(name=name, asname=asname):
                bound.add(asname or name.partition(".")[0])
    return bound


def _new_names(old: ast.AST | None, new: ast.AST | None) -> tuple[set[str], set[str]]:
    """The names in the new statements, and the attributes and keywords that only these have."""
    before = {dumped(node): node for node in _statements(old)}
    after = {dumped(node): node for node in _statements(new)}
    names, attributes = names_in(node for text, node in after.items() if text not in before)
    _, gone = names_in(node for text, node in before.items() if text not in after)
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
    path: str, what: tuple[str | None, int, str], attributes: Collection[str], view: View
) -> Iterator[Reference]:
    """The definitions that an import of the tree's own package names.

    Of a class, these are its head, its `__init__`, and what the new code names of it. Of a module,
    these are what the new code names of it. `what` are the import's module, its level and its name.
    """
    module, level, name = what
    folder = imported_from(path, module, level)
    members = {name, *(f"{name}.{member}" for member in (*attributes, "__init__"))}
    for file in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py"):
        yield from _definitions_called(attributes, file, view)
    for file in (f"{folder}.py", f"{folder}/__init__.py"):
        yield from _definitions_called(members, file, view)


def _definitions_called(names: Collection[str], path: str, view: View) -> Iterator[Reference]:
    keys = view.ask_pristine(
        f"keys of {sorted(names)}",
        path,
        lambda: [one.key for one in view.outline(path) if one.name in names],
    )
    yield from ((path, key) for key in keys)
