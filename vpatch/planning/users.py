"""What uses a function that a patch reads: in its module, and in other modules."""

from __future__ import annotations

import ast
from functools import partial
from typing import TYPE_CHECKING

from vpatch.planning.outline import is_python

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from vpatch.planning.outline import Definition
    from vpatch.planning.view import View

# A file, and the key of a definition in it.
Reference = tuple[str, str]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def users_elsewhere(path: str, keys: Collection[str], view: View) -> Iterator[Reference]:
    """What uses one of some functions of a module, in other modules that name this module.

    A name that the module gives to what it makes of such a function counts as well. If a user puts
    the function in place of another one, that one and its users count too. A module that imports
    the name from where another function has it does not use this one.
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
            names = sorted(_names_for(name, path, other, view))
            users = view.ask_pristine(
                f"users of {name} as {names}", other, partial(_users_of, name, names, other, view)
            )
            for key, replaced in users:
                yield other, key
                for dotted in replaced:
                    yield from _with_users(dotted, view)


def _names_given(own: Sequence[Definition], keys: Collection[str]) -> list[str]:
    functions = {one.name for one in own if isinstance(one.node, FUNCTIONS) and one.name in keys}
    return sorted(_with_aliases(functions, own))


def _names_for(name: str, path: str, other: str, view: View) -> set[str]:
    """The names that a module may have for a function of another one, by its imports."""
    imports = view.ask_pristine(
        f"imports of {name}", other, lambda: list(_imports_of(name, other, view))
    )
    ours = {bound for stem, bound in imports if not _defined_in(name, stem, path, view)}
    return ours if imports else {name}


def _imports_of(name: str, path: str, view: View) -> Iterator[tuple[str, str]]:
    """The modules from which a module imports a name, as paths without an ending; and as what."""
    for one in view.outline(path):
        for inner in ast.walk(one.node) if one.node is not None else ():
            if isinstance(inner, ast.ImportFrom):
                stem = imported_from(path, inner.module, inner.level)
                yield from ((stem, a.asname or a.name) for a in inner.names if a.name == name)


def _defined_in(name: str, stem: str, path: str, view: View) -> bool:
    """Whether a module other than `path` has a function or class of a name.

    One that only imports the name may pass on that of `path`.
    """
    for file in {f"{stem}.py", f"{stem}/__init__.py"} - {path}:
        if view.ask_pristine(
            f"whether {name} is defined", file, partial(_defines, name, file, view)
        ):
            return True
    return False


def _defines(name: str, path: str, view: View) -> bool:
    kinds = (*FUNCTIONS, ast.ClassDef)
    return any(one.name == name and isinstance(one.node, kinds) for one in view.outline(path))


def imported_from(path: str, module: str | None, level: int) -> str:
    """The path, without an ending, of the module that an import in a file names."""
    base = path.split("/")[:-level] if level else []
    return "/".join(part for part in (*base, *(module or "").split(".")) if part)


def _users_of(
    name: str, names: Sequence[str], path: str, view: View
) -> list[tuple[str, list[str]]]:
    users = users_in(view.outline(path), set(names), attributes={name})
    return [(one.key, sorted(_replacements(one.node, {name, *names}))) for one in users]


def _with_aliases(names: set[str], definitions: Iterable[Definition]) -> set[str]:
    """Some names, and those that a module gives to what it makes of them, as a decorator does."""
    aliases = set(names)
    for one in definitions:
        made_of: Sequence[ast.AST] = ()
        if isinstance(one.node, (ast.Assign, ast.AnnAssign)):
            made_of = [one.node]
        elif isinstance(one.node, FUNCTIONS):
            made_of = one.node.decorator_list
        if "." not in one.name and names_in(made_of)[0] & names:
            aliases.add(one.name)
    return aliases


def _replacements(node: ast.AST | None, names: set[str]) -> Iterator[str]:
    """The dotted names of what a function replaces: `{"a.b.f": NAME}` and `a.b.f = NAME`."""
    for inner in ast.walk(node) if node is not None else ():
        match inner:
            case ast.Dict(keys=keys, values=values):
                for key, value in zip(keys, values, strict=True):
                    if isinstance(key, ast.Constant) and _is_named(names, value):
                        yield str(key.value)
            case ast.Assign(targets=[ast.Attribute() as target], value=value):
                if _is_named(names, value):
                    yield ast.unparse(target)


def _is_named(names: set[str], node: ast.AST) -> bool:
    return any(map(names.intersection, names_in([node])))


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
    return [one.key for one in (*(o for o in own if o.name in names), *users_in(own, names))]


def users_in(
    definitions: Iterable[Definition], roots: set[str], *, attributes: Collection[str] | None = None
) -> Iterator[Definition]:
    """The definitions that name one of `roots`, apart from the roots themselves.

    With `attributes`, those that have an attribute or a keyword of such a name too, and the roots
    are not left out: they are names in another module.
    """
    for one in definitions:
        elsewhere = attributes is not None
        if one.node is not None and (elsewhere or one.name.partition(".")[0] not in roots):
            names, further = names_in([one.node])
            if names & roots or not further.isdisjoint(attributes or ()):
                yield one


def names_in(code: Iterable[ast.AST | None]) -> tuple[set[str], set[str]]:
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
