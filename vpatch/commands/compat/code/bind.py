"""What the statements of a module or of a class bind, and how sure that is."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.attributes import methods_of, set_attributes
from vpatch.commands.compat.code.expressions import (
    base_name,
    class_named,
    decorator_name,
    dotted,
    is_type_checking,
    text_of,
    texts_in,
)
from vpatch.commands.compat.code.outline import (
    Binding,
    Class,
    Function,
    Import,
    Parameter,
    Presence,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


@dataclass
class BoundNames:
    """The bindings of some statements. `sure` are the names that are bound in any case."""

    names: dict[str, list[Binding]] = field(default_factory=dict)
    sure: set[str] = field(default_factory=set)
    stars: list[str] = field(default_factory=list)

    def bind(self, name: str, binding: Binding) -> None:
        self.names.setdefault(name, []).append(binding)
        is_bound = not isinstance(binding, Value) or binding.is_set
        if binding.presence == "always" and is_bound:
            self.sure.add(name)

    def take(self, other: BoundNames, presence: Presence) -> None:
        """Add another block's bindings, which are there as `presence` says."""
        for name, several in other.names.items():
            for one in several:
                weaker = one.presence if presence == "always" else presence
                self.names.setdefault(name, []).append(one._replace(presence=weaker))
        self.stars += other.stars


def block_of(body: Iterable[ast.stmt]) -> BoundNames:
    """Return what the statements of a module or a class bind."""
    block = BoundNames()
    for node in body:
        _bind_statement(block, node)
    # A name that each branch binds is there in any case.
    for name in block.sure:
        block.names[name] = [
            one._replace(presence="branch") if one.presence == "sometimes" else one
            for one in block.names.get(name, [])
        ]
    return block


def _bind_statement(block: BoundNames, node: ast.stmt) -> None:  # noqa: C901, PLR0912 - one case for each form
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            block.bind(node.name, function_of(node))
        case ast.ClassDef():
            block.bind(node.name, class_of(node))
        case ast.Import():
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                module = alias.name if alias.asname else name
                block.bind(name, Import("always", node.lineno, module, ""))
        case ast.ImportFrom():
            module = "." * node.level + (node.module or "")
            for alias in node.names:
                if alias.name == "*":
                    block.stars.append(module)
                else:
                    one = Import("always", node.lineno, module, alias.name)
                    block.bind(alias.asname or alias.name, one)
        case ast.Assign() | ast.AnnAssign() | ast.AugAssign():
            _bind_assignment(block, node)
        case ast.If():
            _bind_if(block, node)
        case ast.Try() | ast.TryStar():
            _bind_try(block, node)
        case ast.With() | ast.AsyncWith():
            inner = block_of(node.body)
            block.take(inner, "always")
            block.sure |= inner.sure
            _bind_targets(block, (one.optional_vars for one in node.items), "always", node.lineno)
        case ast.For() | ast.AsyncFor():
            _bind_targets(block, [node.target], "sometimes", node.lineno)
            block.take(block_of([*node.body, *node.orelse]), "sometimes")
        case ast.While():
            block.take(block_of([*node.body, *node.orelse]), "sometimes")
        case ast.Match():
            for case in node.cases:
                block.take(block_of(case.body), "sometimes")
        case ast.Delete():
            for name in _stored(node.targets):
                block.sure.discard(name)
                several = block.names.get(name, [])
                block.names[name] = [one._replace(presence="sometimes") for one in several]
        case _:
            pass


def _bind_if(block: BoundNames, node: ast.If) -> None:
    first, second = block_of(node.body), block_of(node.orelse)
    if is_type_checking(node.test):
        block.take(first, "typing")
        block.take(second, "always")
        block.sure |= second.sure
        return
    block.take(first, "sometimes")
    block.take(second, "sometimes")
    block.sure |= first.sure & second.sure


def _bind_try(block: BoundNames, node: ast.Try | ast.TryStar) -> None:
    body = block_of([*node.body, *node.orelse])
    handlers = [block_of(one.body) for one in node.handlers]
    going_on = [
        one
        for one, handler in zip(handlers, node.handlers, strict=True)
        if not isinstance(handler.body[-1], ast.Raise)
    ]
    final = block_of(node.finalbody)
    for one in (body, *handlers):
        block.take(one, "sometimes")
    block.take(final, "always")
    sure = set(body.sure)
    for one in going_on:
        sure &= one.sure
    block.sure |= sure | final.sure


def _bind_assignment(block: BoundNames, node: ast.Assign | ast.AnnAssign | ast.AugAssign) -> None:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    value = None if isinstance(node, ast.AugAssign) else node.value
    kind = class_named(node.annotation) if isinstance(node, ast.AnnAssign) else None
    is_alone = all(isinstance(one, ast.Name) for one in targets)
    is_bare = isinstance(node, ast.AnnAssign) and value is None
    for name in _stored(targets):
        if is_alone:
            block.bind(name, value_of(value, kind, node, is_set=not is_bare))
        else:
            block.bind(name, Value("always", node.lineno))


def value_of(
    value: ast.expr | None, kind: str | None, node: ast.stmt, *, is_set: bool = True
) -> Value:
    """Return the binding of an assignment."""
    call = dotted(value.func) if isinstance(value, ast.Call) else None
    annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
    return Value(
        "always",
        node.lineno,
        kind,
        dotted(value),
        call,
        is_set,
        texts_in(value),
        tuple(_options(value)),
        annotation is not None,
        annotation is not None and "ClassVar" in text_of(annotation).partition("[")[0],
    )


def _options(value: ast.expr | None) -> Iterator[str]:
    """The keyword arguments of a call such as `field(default=1, init=False)`."""
    if not isinstance(value, ast.Call):
        return
    if value.args:
        yield "positional"
    for one in value.keywords:
        is_false = isinstance(one.value, ast.Constant) and one.value.value is False
        yield f"{one.arg or '**'}{'=False' if is_false else ''}"


def _bind_targets(
    block: BoundNames, targets: Iterable[ast.expr | None], presence: Presence, line: int
) -> None:
    for name in _stored(targets):
        block.bind(name, Value(presence, line))


def _stored(targets: Iterable[ast.expr | None]) -> Iterator[str]:
    for target in targets:
        match target:
            case ast.Name(id=name):
                yield name
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                yield from _stored(elements)
            case ast.Starred(value=inner):
                yield from _stored([inner])
            case _:
                pass


def function_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Function:
    """Return the outline of a function."""
    return Function(
        "always",
        min([node.lineno, *(one.lineno for one in node.decorator_list)]),
        node.end_lineno or node.lineno,
        isinstance(node, ast.AsyncFunctionDef),
        tuple(map(decorator_name, node.decorator_list)),
        tuple(_parameters(node.args)),
        class_named(node.returns),
    )


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = len(plain) - len(arguments.defaults)
    defaults: list[ast.expr | None] = [*([None] * missing), *arguments.defaults]
    for index, (one, default) in enumerate(zip(plain, defaults, strict=True)):
        is_positional = index < len(arguments.posonlyargs)
        text = None if default is None else text_of(default)
        yield Parameter(one.arg, "positional" if is_positional else "normal", text)
    if arguments.vararg:
        yield Parameter(arguments.vararg.arg, "star", None)
    for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield Parameter(one.arg, "keyword", None if value is None else text_of(value))
    if arguments.kwarg:
        yield Parameter(arguments.kwarg.arg, "double-star", None)


def class_of(node: ast.ClassDef) -> Class:
    """Return the outline of a class."""
    block = block_of(node.body)
    attributes: dict[str, Value] = {}
    is_dynamic = False
    for method in methods_of(node.body):
        is_dynamic |= set_attributes(method, attributes)
    keywords = {one.arg or "**": dotted(one.value) or "?" for one in node.keywords}
    return Class(
        "always",
        min([node.lineno, *(one.lineno for one in node.decorator_list)]),
        node.end_lineno or node.lineno,
        tuple(map(base_name, node.bases)),
        keywords,
        tuple(map(decorator_name, node.decorator_list)),
        {name: tuple(several) for name, several in block.names.items()},
        attributes,
        is_dynamic,
    )
