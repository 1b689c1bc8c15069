"""The definitions that new code names, and those that use a function that a patch reads."""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

from vpatch.planning.names import STATEMENT
from vpatch.planning.outline import dumped, is_python, outline

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.planning.state import Change
    from vpatch.planning.view import View

# A file, and the key of a definition in it.
Reference = tuple[str, str]
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
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
    left = [one for one in before if lines[one.name, *old[one.first - 1 : one.last]]]
    same = Counter((one.name, one.digest) for one in left)
    found: list[Definition] = []
    for one in rest:
        if same[one.name, one.digest]:
            same[one.name, one.digest] -= 1
        else:
            found.append(one)
    return found


def named_by_change(path: str, change: Change, view: View) -> Iterator[Reference]:
    """Return what new code names, and what uses in the same module what a change edits.

    The new code names definitions of its module, of its class, and of the tree. It is each
    statement that differs. A keyword may name a field of what is called. Without the users, code
    that nobody calls any more would be patched in silence.
    """
    digests = [hashlib.sha256(text).digest() for text in (change.before or b"", change.after)]
    known = view.answers.ask(
        "what a change names", digests, lambda: _named_by_change(path, change, view)
    )
    yield from ((path, key) for key in known["own"])
    for module, level, name, attributes in known["imports"]:
        yield from _imported(path, (module, level, name), attributes, view)


def _named_by_change(path: str, change: Change, view: View) -> dict[str, Any]:
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
    roots &= {one.name for one in before if isinstance(one.node, (*_FUNCTIONS, ast.ClassDef))}
    own += [one.key for one in _users(before, roots)]
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
        bases, _ = _names_in([before[owner].node] if owner in before else [])
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


def users_elsewhere(path: str, keys: Collection[str], view: View) -> Iterator[Reference]:
    """What uses one of some functions of a module, in other modules that name this module.

    A name that the module gives to what it makes of such a function counts as well. If a user puts
    the function in place of another one, that one and its users count too.
    """
    if not is_python(path):
        return
    folder, _, stem = path.rpartition(".")[0].rpartition("/")
    module = folder.rpartition("/")[2] if stem == "__init__" else stem
    named = view.ask_pristine(
        f"names given to {sorted(keys)}", path, lambda: _names_given(view.outline(path), keys)
    )
    for name in named:
        for other in view.holding([frozenset([name.encode(), module.encode()])], None):
            if other == path:
                continue
            users = view.ask_pristine(
                f"users of {name}", other, partial(_users_of, name, other, view)
            )
            for key, replaced in users:
                yield other, key
                for dotted in replaced:
                    yield from _with_users(dotted, view)


def _names_given(own: Sequence[Definition], keys: Collection[str]) -> list[str]:
    functions = {one.name for one in own if isinstance(one.node, _FUNCTIONS) and one.name in keys}
    return sorted(_with_aliases(functions, own))


def _users_of(name: str, path: str, view: View) -> list[tuple[str, list[str]]]:
    found = _users(view.outline(path), {name}, attributes=True)
    return [(one.key, list(_replaced(one.node, name))) for one in found]


def _with_aliases(names: set[str], definitions: Iterable[Definition]) -> set[str]:
    """Some names, and those that a module gives to what it makes of them, as a decorator does."""
    found = set(names)
    for one in definitions:
        made_of: Sequence[ast.AST] = ()
        if isinstance(one.node, (ast.Assign, ast.AnnAssign)):
            made_of = [one.node]
        elif isinstance(one.node, _FUNCTIONS):
            made_of = one.node.decorator_list
        if "." not in one.name and _names_in(made_of)[0] & names:
            found.add(one.name)
    return found


def _replaced(node: ast.AST | None, name: str) -> Iterator[str]:
    """The dotted names of what a function replaces: `{"a.b.f": NAME}` and `a.b.f = NAME`."""
    for inner in ast.walk(node) if node is not None else ():
        match inner:
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and _is_named(name, value):
                        yield str(key.value)
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                if _is_named(name, value):
                    yield ast.unparse(target)


def _is_named(name: str, node: ast.AST) -> bool:
    return any(name in names for names in _names_in([node]))


def _with_users(dotted: str, view: View) -> Iterator[Reference]:
    """The definition of the tree that a dotted name is, with what uses it in its module."""
    module, _, name = dotted.rpartition(".")
    folder = module.replace(".", "/")
    for path in (f"{folder}.py", f"{folder}/__init__.py"):
        keys = view.ask_pristine(
            f"{name} and its users", path, partial(_own_users, name, path, view)
        )
        yield from ((path, key) for key in keys)


def _own_users(name: str, path: str, view: View) -> list[str]:
    own = view.outline(path)
    names = _with_aliases({name}, own)
    return [one.key for one in (*(o for o in own if o.name in names), *_users(own, names))]


def _users(
    definitions: Iterable[Definition], roots: set[str], *, attributes: bool = False
) -> Iterator[Definition]:
    """The definitions that name one of `roots`, apart from the roots themselves."""
    for one in definitions:
        if one.node is not None and (attributes or one.name.partition(".")[0] not in roots):
            names, further = _names_in([one.node])
            if (names | further if attributes else names) & roots:
                yield one


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


def _names_in(code: Iterable[ast.AST | None]) -> tuple[set[str], set[str]]:
    """The names in some code, and those of attributes and keywords."""
    names: set[str] = set()
    attributes: set[str] = set()
    for inner in (inner for node in code if node is not None for inner in ast.walk(node)):
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
    path: str, what: tuple[str | None, int, str], attributes: Collection[str], view: View
) -> Iterator[Reference]:
    """The definitions that an import of the tree's own package names.

    Of a class, these are its head, its `__init__`, and what the new code names of it. Of a module,
    these are what the new code names of it. `what` are the import's module, its level and its name.
    """
    module, level, name = what
    base = path.split("/")[:-level] if level else []
    parts = [*base, *(module or "").split(".")]
    folder = "/".join(part for part in parts if part)
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
