"""Walk through a file of the target, and collect what it takes from vLLM."""

from __future__ import annotations

import ast
import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from vpatch.commands.compat.code.bind import function_of
from vpatch.commands.compat.code.expressions import dotted
from vpatch.commands.compat.code.signature import Call
from vpatch.commands.compat.surface.guards import caught, guard_of, opposite, suppressed
from vpatch.commands.compat.surface.items import CALLED, Guard, Item, ItemKind, Ref, Spot, Surface
from vpatch.commands.compat.surface.names import (
    Scope,
    absolute_import,
    function_scope,
    module_scope,
)
from vpatch.commands.compat.surface.texts import environment_name, operator_name, string_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.commands.compat.code.outline import Function

_VLLM = re.compile(r"vllm(?:\.|\Z)")
_PATCHERS = frozenset(["patch", "monkeypatch"])
_QUIET = frozenset(["init_logger", "getLogger", "init_logger_once"])


def is_of_vllm(name: str) -> bool:
    return _VLLM.match(name) is not None


class Walker(ast.NodeVisitor):
    """Collects the items of one file into `surface`."""

    def __init__(
        self, surface: Surface, path: str, module: str, *, is_package: bool, tree: ast.Module
    ) -> None:
        self._surface = surface
        self._path = path
        self._module = module
        self._is_package = is_package
        self._scope: Scope = module_scope(tree, module, is_package=is_package)
        self._guards: tuple[Guard, ...] = ()
        self._when: Literal["import", "call"] = "import"
        self._class = ""

    # What is imported.

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if is_of_vllm(alias.name):
                self._add("import", alias.name, node, Ref((alias.name,)))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        source = absolute_import(
            self._module, node.module, node.level, is_package=self._is_package
        )
        if not is_of_vllm(source):
            return
        for alias in node.names:
            name = source if alias.name == "*" else f"{source}.{alias.name}"
            self._add("import", name, alias, Ref((name,)))

    # Where code runs under a condition.

    def visit_If(self, node: ast.If) -> None:
        self._branches(node.test, node.body, node.orelse)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._branches(node.test, [node.body], [node.orelse])

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        guards: list[Guard] = []
        for value in node.values:
            with self._under(*guards):
                self.visit(value)
            if isinstance(node.op, ast.And):
                guard = guard_of(value, self._scope.meaning)
                guards += [] if guard is None else [guard]

    def visit_Try(self, node: ast.Try) -> None:
        names = caught(node.handlers)
        with self._under(*([Guard("try", names=names)] if names else [])):
            self._visit_all(node.body)
        self._visit_all(node.orelse)
        refs = tuple(self._imports_in(node.body))
        with self._under(Guard("handler", refs=refs, names=names)):
            self._visit_all(node.handlers)
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try  # noqa: N815 - ast calls it by this name

    def visit_With(self, node: ast.With) -> None:
        self._visit_all(node.items)
        names = suppressed(node)
        with self._under(*([Guard("try", names=names)] if names else [])):
            self._visit_all(node.body)

    # What is defined.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        own = f"{self._class or self._module}.{node.name}"
        is_local = self._when == "call"
        refs = [self._scope.meaning(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases]
        bases = tuple(ref for ref in refs if ref is not None and not ref.steps)
        self._surface.parents.update(root for ref in bases for root in ref.roots)
        for ref, base in zip(refs, node.bases, strict=True):
            if ref is not None and not ref.steps and is_of_vllm(ref.roots[0]):
                self._add("subclass", ref.text, base, ref, bases=bases, own_name=own)
        if bases:
            self._add("abstract", own, node, bases[0], bases=bases, own_name="" if is_local else own)
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        outer, self._class = self._class, own
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and bases:
                name, function = statement.name, function_of(statement)
                self._add("override", f"{own}.{name}", statement, bases[0], bases=bases, own=function, own_name=name)
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                self._method(statement, own if bases and not is_local else "")
            else:
                self.visit(statement)
        self._class = outer

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._method(node, "")

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._method(node, "")

    def visit_Lambda(self, node: ast.Lambda) -> None:
        with self._inside(node, "", None):
            self.visit(node.body)

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, own: str) -> None:
        self._visit_all([*node.decorator_list, *node.args.defaults])
        self._visit_all(one for one in node.args.kw_defaults if one is not None)
        arguments = [*node.args.posonlyargs, *node.args.args]
        names = {(dotted(one) or "").rpartition(".")[2] for one in node.decorator_list}
        me = None
        if own and arguments and "staticmethod" not in names:
            steps = () if "classmethod" in names or node.name == "__new__" else (CALLED,)
            me = (arguments[0].arg, Ref((own,), steps))
        with self._inside(node, own, me):
            self._visit_all(node.body)

    # What is used.

    def visit_Attribute(self, node: ast.Attribute) -> None:
        operator = operator_name(node)
        if operator is not None:
            self._add("operator", operator, node, Ref((f"torch.ops.{operator}",)), is_soft=True)
            return
        ref = self._scope.meaning(node)
        if ref is not None and not isinstance(node.ctx, ast.Del):
            self._use(ref, node)
        self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        for target in node.targets:
            self._assign(target, node.value)
        self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        # An annotation is not run in most files, and asks for no more than an import did.
        if node.value is not None:
            self.visit(node.value)
        self.visit(node.target)

    def visit_Call(self, node: ast.Call) -> None:
        name = dotted(node.func) or ""
        last = name.rpartition(".")[2]
        if not self._replaces(node, name, last):
            ref = self._scope.meaning(node.func)
            if ref is not None:
                self._called(ref, node)
        if last in _QUIET:
            return
        for text in environment_name(node):
            self._add("environment", text, node, Ref((f"vllm.envs.{text}",)), is_soft=True)
        if last.endswith(("register_custom_op", "custom_op")):
            self._surface.operators.update(_texts(node))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        for text in environment_name(node):
            self._add("environment", text, node, Ref((f"vllm.envs.{text}",)), is_soft=True)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        path = string_path(node.value)
        if path is not None:
            self._add("string", path, node, Ref((path,)), is_soft=True)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def _use(self, ref: Ref, node: ast.Attribute) -> None:
        """Note an attribute that is read or set. Patches are noted where they are assigned."""
        is_set = isinstance(node.ctx, ast.Store)
        if is_set:
            self._surface.stores.add(node.attr)
        if not ref.steps:
            if is_of_vllm(ref.roots[0]) and not is_set:
                is_environment = ref.roots[0].startswith("vllm.envs.")
                self._add("environment" if is_environment else "attribute", ref.text, node, ref)
        elif ref.steps[-1] != CALLED and not is_set:
            self._add("field", ref.text, node, ref)
        elif is_set and is_of_vllm(ref.roots[0]):
            self._add("field", ref.text, node, ref, mode="set")

    def _called(self, ref: Ref, node: ast.Call) -> None:
        if not ref.steps and not is_of_vllm(ref.roots[0]):
            return
        keywords = tuple(sorted(one.arg for one in node.keywords if one.arg))
        stars = any(isinstance(one, ast.Starred) for one in node.args)
        positions = sum(not isinstance(one, ast.Starred) for one in node.args)
        more = any(one.arg is None for one in node.keywords)
        self._add("call", ref.text, node, ref, call=Call(positions, keywords, stars, more))

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        match target:
            case ast.Attribute(value=owner, attr=name):
                ref = self._scope.meaning(owner)
                if ref is not None and not ref.steps and is_of_vllm(ref.roots[0]):
                    self._patch(ref.attribute(name), target, value)
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name))):
                if dotted(owner) == "sys.modules" and is_of_vllm(name):
                    self._patch(Ref((name,)), target, None)
            case _:
                pass

    def _replaces(self, node: ast.Call, name: str, last: str) -> bool:
        """Note a call that replaces something: `setattr`, `patch("vllm.x")`, `patch.object`."""
        match node.args:
            case [owner, ast.Constant(value=str(attribute)), *rest] if last in {"setattr", "object"}:
                ref = self._scope.meaning(owner)
                self._surface.stores.add(attribute)
                if ref is not None and not ref.steps and is_of_vllm(ref.roots[0]):
                    self._patch(ref.attribute(attribute), node, rest[0] if rest else None)
                    return True
            case [ast.Constant(value=str(path)), *_] if last in _PATCHERS and is_of_vllm(path):
                self._patch(Ref((path,)), node, None)
                return True
            case [owner, ast.Constant(value=str(attribute))] if name == "getattr":
                ref = self._scope.meaning(owner)
                if ref is not None:
                    self._use(ref.attribute(attribute), ast.copy_location(ast.Attribute(owner, attribute, ast.Load()), node))
            case _:
                pass
        return False

    def _patch(self, ref: Ref, node: ast.expr, value: ast.expr | None) -> None:
        if isinstance(value, ast.Call) and dotted(value.func) in {"staticmethod", "classmethod"}:
            value = value.args[0] if value.args else None
        own = self._scope.meaning(value) if value is not None else None
        name = own.roots[0] if own is not None and not own.steps else ""
        self._add("patch", ref.text, node, ref, own_name=name)

    # The rest helps those above.

    def _add(self, kind: ItemKind, name: str, node: ast.AST, ref: Ref, **more: object) -> None:
        spot = Spot(self._path, getattr(node, "lineno", 1))
        item = Item(kind, name, spot, ref, self._guards, self._when)
        self._surface.add(replace(item, **more))  # type: ignore[arg-type] # checked by the callers

    def _branches(
        self, test: ast.expr, body: Iterable[ast.AST], orelse: Iterable[ast.AST]
    ) -> None:
        self.visit(test)
        guard = guard_of(test, self._scope.meaning)
        with self._under(*([] if guard is None else [guard])):
            self._visit_all(body)
        with self._under(*([] if guard is None else [opposite(guard)])):
            self._visit_all(orelse)

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

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


def _texts(node: ast.Call) -> Iterator[str]:
    values = [*node.args, *(one.value for one in node.keywords)]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value.rpartition("::")[2]
