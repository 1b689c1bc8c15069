"""Walk through a file of the target, and collect what it takes from vLLM."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.bind import function_of
from vpatch.commands.compat.code.expressions import dotted, last_name
from vpatch.commands.compat.code.signature import Call
from vpatch.commands.compat.surface.conditions import Collector, is_of_vllm
from vpatch.commands.compat.surface.initialisers import INIT, initialiser_of
from vpatch.commands.compat.surface.items import CALLED, Ref
from vpatch.commands.compat.surface.registrations import (
    added_flags,
    flags_in_list,
    flags_in_text,
    hooked,
    registered_model,
)
from vpatch.commands.compat.surface.replacements import SELF
from vpatch.commands.compat.surface.texts import environment_name, operator_name, string_path

if TYPE_CHECKING:
    from collections.abc import Iterator


_PATCHERS = frozenset(["patch", "monkeypatch"])
_QUIET = frozenset(["init_logger", "getLogger", "init_logger_once"])


class Walker(Collector):
    """Collects the items of one file."""

    # What is defined.

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        own = f"{self._class or self._module}.{node.name}"
        is_local = self._when == "call"
        refs = [
            self._scope.meaning(b.value if isinstance(b, ast.Subscript) else b) for b in node.bases
        ]
        bases = tuple(ref for ref in refs if ref is not None and not ref.steps)
        self._surface.parents.update(root for ref in bases for root in ref.roots)
        for ref, base in zip(refs, node.bases, strict=True):
            if ref is not None and not ref.steps and is_of_vllm(ref.roots[0]):
                self._add("subclass", ref.text, base, ref, bases=bases, own_name=own)
        if bases:
            self._add(
                "abstract", own, node, bases[0], bases=bases, own_name="" if is_local else own
            )
        self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
        outer, self._class = self._class, own
        for statement in node.body:
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef) and bases:
                name, function = statement.name, function_of(statement)
                self._add(
                    "override",
                    f"{own}.{name}",
                    statement,
                    bases[0],
                    bases=bases,
                    own=function,
                    own_name=name,
                )
            if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef):
                if statement.name == INIT and bases and not is_local:
                    self._initialiser(own, statement, Ref((own,)), own)
                self._method(statement, own if bases and not is_local else "")
            else:
                self.visit(statement)
        self._class = outer

    def _initialiser(
        self, name: str, node: ast.FunctionDef | ast.AsyncFunctionDef, ref: Ref, own: str
    ) -> None:
        """Note an `__init__` that does not call the one of vLLM in whose place it is."""
        initialiser = initialiser_of(node, self._scope.meaning)
        if initialiser is not None:
            self._add("initialiser", name, node, ref, own_name=own, initialiser=initialiser)

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._method(node, "")

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        with self._inside(node, "", None):
            self.visit(node.body)

    def _method(self, node: ast.FunctionDef | ast.AsyncFunctionDef, own: str) -> None:
        self._visit_all([*node.decorator_list, *node.args.defaults])
        self._visit_all(one for one in node.args.kw_defaults if one is not None)
        arguments = [*node.args.posonlyargs, *node.args.args]
        names = {last_name(one) for one in node.decorator_list}
        me = None
        if own and arguments and "staticmethod" not in names:
            steps = () if "classmethod" in names or node.name == "__new__" else (CALLED,)
            me = (arguments[0].arg, Ref((own,), steps))
        elif self._functions.get(node.name) is node and node.name in self._selves:
            me = (SELF, self._selves[node.name])
        with self._inside(node, own, me):
            self._visit_all(node.body)

    # What is used.

    def visit_Attribute(self, node: ast.Attribute) -> None:
        operator = operator_name(node)
        if operator is not None:
            self._add("operator", operator, node, Ref((f"torch.ops.{operator}",)), is_soft=True)
            return
        if isinstance(node.ctx, ast.Store) and dotted(node.value) != "self":
            self._surface.outer_stores.add(node.attr)
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
        model = registered_model(node)
        if model is not None:
            name = model.architecture
            self._add("model", name, node, Ref((f"vllm.{name}",)), own_name=model.path)
        self._environment(node)
        for flag in added_flags(node, self._scope.meaning):
            self._add("argument", flag, node, Ref((flag,)), mode="set")
        if last.endswith(("register_custom_op", "custom_op")) or last == "define":
            self._surface.operators.update(_texts(node))
        if last == "Library":
            self._surface.libraries.update(_texts(node))
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        self._environment(node)
        self.generic_visit(node)

    def _environment(self, node: ast.Call | ast.Subscript) -> None:
        for text in environment_name(node):
            self._add("environment", text, node, Ref((f"vllm.envs.{text}",)), is_soft=True)

    def visit_Constant(self, node: ast.Constant) -> None:
        path = string_path(node.value)
        if path is not None:
            self._add("string", path, node, Ref((path,)), is_soft=True)
        for flag in flags_in_text(node.value):
            self._add("argument", flag, node, Ref((flag,)), is_soft=True)

    def visit_List(self, node: ast.List) -> None:
        for flag in flags_in_list(node):
            self._add("argument", flag, node, Ref((flag,)), is_soft=True)
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def _use(self, ref: Ref, node: ast.Attribute) -> None:
        """Note an attribute that is read or set. Patches are noted where they are assigned."""
        is_set = isinstance(node.ctx, ast.Store)
        if is_set:
            self._surface.stores.add(node.attr)
        if not ref.steps:
            # Whatever runs of a scope, it runs in the order of the lines, the first time.
            first = self._sets_at if is_set else self._reads_at
            first.setdefault((self._scope, ref.text), node.lineno)
            if is_of_vllm(ref.roots[0]) and not is_set:
                is_environment = ref.roots[0].startswith("vllm.envs.")
                self._add("environment" if is_environment else "attribute", ref.text, node, ref)
        elif ref.steps[-1] != CALLED and not is_set:
            self._add("field", ref.text, node, ref)
        elif is_set and is_of_vllm(ref.roots[0]):
            self._add("field", ref.text, node, ref, mode="set")

    def note_what_is_read_first(self) -> None:
        """Tell the surface of the names that are read before the same code sets them."""
        self._surface.read_first.update(
            text
            for (scope, text), line in self._reads_at.items()
            if line <= self._sets_at.get((scope, text), 0)
        )

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
        """Note a call that replaces something: `setattr`, `patch("vllm.x")`, hooks of wrapt."""
        hook = hooked(node)
        if hook is not None:
            module = Ref((hook[0],)) if isinstance(hook[0], str) else self._scope.meaning(hook[0])
            if module is None or module.steps or not is_of_vllm(module.roots[0]):
                return False
            self._patch(module.attribute(hook[1]) if hook[1] else module, node, None)
            return True
        match node.args:
            case [owner, ast.Constant(value=str(attribute)), *rest] if last in {
                "setattr",
                "object",
            }:
                ref = self._scope.meaning(owner)
                self._surface.stores.add(attribute)
                if dotted(owner) != "self":
                    self._surface.outer_stores.add(attribute)
                if ref is not None and not ref.steps and is_of_vllm(ref.roots[0]):
                    self._patch(ref.attribute(attribute), node, rest[0] if rest else None)
                    return True
            case [ast.Constant(value=str(path)), *_] if last in _PATCHERS and is_of_vllm(path):
                self._patch(Ref((path,)), node, None)
                return True
            case [owner, ast.Constant(value=str(attribute))] if name == "getattr":
                ref = self._scope.meaning(owner)
                if ref is not None:
                    self._use(
                        ref.attribute(attribute),
                        ast.copy_location(ast.Attribute(owner, attribute, ast.Load()), node),
                    )
            case _:
                pass
        return False

    def _patch(self, ref: Ref, node: ast.expr, value: ast.expr | None) -> None:
        if isinstance(value, ast.Call) and dotted(value.func) in {"staticmethod", "classmethod"}:
            value = value.args[0] if value.args else None
        own = self._scope.meaning(value) if value is not None else None
        name = own.roots[0] if own is not None and not own.steps else ""
        self._add("patch", ref.text, node, ref, own_name=name)
        owner, _, last = ref.roots[0].rpartition(".")
        function = self._functions.get(value.id) if isinstance(value, ast.Name) else None
        if last == INIT and function is not None and len(ref.roots) == 1:
            self._initialiser(owner, function, Ref((owner,)), "")


def _texts(node: ast.Call) -> Iterator[str]:
    values = [*node.args, *(one.value for one in node.keywords)]
    for value in values:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value.partition("(")[0].rpartition("::")[2].strip()
