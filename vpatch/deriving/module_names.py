"""What the names in a module mean: its imports, and where a tree of vLLM defines a dotted name."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import Definition, Function, parsed

if TYPE_CHECKING:
    from collections.abc import Callable

# How many modules hand a name on before it is defined.
_MOST = 5


@dataclass
class ModuleImports:
    """The imports of a module, wherever they are.

    `dotted` says what a name is, and `statements` has an import that makes it known.
    """

    dotted: dict[str, str] = field(default_factory=dict)
    statements: dict[str, str] = field(default_factory=dict)

    def named(self, node: ast.AST) -> str | None:
        """The dotted name that an expression such as `module.Class` is; None for others."""
        if isinstance(node, ast.Attribute):
            owner = self.named(node.value)
            return None if owner is None else f"{owner}.{node.attr}"
        return self.dotted.get(node.id) if isinstance(node, ast.Name) else None


def imports_of(tree: ast.AST) -> ModuleImports:
    """Return what the imports of a module bind; relative ones are left out."""
    imports = ModuleImports()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                imports.dotted[alias.asname or root] = alias.name if alias.asname else root
                imports.statements[alias.asname or root] = f"import {ast.unparse(alias)}"
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                local = alias.asname or alias.name
                imports.dotted[local] = f"{node.module}.{alias.name}"
                imports.statements[local] = f"from {node.module} import {ast.unparse(alias)}"
    return imports


def defined(tree: ast.Module, name: str) -> ast.stmt | None:
    """Return what a module defines by a qualified name: a function, a class or an assignment."""
    body = tree.body
    statement: ast.stmt | None = None
    for part in name.split("."):
        statement = next((node for node in body if part in names_of(node)), None)
        body = statement.body if isinstance(statement, ast.ClassDef) else []
    return statement


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a definition or an assignment gives."""
    if isinstance(node, Definition):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else []
    targets = [node.target] if isinstance(node, ast.AnnAssign) else targets
    return [target.id for target in targets if isinstance(target, ast.Name)]


def place_of(dotted: str, read: Callable[[str], bytes | None]) -> tuple[str, str] | None:
    """Find the file that defines a dotted name, and the qualified name in it.

    Args:
        dotted: a module, a class or a function, as an import names it.
        read: returns a file of the tree, or None where there is none.

    Returns:
        The file, and the name in it: empty for the module itself. None if nobody defines it.
    """
    for _ in range(_MOST):
        place = _file_of(dotted, read)
        if place is None:
            return None
        path, name = place
        tree = parsed(read(path) or b"")
        first, dot, rest = name.partition(".")
        if not name or defined(tree, first) is not None:
            return path, name
        # The module has it from another one.
        origin = imports_in(tree, path).get(first)
        if origin is None:
            return None
        dotted = f"{origin}{dot}{rest}"
    return None


def _file_of(dotted: str, read: Callable[[str], bytes | None]) -> tuple[str, str] | None:
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        stem = "/".join(parts[:length])
        for path in (f"{stem}.py", f"{stem}/__init__.py"):
            if read(path) is not None:
                return path, ".".join(parts[length:])
    return None


def imports_in(tree: ast.Module, path: str) -> dict[str, str]:
    """Return what the imports of a file of a tree bind, relative ones too."""
    imports = dict(imports_of(tree).dotted)
    folders = path.split("/")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = folders[: len(folders) - node.level + 1]
            above = ".".join([*base, *([node.module] if node.module else [])])
            imports |= {alias.asname or alias.name: f"{above}.{alias.name}" for alias in node.names}
    return imports


def bound_in(tree: ast.Module | Function) -> set[str]:
    """Return the names that a module's or function's statements bind, in `if` and `try` too."""
    names: set[str] = set()
    nodes: list[ast.AST] = list(tree.body)
    while nodes:
        node = nodes.pop()
        if isinstance(node, Definition):
            names.add(node.name)
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names |= {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        nodes += ast.iter_child_nodes(node)
    return names
