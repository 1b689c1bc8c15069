"""The imports of a file of the target, and the conditions under which code runs."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from vpatch.commands.compat.surface.guards import (
    caught,
    guards_after,
    guards_of,
    shown_by,
    suppressed,
)
from vpatch.commands.compat.surface.items import Guard, Item, ItemKind, Ref, Spot, Surface
from vpatch.commands.compat.surface.names import (
    NameScope,
    absolute_import,
    function_scope,
    module_scope,
)
from vpatch.commands.compat.surface.replacements import selves_of
from vpatch.util.syntax import children_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_VLLM = re.compile(r"vllm(?:\.|\Z)")
# Compiled modules, such as `vllm._C` and `package._moe_C_stable`.
_KERNELS = re.compile(r"(?:\w+\.)+_\w*C(?:_\w+)?")


def is_of_vllm(name: str) -> bool:
    return _VLLM.match(name) is not None


class Collector(ast.NodeVisitor):
    """What a file imports, and under which conditions its code runs."""

    def __init__(
        self, surface: Surface, path: str, module: str, *, is_package: bool, tree: ast.Module
    ) -> None:
        self._surface = surface
        self._path = path
        self._module = module
        self._is_package = is_package
        self._scope: NameScope = module_scope(tree, module, is_package=is_package)
        self._guards: tuple[Guard, ...] = ()
        self._when: Literal["import", "call"] = "import"
        self._class = ""
        # The first lines of a scope where a name is read, and where it is set.
        self._reads_at: dict[tuple[NameScope, str], int] = {}
        self._sets_at: dict[tuple[NameScope, str], int] = {}
        # The functions of the module; of those that have one name, none is sure.
        self._functions: dict[str, ast.FunctionDef | None] = {}
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                self._functions[node.name] = None if node.name in self._functions else node
        self._selves = selves_of(tree, self._functions, self._scope.meaning)

    def generic_visit(self, node: ast.AST) -> None:
        for child in children_of(node):
            if not isinstance(child, ast.Name):
                self.visit(child)

    # What is imported.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            self._note_kernels(alias.name)
            if is_of_vllm(alias.name):
                self._add("import", alias.name, node, Ref((alias.name,)))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = absolute_import(self._module, node.module, node.level, is_package=self._is_package)
        for alias in node.names:
            self._note_kernels(f"{source}.{alias.name}")
        if not is_of_vllm(source):
            return
        for alias in node.names:
            name = source if alias.name == "*" else f"{source}.{alias.name}"
            self._add("import", name, alias, Ref((name,)))

    def _note_kernels(self, name: str) -> None:
        own = {self._module.partition(".")[0], "torch"}
        if _KERNELS.fullmatch(name) and name.partition(".")[0] not in own:
            self._surface.kernels.add(name)

    # Where code runs under a condition.

    def visit_If(self, node: ast.If) -> None:
        self._branches(node.test, node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._branches(node.test, [node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        guards, meaning = list[Guard](), self._scope.meaning
        for value in node.values:
            with self._under(*guards):
                self.visit(value)
            guards += guards_of(value, meaning, holds=isinstance(node.op, ast.And))

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        names = caught(node.handlers)
        with self._under(*([Guard("try", names=names)] if names else [])):
            self._visit_all(node.body)
        self._visit_all(node.orelse)
        refs = tuple(self._imports_in(node.body))
        with self._under(Guard("handler", refs=refs, names=names)):
            self._visit_all(node.handlers)
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_With(self, node: ast.With) -> None:
        self._visit_all(node.items)
        names = suppressed(node)
        with self._under(*([Guard("try", names=names)] if names else [])):
            self._visit_all(node.body)

    def _add(self, kind: ItemKind, name: str, node: ast.AST, ref: Ref, **more: object) -> None:
        spot = Spot(self._path, getattr(node, "lineno", 1))
        item = Item(kind, name, spot, ref, self._guards, self._when)
        self._surface.add(replace(item, **more))  # type: ignore[arg-type] # checked by the callers

    def _branches(self, test: ast.expr, body: Iterable[ast.AST], orelse: Iterable[ast.AST]) -> None:
        self.visit(test)
        meaning, body = self._scope.meaning, list(body)
        shown = shown_by(test, body, meaning)
        with self._under(*guards_of(test, meaning, holds=True)), self._scope.knowing(shown):
            self._visit_all(body)
        with self._under(*guards_of(test, meaning, holds=False)):
            self._visit_all(orelse)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        several, outer = list(nodes), self._guards
        for number, node in enumerate(several):
            self.visit(node)
            self._guards += tuple(guards_after(node, self._scope.meaning))
            rest = several[number + 1 :]
            test = node.test if isinstance(node, ast.Assert) else None
            shown = shown_by(test, rest, self._scope.meaning) if test else None
            if shown:
                with self._scope.knowing(shown):
                    self._visit_all(rest)
                break
        self._guards = outer

    def _imports_in(self, body: Iterable[ast.stmt]) -> Iterator[Ref]:
        for node in body:
            if isinstance(node, ast.Import):
                yield from (Ref((a.name,)) for a in node.names if is_of_vllm(a.name))
            elif isinstance(node, ast.ImportFrom):
                source = absolute_import(
                    self._module, node.module, node.level, is_package=self._is_package
                )
                if is_of_vllm(source):
                    yield from (Ref((f"{source}.{a.name}",)) for a in node.names if a.name != "*")

    @contextmanager
    def _under(self, *guards: Guard) -> Iterator[None]:
        outer = self._guards
        self._guards = (*outer, *guards)
        yield
        self._guards = outer

    @contextmanager
    def _inside(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda,
        own: str,
        me: tuple[str, Ref] | None,
    ) -> Iterator[None]:
        outer = self._scope, self._when, self._class
        self._scope = function_scope(
            self._scope, node, self._module, is_package=self._is_package, own_class=own, me=me
        )
        self._when = "call"
        yield
        self._scope, self._when, self._class = outer
