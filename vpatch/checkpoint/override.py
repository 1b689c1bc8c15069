"""What vLLM makes of a config to find its draft model: hf_config_override, followed by its syntax.

Nothing of vLLM runs. Each statement and each expression that the releases from 0.20.0 to 0.33.0 use
is evaluated here, on the JSON of a config.
"""

from __future__ import annotations

import ast
import copy
import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pydantic import JsonValue

_CONFIG = "hf_config"
_MISSING = object()
_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class UnreadableOverrideError(Exception):
    """The function has a form that is not known here, or asks for what config.json has not."""


class RefusedConfigError(Exception):
    """vLLM refuses the config, or ends with an error on it."""


class _Returned(Exception):
    """`return` was reached."""

    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


def draft_architecture(function: ast.FunctionDef, config: dict[str, JsonValue]) -> str | None:
    """Return the architecture that vLLM gives the draft of a config; None if it names none.

    Raises:
        RefusedConfigError: vLLM refuses this config.
        UnreadableOverrideError: the function has a form that is not known here.
    """
    names: dict[str, Any] = {argument.arg: None for argument in function.args.args}
    names[_CONFIG] = copy.deepcopy(config)
    names[_CONFIG].setdefault("architectures", [])
    try:
        _Evaluation(names).run(function.body)
    except _Returned as returned:
        result = returned.value
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise RefusedConfigError(str(error)) from error
    else:
        result = None
    architectures = result.get("architectures") if isinstance(result, dict) else None
    named = architectures[0] if isinstance(architectures, list) and architectures else None
    return named if isinstance(named, str) else None


class _Evaluation:
    def __init__(self, names: dict[str, Any]) -> None:
        self._names = names

    def run(self, statements: Iterable[ast.stmt]) -> None:
        for statement in statements:
            self._run(statement)

    def _run(self, statement: ast.stmt) -> None:  # noqa: C901 - one case for each form
        match statement:
            case ast.If(test=test, body=body, orelse=orelse):
                self.run(body if self._value(test) else orelse)
            case ast.Assign(targets=[target], value=value):
                self._assign(target, self._value(value))
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                self._assign(target, self._value(value))
            case ast.Expr(value=ast.Constant()):
                pass
            case ast.Expr(value=value):
                self._value(value)
            case ast.Return(value=ast.expr() as value):
                raise _Returned(self._value(value))
            case ast.Raise():
                raise RefusedConfigError("it raises an error")
            case ast.Assert(test=test):
                if not self._value(test):
                    raise RefusedConfigError("an assertion fails")
            case ast.ImportFrom(names=imported):
                # These are numbers of layers, each of them 1.
                self._names |= dict.fromkeys((one.asname or one.name for one in imported), 1)
            case _:
                raise UnreadableOverrideError(ast.unparse(statement))

    def _assign(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(id=name):
                self._names[name] = value
            case ast.Attribute(value=holder, attr=name):
                self._value(holder)[name] = value
            case ast.Subscript(value=holder, slice=key):
                self._value(holder)[self._value(key)] = value
            case _:
                raise UnreadableOverrideError(ast.unparse(target))

    def _value(self, node: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 - one for each form
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name) if name in self._names:
                return self._names[name]
            case ast.Attribute(value=holder, attr=name):
                return _attribute(self._value(holder), name)
            case ast.Subscript(value=holder, slice=key):
                return self._value(holder)[self._value(key)]
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                return self._elements(elements)
            case ast.Set(elts=elements):
                return set(self._elements(elements))
            case ast.Dict(keys=keys, values=values):
                return {
                    self._value(key): self._value(value)
                    for key, value in zip(keys, values, strict=True)
                    if key is not None
                }
            case ast.BoolOp(op=op, values=values):
                return self._either(values, stop=isinstance(op, ast.Or))
            case ast.UnaryOp(op=ast.Not(), operand=operand):
                return not self._value(operand)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self._value(body if self._value(test) else orelse)
            case ast.NamedExpr(target=ast.Name(id=name), value=value):
                self._names[name] = self._value(value)
                return self._names[name]
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                return _COMPARISONS[type(op)](self._value(left), self._value(right))
            case ast.BinOp(left=left, op=ast.Mult() | ast.BitOr() | ast.Add() as op, right=right):
                way = {ast.Mult: operator.mul, ast.BitOr: operator.or_, ast.Add: operator.add}
                return way[type(op)](self._value(left), self._value(right))
            case ast.Call(func=function, args=arguments, keywords=[]):
                return self._call(function, [self._value(one) for one in arguments])
            case _:
                raise UnreadableOverrideError(ast.unparse(node))

    def _elements(self, elements: list[ast.expr]) -> list[Any]:
        values: list[Any] = []
        for one in elements:
            if isinstance(one, ast.Starred):
                values.extend(self._value(one.value))
            else:
                values.append(self._value(one))
        return values

    def _either(self, values: list[ast.expr], *, stop: bool) -> Any:
        value: Any = None
        for one in values:
            value = self._value(one)
            if bool(value) is stop:
                break
        return value

    def _call(self, function: ast.expr, arguments: list[Any]) -> Any:  # noqa: C901, PLR0911 - as above
        match function, arguments:
            case ast.Name(id="getattr"), [holder, name, default]:
                return holder.get(name, default) if isinstance(holder, dict) else default
            case ast.Name(id="hasattr"), [holder, name]:
                return isinstance(holder, dict) and name in holder
            case ast.Name(id="int"), [number]:
                return int(number)
            case ast.Name(id="len"), [many]:
                return len(many)
            case ast.Name(id="get_hf_text_config"), [config]:
                return _text_config(config)
            case ast.Attribute(value=ast.Name(id="copy"), attr="deepcopy"), [value]:
                return copy.deepcopy(value)
            case ast.Attribute(value=holder, attr="get_text_config"), []:
                return _text_config(self._value(holder))
            case ast.Attribute(value=holder, attr="update"), [values]:
                self._value(holder).update(values)
                return None
            case ast.Attribute(value=holder, attr="get"), [key, *default]:
                return self._value(holder).get(key, *default)
            case ast.Attribute(value=holder, attr="intersection"), [many]:
                return self._value(holder).intersection(many)
            case _:
                raise UnreadableOverrideError(ast.unparse(function))


def _attribute(holder: Any, name: str) -> Any:
    value = holder.get(name, _MISSING) if isinstance(holder, dict) else _MISSING
    if value is _MISSING:
        # The class of the config may have a default for it.
        raise UnreadableOverrideError(f"config.json has no {name}")
    return value


def _text_config(config: dict[str, Any]) -> Any:
    return config.get("text_config", config)
