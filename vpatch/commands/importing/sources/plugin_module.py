"""A module of a plugin: what it assigns to parts of a tree, and what its functions are."""

from __future__ import annotations

import ast
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.deriving.module_names import bound_in, imports_of
from vpatch.deriving.source_code import Definition, Function, parsed
from vpatch.errors import UsageError
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

Scopes = tuple[Function, ...]
# How many modules of a plugin hand a function on before it is defined.
_MOST = 5
_TRIES = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.Match, ast.ExceptHandler)
_HINT = (
    "vpatch reads Class.method = function, module.function = function, setattr(...), and plain "
    "values. Take the readable ones with --only NAME, or apply the rest by hand to a copy, and "
    "give it to --from-tree"
)


@dataclass(frozen=True)
class Assigned:
    """`OWNER.NAME = VALUE`; `owner` is the dotted name of a class or a module of the tree.

    `refused` says why vpatch does not read it. `scopes` are the functions that it is in.
    """

    owner: str
    name: str
    value: ast.expr | None
    line: int
    scopes: Scopes = ()
    is_conditional: bool = False
    refused: str | None = None

    @property
    def dotted(self) -> str:
        return f"{self.owner}.{self.name}"


class PluginModule:
    """A parsed module. `roots` are the packages of the tree that it may patch.

    Raises:
        UsageError: it is not Python.
    """

    def __init__(self, path: Path, roots: frozenset[str]) -> None:
        self.path = path
        self.roots = roots
        content = read_file(path, LARGEST_BESIDE)
        try:
            self.text = content.decode()
            self.tree = parsed(content)
        except (SyntaxError, ValueError, RecursionError) as error:
            raise self.refused(1, f"it is not Python that can be read: {error}") from error
        self.imports = imports_of(self.tree)
        # The parts of the tree that names are, and the lines that say so.
        self.aliases: dict[str, tuple[str, int]] = {}
        for node, _, _ in self._statements:
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    dotted = self.named(value)
                    if dotted is not None and self.is_of_tree(dotted):
                        self.aliases[name] = (dotted, node.lineno)

    def refused(self, line: int, what: str) -> UsageError:
        where = f"{self.path}:{line}"
        return UsageError(what, where=where, hint=_HINT, code="importing.other-assignment")

    def is_of_tree(self, dotted: str) -> bool:
        return dotted.partition(".")[0] in self.roots

    @cached_property
    def _statements(self) -> list[tuple[ast.AST, Scopes, bool]]:
        """All statements in their order, with the functions they are in; whether on a condition."""
        return list(_walk(self.tree, (), conditional=False))

    @cached_property
    def _bindings(self) -> Counter[str]:
        """How often each name is bound, wherever that is."""
        imported = Counter({name: len(origins) for name, origins in self._origins.items()})
        functions = (node.name for node in ast.walk(self.tree) if isinstance(node, Function))
        return imported + self._stored + Counter(functions)

    @cached_property
    def _stored(self) -> Counter[str]:
        """How often each name is assigned, or bound by a loop and the like."""
        names = (node for node in ast.walk(self.tree) if isinstance(node, ast.Name))
        return Counter(name.id for name in names if isinstance(name.ctx, ast.Store))

    @cached_property
    def _origins(self) -> dict[str, set[str]]:
        """All imports of each name; those that begin with a dot are of the plugin."""
        origins: dict[str, set[str]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                module = ""
                if isinstance(node, ast.ImportFrom):
                    module = f"{'.' * node.level}{node.module}"
                for alias in node.names:
                    name = alias.asname or alias.name.partition(".")[0]
                    origin = alias.name if module or alias.asname else name
                    origins.setdefault(name, set()).add(f"{module}:{origin}")
        return origins

    def is_unsure(self, name: str) -> bool:
        """Whether a name may be several things."""
        return self._bindings[name] > 1

    def named(self, node: ast.AST) -> str | None:
        """The dotted name that an expression is, such as `module.Class`; None for others."""
        match node:
            case ast.Attribute(value=value, attr=name):
                owner = self.named(value)
                return None if owner is None else f"{owner}.{name}"
            case ast.Name(id=name):
                alias = self.aliases.get(name)
                return self.imports.dotted.get(name) if alias is None else alias[0]
            case ast.Call(func=func, args=[ast.Constant(value=str(name))]) if _last_name(func) == (
                "import_module"
            ):
                return name
            case ast.Call(func=ast.Name(id="getattr"), args=[value, ast.Constant(value=str(name))]):
                return self.named(ast.Attribute(value=value, attr=name))
            case ast.Subscript(
                value=ast.Attribute(value=ast.Name(id="sys"), attr="modules"),
                slice=ast.Constant(value=str(name)),
            ):
                return name
        return None

    def assigned(self) -> Iterator[Assigned]:
        """What the module assigns to parts of the tree, on import or in a function."""
        for node, scopes, conditional in self._statements:
            for one in self._of_statement(node):
                yield replace(one, scopes=scopes, is_conditional=conditional)

    def left_out(self) -> Iterator[str]:
        """What the module does beside that: to other packages, and by calls, for people."""
        patching = {(), *(one.scopes for one in self.assigned())}
        for node, scopes, _ in self._statements:
            targets = node.targets if isinstance(node, ast.Assign) else []
            for target in targets if scopes in patching else ():
                dotted = self.named(target) if isinstance(target, ast.Attribute) else None
                if dotted is not None and not self.is_of_tree(dotted):
                    yield f"line {target.lineno}: {dotted} is of another package, and left out"
            match node:
                case ast.Expr(value=ast.Call(func=ast.Attribute() as func)) if scopes in patching:
                    dotted = self._owner(func)
                    if dotted is not None:
                        yield f"line {node.lineno}: the call of {dotted} is left out"

    def _of_statement(self, node: ast.AST) -> Iterator[Assigned]:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from self._of_target(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield from self._of_target(target, value)
            case ast.AugAssign(target=target):
                yield from self._others([target], "is changed in its place")
            case ast.Delete(targets=targets):
                yield from self._others(targets, "is deleted")
            case ast.For(target=target, iter=values):
                inside = [n for n in ast.walk(values) if self._owner(n) is not None]
                if inside:
                    yield from self._in_loop(node, set(_names_in(target)))
            case ast.Expr(value=ast.Call() as call):
                yield from self._of_call(call)

    def _of_target(self, target: ast.expr, value: ast.expr) -> Iterator[Assigned]:
        if isinstance(target, ast.Name):
            return  # a name of the module itself
        owner = self._owner(target.value) if isinstance(target, ast.Attribute) else None
        if owner is None or not isinstance(target, ast.Attribute):
            yield from self._others([target], "is not assigned by itself")
        else:
            yield self._one(owner, target.attr, value, target)

    def _of_call(self, call: ast.Call) -> Iterator[Assigned]:
        name = _last_name(call.func)
        match call.args:
            case [owner, ast.Constant(value=str(attr)), value] if name == "setattr":
                if (dotted := self._owner(owner)) is not None:
                    yield self._one(dotted, attr, value, owner)
            case [owner, *_] if name in {"setattr", "delattr"}:
                yield from self._others([owner], f"gets a name that is computed ({name})")
        # As unittest.mock has it, and what it starts.
        for inner in (node for node in ast.walk(call) if isinstance(node, ast.Call)):
            match inner.args:
                case [ast.Constant(value=str(dotted)), *_] if _last_name(inner.func) == "patch":
                    if self.is_of_tree(dotted):
                        yield _refused_assignment(dotted, inner, "is replaced by patch(...)")
                case [owner, *_] if ast.unparse(inner.func).endswith("patch.object"):
                    yield from self._others([owner], "is replaced by patch.object(...)")

    def _in_loop(self, loop: ast.For, names: set[str]) -> Iterator[Assigned]:
        for node in ast.walk(loop):
            target = node.targets[0] if isinstance(node, ast.Assign) else None
            match node:
                case ast.Call(args=[owner, *_]) if _last_name(node.func) == "setattr":
                    target = owner
            if target is not None and not names.isdisjoint(_names_in(target)):
                what = f"is assigned in a loop ({ast.unparse(target)})"
                yield _refused_assignment(ast.unparse(loop.iter), loop, what)

    def _one(self, owner: str, name: str, value: ast.expr, target: ast.expr) -> Assigned:
        root = next(iter(_names_in(target)), "")
        unsure = root in self.aliases and self.is_unsure(root)
        why = f"{root} is several things in this module" if unsure else None
        return Assigned(owner, name, value, target.lineno, refused=why)

    def _others(self, targets: Sequence[ast.expr], what: str) -> Iterator[Assigned]:
        """Parts of the tree that a statement changes in a way that vpatch does not read."""
        for target in targets:
            for node in ast.walk(target):
                dotted = self._owner(node)
                is_changed = isinstance(node, (ast.Attribute, ast.Subscript)) or node is target
                if dotted is not None and is_changed and "." in dotted:
                    yield _refused_assignment(dotted, node, what)
                    break

    def _owner(self, node: ast.AST) -> str | None:
        dotted = self.named(node)
        return dotted if dotted is not None and self.is_of_tree(dotted) else None

    def function(
        self, name: str, scopes: Scopes, most: int = _MOST
    ) -> tuple[PluginModule, Function, Scopes] | None:
        """The function that a name is in some functions, with its module; None for others.

        Raises:
            UsageError: there are several.
        """
        for depth in range(len(scopes), -1, -1):
            scope: ast.AST = scopes[depth - 1] if depth else self.tree
            functions = [
                node
                for node in _own_statements(scope)
                if isinstance(node, Function) and node.name == name
            ]
            if len(functions) > 1:
                raise self.refused(functions[1].lineno, f"{name} is defined several times")
            if functions:
                return self, functions[0], scopes[:depth]
        for module, inner in self._imports_from_plugin(name) if most else ():
            other = module.function(inner, (), most - 1)
            if other is not None:
                return other
        return None

    def _imports_from_plugin(self, name: str) -> Iterator[tuple[PluginModule, str]]:
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.ImportFrom):
                continue
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    for file in self._files_of(node):
                        yield PluginModule(file, self.roots), alias.name

    def _files_of(self, node: ast.ImportFrom) -> list[Path]:
        """The files of the plugin that an import may name."""
        parts = node.module.split(".") if node.module else []
        if node.level:
            bases = [self.path.absolute().parents[node.level - 1]]
        else:
            # The folder of the plugin's package, or that of the module.
            above = self.path.absolute().parents
            bases = [one.parent for one in above if parts and one.name == parts[0]] + [above[0]]
        stems = [base.joinpath(*parts) for base in bases]
        files = [
            file
            for stem in stems
            for file in (stem.with_name(f"{stem.name}.py"), stem / "__init__.py")
        ]
        return [file for file in files if file.is_file()][:1]

    def own(self, scopes: Scopes) -> set[str]:
        """The names that only this module gives a meaning, as code in some functions sees it."""
        own = {
            name
            for name, origins in self._origins.items()
            if len(origins) > 1 or any(origin.startswith(".") for origin in origins)
        }
        bound = bound_in(self.tree)
        for scope in scopes:
            bound |= bound_in(scope) | {
                arg.arg for arg in ast.walk(scope.args) if isinstance(arg, ast.arg)
            }
        return own | {n for n in bound if n not in self._origins or n in self._stored}

    def value_of(self, name: str) -> ast.expr | None:
        """The value of a constant of the module."""
        values = [
            node.value
            for node in self.tree.body
            if isinstance(node, (ast.Assign, ast.AnnAssign))
            and name in _names_in(node.targets[0] if isinstance(node, ast.Assign) else node.target)
        ]
        return values[0] if len(values) == 1 and not self.is_unsure(name) else None


def _names_in(node: ast.AST) -> list[str]:
    """The names in an expression, the outermost first."""
    return [inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)]


def _refused_assignment(dotted: str, node: ast.AST, what: str) -> Assigned:
    owner, _, name = dotted.rpartition(".")
    line: int = node.lineno  # type: ignore[attr-defined]
    return Assigned(owner or dotted, name, None, line, refused=what)


def _last_name(func: ast.expr) -> str:
    """The last name of what is called."""
    return func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")


def _walk(
    node: ast.AST, scopes: Scopes, *, conditional: bool
) -> Iterator[tuple[ast.AST, Scopes, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield child, scopes, conditional
        inner = (*scopes, child) if isinstance(child, Function) else scopes
        if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case)):
            on = conditional or isinstance(child, _TRIES)
            yield from _walk(child, inner, conditional=on)


def _own_statements(scope: ast.AST) -> Iterator[ast.AST]:
    """The statements of a module or a function, without those of definitions in it."""
    for child in ast.iter_child_nodes(scope):
        if isinstance(child, ast.stmt):
            yield child
        if isinstance(child, (ast.stmt, ast.ExceptHandler)) and not isinstance(child, Definition):
            yield from _own_statements(child)
