"""Conditions in the target's code that depend on the release of vLLM."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import TYPE_CHECKING

from packaging.version import InvalidVersion, Version

from vpatch.commands.compat.code.expressions import dotted, is_type_checking, last_name, text_of
from vpatch.commands.compat.surface.items import CALLED, Guard
from vpatch.util.syntax import nodes_in

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vpatch.commands.compat.surface.items import Ref

    Meaning = Callable[[ast.expr], Ref | None]

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
# What such a function is called: `vllm_version_is("0.23.0")`.
_EQUAL = ("vllm_version_is", "is_vllm_version")
_AT_LEAST = ("vllm_version_at_least", "vllm_version_ge", "is_vllm_version_at_least")
_SHOWN = 60
IMPORT_ERRORS = frozenset(["ImportError", "Exception", "BaseException", ""])


def guards_of(test: ast.expr, meaning: Meaning, *, holds: bool) -> list[Guard]:
    """Return what code depends on that runs where a test holds, or where it does not."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return guards_of(operand, meaning, holds=not holds)
        case ast.BoolOp(op=operator, values=values) if isinstance(operator, ast.And) == holds:
            return [one for value in values for one in guards_of(value, meaning, holds=holds)]
        case _:
            guard = guard_of(test, meaning)
            return [] if guard is None else [guard if holds else opposite(guard)]


def guards_after(node: ast.AST, meaning: Meaning) -> list[Guard]:
    """Return what code depends on that comes after a branch which leaves: `if old: return`."""
    if not isinstance(node, ast.If):
        return []
    if _leaves(node.body):
        more = guards_after(node.orelse[0], meaning) if len(node.orelse) == 1 else []
        return guards_of(node.test, meaning, holds=False) + more
    return guards_of(node.test, meaning, holds=True) if _leaves(node.orelse) else []


def _leaves(body: Sequence[ast.stmt]) -> bool:
    return bool(body) and isinstance(body[-1], ast.Return | ast.Raise)


def guard_of(  # noqa: C901 - one case for each form
    test: ast.expr, meaning: Meaning
) -> Guard | None:
    """Return what the body of an `if` depends on; None if vpatch cannot judge that."""
    if is_type_checking(test):
        return Guard("typing")
    match test:
        case ast.Call(func=ast.Name(id="hasattr"), args=[owner, ast.Constant(value=str(name))]):
            ref = meaning(owner)
            if ref is not None:
                return Guard("has", text_of(test)[:_SHOWN], refs=(ref,), names=(name,))
        case ast.Call(func=ast.Attribute(attr=name), args=[]) if name.startswith("is_"):
            if "platform" in (dotted(test.func) or ""):
                return Guard("platform", text_of(test)[:_SHOWN])
        case ast.Call(func=func, args=[ast.Constant(value=str(text))]):
            name = last_name(func)
            comparison = "==" if name in _EQUAL else ">=" if name in _AT_LEAST else ""
            if comparison and _is_version(text):
                return Guard("version", comparison=comparison, version=text)
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            comparison = _COMPARISONS.get(type(operator), "")
            for one, other, sign in (
                (left, right, comparison),
                (right, left, _TURNED.get(comparison, comparison)),
            ):
                version = _version_in(other)
                if sign and version and _is_of_vllm(one):
                    return Guard("version", comparison=sign, version=version)
        case _:
            pass
    return None


def shown_by(test: ast.expr, body: Iterable[ast.AST], meaning: Meaning) -> dict[str, Ref]:
    """Return what `isinstance` says of expressions, by their text, in code that runs then.

    What that code sets itself is not known.
    """
    shown: dict[str, Ref] = {}
    match test:
        case ast.BoolOp(op=ast.And(), values=values):
            for value in values:
                shown |= shown_by(value, (), meaning)
        case ast.Call(
            func=ast.Name(id="isinstance"), args=[value, ast.Name() | ast.Attribute() as kind]
        ):
            text, ref = dotted(value), meaning(kind)
            if text is not None and ref is not None and not ref.steps:
                shown[text] = ref.then(CALLED)
        case _:
            pass
    if not shown:
        return shown
    stored = {
        text
        for node in nodes_in(body)
        if isinstance(getattr(node, "ctx", None), ast.Store | ast.Del)
        for text in [dotted(node)]
        if text is not None
    }
    return {
        text: ref
        for text, ref in shown.items()
        if not any(text == one or text.startswith(f"{one}.") for one in stored)
    }


def opposite(guard: Guard) -> Guard:
    return replace(guard, is_not=not guard.is_not)


def _is_version(text: str) -> bool:
    try:
        Version(text)
    except InvalidVersion:
        return False
    return True


def _version_in(node: ast.expr) -> str | None:
    """Return the version that `Version("0.23")` or a plain text names."""
    match node:
        case ast.Call(func=func, args=[ast.Constant(value=str(text))]) if (
            dotted(func) or ""
        ).rpartition(".")[2] in {"Version", "parse"} and _is_version(text):
            return text
        case _:
            return None


def _is_of_vllm(node: ast.expr) -> bool:
    """Whether an expression is the version of vLLM, such as `Version(vllm.__version__)`."""
    if isinstance(node, ast.Call) and len(node.args) == 1:
        node = node.args[0]
    name = dotted(node) or ""
    return name in {"vllm.__version__", "vllm.version.__version__", "vllm_version", "VLLM_VERSION"}


def caught(handlers: Iterable[ast.ExceptHandler]) -> tuple[str, ...]:
    """Return the exceptions that some handlers catch, without those that only raise again."""
    names: list[str] = []
    for handler in handlers:
        if len(handler.body) == 1 and isinstance(handler.body[0], ast.Raise):
            continue
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        names += [last_name(one) if one else "" for one in kinds]
    return tuple(dict.fromkeys(names))


def suppressed(node: ast.With | ast.AsyncWith) -> tuple[str, ...]:
    """Return the exceptions that `with suppress(...)` catches."""
    for one in node.items:
        call = one.context_expr
        if isinstance(call, ast.Call) and last_name(call.func) == "suppress":
            return tuple(last_name(arg) for arg in call.args)
    return ()
