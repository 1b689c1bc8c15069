"""Which operators a Python module names when it is imported."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, NamedTuple

from vpatch.util.syntax import children_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_OPS = "torch.ops"
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# Functions that fail for an operator that is not there.
_ASKING = frozenset(["register_fake", "impl_abstract", "register_autograd", "register_vmap"])
# What a name that is not there raises, and what catches that.
_CAUGHT = frozenset(["AttributeError", "RuntimeError", "Exception", "BaseException", ""])
_SCHEMA = re.compile(r"(\w+)::(\w+)(?:\.(\w+))?")
_SHOWN = 60
# `ops.namespace.operator.overload`.
_PARTS = 2


class NamedOperator(NamedTuple):
    """An operator that a module names on import: `_C.rms_norm`, with an overload `_C.quant.out`.

    `any_overload` says that it names no overload. `asked` are operators that it asks for before,
    and `not_asked` those that must be missing. `condition` is the first other condition, or "".
    """

    name: str
    line: int
    any_overload: bool
    asked: tuple[str, ...]
    not_asked: tuple[str, ...]
    condition: str


class _Conditions(NamedTuple):
    asked: tuple[str, ...] = ()
    not_asked: tuple[str, ...] = ()
    condition: str = ""
    is_caught: bool = False

    def with_text(self, text: str) -> _Conditions:
        return self._replace(condition=self.condition or text[:_SHOWN])


def operators_named(tree: ast.Module) -> list[NamedOperator]:
    """Return what runs when a module is imported. Calls of its own functions are not followed."""
    reader = _ImportReader()
    reader.block(tree.body, _Conditions())
    return reader.named


class _ImportReader:
    def __init__(self) -> None:
        self.named: list[NamedOperator] = []
        # What names of the module mean: dotted names that begin with torch.
        self._aliases = {"torch": "torch"}
        # What is assigned to names, and where; nothing that is sure for what is assigned twice.
        self._values: dict[str, tuple[int, ast.expr] | None] = {}

    def block(self, body: Iterable[ast.stmt], under: _Conditions) -> None:
        for node in body:
            self._note_names(node)
            self._visit(node, under)
            if isinstance(node, ast.If) and not node.orelse and _leaves(node.body):
                under = self._negated(node.test, under)

    def _visit(  # noqa: C901, PLR0912 - one case for each form
        self, node: ast.AST, under: _Conditions
    ) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
                self._each([*node.decorator_list, *defaults], under)
            case ast.Lambda():
                pass
            case ast.ClassDef():
                self._each([*node.decorator_list, *node.bases, *node.keywords], under)
                self.block(node.body, under)
            case ast.If():
                self._visit(node.test, under)
                self.block(node.body, self._under(node.test, under))
                self.block(node.orelse, self._negated(node.test, under))
            case ast.IfExp():
                self._visit(node.test, under)
                self._visit(node.body, self._under(node.test, under))
                self._visit(node.orelse, self._negated(node.test, under))
            case ast.BoolOp():
                for value in node.values:
                    self._visit(value, under)
                    is_and = isinstance(node.op, ast.And)
                    under = (self._under if is_and else self._negated)(value, under)
            case ast.Try() | ast.TryStar():
                names = {one for handler in node.handlers for one in _names(handler)}
                caught = under._replace(is_caught=under.is_caught or bool(names & _CAUGHT))
                self.block(node.body, caught)
                self.block(node.orelse, under)
                for handler in node.handlers:
                    self.block(handler.body, under.with_text("where an error was caught"))
                self.block(node.finalbody, under)
            case ast.With():
                names = {_last(arg) for item in node.items for arg in _suppressed(item)}
                for item in node.items:
                    self._visit(item.context_expr, under)
                self.block(
                    node.body, under._replace(is_caught=under.is_caught or bool(names & _CAUGHT))
                )
            case ast.For() | ast.While() | ast.AsyncFor() | ast.Match():
                self._each(children_of(node), under.with_text("in a loop or a match"))
            case ast.Attribute() if self._add_dotted(node, under):
                pass
            case ast.Call():
                self._add_call(node, under)
                self._each(children_of(node), under)
            case _:
                self._each(children_of(node), under)

    def _each(self, nodes: Iterable[ast.AST], under: _Conditions) -> None:
        for node in nodes:
            self._visit(node, under)

    def _add_dotted(self, node: ast.Attribute, under: _Conditions) -> bool:
        name = self._dotted(node)
        if name is None or not name.startswith(f"{_OPS}."):
            return False
        namespace, *parts = name.removeprefix(f"{_OPS}.").split(".")
        if parts:
            overload = parts[1] if len(parts) >= _PARTS else None
            self._add(namespace, parts[0], overload, node.lineno, under)
        return True

    def _add_call(self, node: ast.Call, under: _Conditions) -> None:
        last = _last(node.func)
        match node.args:
            case [ast.Constant(value=str(text)), *_] if last in _ASKING:
                schema = _SCHEMA.fullmatch(text)
                if schema:
                    self._add(schema[1], schema[2], schema[3] or "default", node.lineno, under)
            case [owner, ast.Constant(value=str(text))] if last == "getattr":
                name = self._dotted(owner) or ""
                if name.startswith(f"{_OPS}."):
                    self._add(name.removeprefix(f"{_OPS}."), text, None, node.lineno, under)
            case _:
                pass

    def _add(
        self, namespace: str, name: str, overload: str | None, line: int, under: _Conditions
    ) -> None:
        if under.is_caught or "." in namespace:
            return
        text = f"{namespace}.{name}" + (f".{overload}" if overload not in {None, "default"} else "")
        self.named.append(NamedOperator(text, line, overload is None, *under[:3]))

    def _under(self, test: ast.expr, under: _Conditions) -> _Conditions:
        """Return the conditions of code that runs where a test holds."""
        test = self._meant(test)
        match test:
            case ast.BoolOp(op=ast.And(), values=values):
                for value in values:
                    under = self._under(value, under)
                return under
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._negated(operand, under)
        asked = self._asked(test)
        if asked == "torch.ops":
            return under
        if asked:
            return under._replace(asked=(*under.asked, asked))
        if _last(test) == "TYPE_CHECKING":
            return under._replace(is_caught=True)
        return under.with_text(ast.unparse(test))

    def _negated(self, test: ast.expr, under: _Conditions) -> _Conditions:
        test = self._meant(test)
        match test:
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return self._under(operand, under)
            case ast.BoolOp(op=ast.Or(), values=values):
                for value in values:
                    under = self._negated(value, under)
                return under
        asked = self._asked(test)
        if asked and asked != "torch.ops":
            return under._replace(not_asked=(*under.not_asked, asked))
        if _last(test) == "TYPE_CHECKING":
            return under
        return under.with_text(f"not {ast.unparse(test)}")

    def _meant(self, test: ast.expr) -> ast.expr:
        """Return what was assigned to a name before."""
        known = self._values.get(test.id) if isinstance(test, ast.Name) else None
        return self._meant(known[1]) if known is not None and known[0] < test.lineno else test

    def _asked(self, test: ast.expr) -> str | None:
        """Return the operator for which a test asks, `torch.ops` for a namespace, or None."""
        match test:
            case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
                text = self._dotted(owner) or ""
                if text == _OPS:
                    return _OPS
                if text.startswith(f"{_OPS}."):
                    return f"{text.removeprefix(f'{_OPS}.')}.{name}"
            case ast.Compare(left=left, ops=[ast.IsNot()], comparators=[ast.Constant(value=None)]):
                return self._asked(self._meant(left))
            case ast.Call(func=ast.Name(id="getattr"), args=[owner, name, _]):
                return self._asked(ast.Call(ast.Name("hasattr"), [owner, name], []))
            case _:
                pass
        return None

    def _note_names(self, node: ast.stmt) -> None:
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.name.partition(".")[0] == "torch":
                        is_first = alias.asname is None
                        self._aliases[alias.asname or "torch"] = "torch" if is_first else alias.name
            case ast.ImportFrom(module=str(module), names=names, level=0) if (
                module.partition(".")[0] == "torch"
            ):
                for alias in names:
                    self._aliases[alias.asname or alias.name] = f"{module}.{alias.name}"
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                self._values[name] = None if name in self._values else (node.lineno, value)
                text = self._dotted(value) or ""
                if text == _OPS or re.fullmatch(rf"{re.escape(_OPS)}\.\w+", text):
                    self._aliases[name] = text
            case _:
                pass

    def _dotted(self, node: ast.AST) -> str | None:
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        first = self._aliases.get(node.id) if isinstance(node, ast.Name) else None
        return None if first is None else ".".join([first, *reversed(parts)])


def _last(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _names(handler: ast.ExceptHandler) -> list[str]:
    """Return what a handler catches, if it does not raise again."""
    if any(isinstance(one, ast.Raise) for one in handler.body):
        return []
    kinds: Sequence[ast.expr | None] = (
        handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    )
    return ["" if one is None else _last(one) for one in kinds]


def _suppressed(item: ast.withitem) -> list[ast.expr]:
    call = item.context_expr
    is_one = isinstance(call, ast.Call) and _last(call.func) == "suppress"
    return call.args if isinstance(call, ast.Call) and is_one else []


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return isinstance(body[-1], ast.Raise | ast.Return)
