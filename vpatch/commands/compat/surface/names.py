"""What names mean in a file of the target: things of vLLM, or of the target itself."""

from __future__ import annotations

import ast
from contextlib import contextmanager
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.expressions import class_named, dotted
from vpatch.commands.compat.surface.items import ABOVE, CALLED, Ref
from vpatch.util.syntax import children_of, nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# An assignment is met twice: as such, and as the name in it.
_ONCE = 2
_SCOPES = (*_FUNCTIONS, ast.ClassDef, ast.Lambda)


class NameScope:
    """The names of a module or of a function, and of the scopes around it.

    `own_class` is the dotted name of the class that a method is in.
    """

    def __init__(self, outer: NameScope | None = None, own_class: str = "") -> None:
        self._outer = outer
        self._names: dict[str, Ref | None] = {}
        # What a test has shown of an expression such as `self.drafter`, by its text.
        self._shown: dict[str, Ref] = {}
        self.own_class: str = own_class or (outer.own_class if outer else "")

    def bind(self, name: str, ref: Ref | None) -> None:
        """Bind a name; one that is bound to several dotted names is the first that is there."""
        if name not in self._names:
            self._names[name] = ref
            return
        known = self._names[name]
        if known == ref:
            return
        if known is None or ref is None or known.steps or ref.steps:
            self._names[name] = None
        else:
            self._names[name] = Ref(tuple(dict.fromkeys(known.roots + ref.roots)))

    def forget(self, name: str) -> None:
        self._names[name] = None

    def get(self, name: str) -> Ref | None:
        if name in self._names:
            return self._names[name]
        return None if self._outer is None else self._outer.get(name)

    def meaning(self, node: ast.expr | None) -> Ref | None:
        """Return what an expression means, if it is a thing of vLLM or of the target."""
        shown = self._shown and self._shown.get(dotted(node) or "")
        if shown:
            return shown
        return self._meaning(node)

    def _meaning(self, node: ast.expr | None) -> Ref | None:
        match node:
            case ast.Name(id=name):
                return self.get(name)
            case ast.Attribute(value=value, attr=name):
                owner = self.meaning(value)
                return None if owner is None else owner.attribute(name)
            case ast.Call(func=ast.Name(id="super"), args=[]) if self.own_class:
                return Ref((self.own_class,), (ABOVE,))
            case ast.Call(func=func):
                called = self.meaning(func)
                return None if called is None else called.then(CALLED)
            case ast.Await() | ast.NamedExpr():
                return None
            case _:
                return None

    @contextmanager
    def knowing(self, shown: Mapping[str, Ref]) -> Iterator[None]:
        """What expressions are in some code, by their text."""
        outer = self._shown
        self._shown = {**outer, **shown}
        yield
        self._shown = outer

    def instance(self, annotation: ast.expr | None) -> Ref | None:
        """Return a value of the class that an annotation names."""
        named = class_named(annotation)
        if named is None:
            return None
        first, *rest = named.split(".")
        ref = self.get(first)
        for name in rest:
            ref = None if ref is None else ref.attribute(name)
        return None if ref is None or ref.steps else ref.then(CALLED)


def absolute_import(module: str, named: str | None, level: int, *, is_package: bool) -> str:
    """Return the dotted name of the module that `from ..x import y` names in a module."""
    if not level:
        return named or ""
    parts = module.split(".")
    up = level - 1 if is_package else level
    base = parts[: len(parts) - up] if up else parts
    return ".".join([*base, *([named] if named else [])])


def bind_imports(
    scope: NameScope, nodes: Iterable[ast.AST], module: str, *, is_package: bool
) -> None:
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                scope.bind(alias.asname or first, Ref((alias.name if alias.asname else first,)))
        elif isinstance(node, ast.ImportFrom):
            source = absolute_import(module, node.module, node.level, is_package=is_package)
            for alias in node.names:
                if alias.name != "*":
                    scope.bind(alias.asname or alias.name, Ref((f"{source}.{alias.name}",)))


def statements_of(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    """Every node of a scope, without what lies in the functions and classes in it."""
    stack: list[ast.AST] = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack += children_of(node)


def module_scope(tree: ast.Module, module: str, *, is_package: bool) -> NameScope:
    """Return the names of a module. Its own functions and classes are the target's."""
    scope = NameScope()
    nodes = list(statements_of(tree.body))
    bind_imports(scope, nodes, module, is_package=is_package)
    for node in nodes:
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            scope.bind(node.name, Ref((f"{module}.{node.name}",)))
    _bind_values(scope, nodes)
    return scope


def function_scope(
    outer: NameScope,
    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
    module: str,
    *,
    is_package: bool,
    own_class: str = "",
    me: tuple[str, Ref] | None = None,
) -> NameScope:
    """Return the names of a function: its parameters by their annotations, imports and values.

    `me` is the first parameter of a method, and what it means.
    """
    scope = NameScope(outer, own_class)
    if isinstance(node, ast.Lambda):
        nodes = list(nodes_in([node.body]))
    else:
        nodes = [one for statement in node.body for one in statements_of([statement])]
    arguments = node.args
    several = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    for one in several:
        is_me = me is not None and one.arg == me[0]
        scope.bind(one.arg, me[1] if is_me and me else outer.instance(one.annotation))
    for extra in (arguments.vararg, arguments.kwarg):
        if extra is not None:
            scope.forget(extra.arg)
    bind_imports(scope, nodes, module, is_package=is_package)
    for inner in nodes:
        if isinstance(inner, (*_FUNCTIONS, ast.ClassDef)):
            scope.forget(inner.name)
    _bind_values(scope, nodes)
    return scope


def _bind_values(scope: NameScope, nodes: Iterable[ast.AST]) -> None:
    """Bind the names that are assigned: what is assigned twice has no meaning that is sure."""
    values: dict[str, list[Callable[[], Ref | None]]] = {}
    for node in nodes:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                values.setdefault(name, []).append(lambda value=value: scope.meaning(value))  # type: ignore[misc]
            case ast.AnnAssign(target=ast.Name(id=name), annotation=kind):
                values.setdefault(name, []).append(lambda kind=kind: scope.instance(kind))  # type: ignore[misc]
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                values.setdefault(name, [])
                values[name].append(lambda: None)
            case ast.ExceptHandler(name=str(name)):
                values.setdefault(name, []).append(lambda: None)
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                for name in names:
                    values.setdefault(name, []).append(lambda: None)
            case _:
                pass
    for name, several in values.items():
        ref = several[0]() if len(several) == _ONCE else None
        scope.bind(name, ref)
