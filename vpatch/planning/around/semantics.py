"""Digests of what code means.

Layout, docstrings, annotations, logging and the names of locals do not count. The digests compare
the code around what a patch reads. A digest of the whole syntax would differ there for changes that
nobody needs to look at.
"""

from __future__ import annotations

import ast
import hashlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Sequence

_DIGITS = 16
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_LEFT_OUT = frozenset(["ctx", "kind", "type_comment", "annotation", "returns", "type_params"])
_LOGGERS = frozenset(["logger", "_logger", "log", "_log", "LOG", "logging"])
_LEVELS = frozenset(
    f"{level}{once}"
    for level in ("debug", "info", "warning", "error", "exception", "critical")
    for once in ("", "_once")
)
# Of a larger table of a module, only the items count that are about something.
_LARGEST_TABLE = 16
_LEAVING = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_BLOCKS = ("body", "orelse", "handlers", "finalbody", "cases")


def meaning_of(node: ast.AST) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of what a definition means."""
    return digest_of_text(_written(node, _Locals(node)))


def meaning_around(
    node: ast.AST, is_place: Callable[[ast.AST], bool], *, whole: bool = True
) -> str | None:
    """Return a digest of what leads to some places of a definition; None where there are none.

    These are the statements that have such a place, the conditions under which these run, and the
    conditions under which the definition ends before them. Other code of it does not count. Without
    `whole`, of a statement that has a place only that it has one counts.
    """
    holding: set[int] = set()
    if not _find_places(node, is_place, holding):
        return None
    names = _Locals(node)
    if not isinstance(node, _FUNCTIONS):
        return digest_of_text(_written(_narrowed(node, holding), names))
    heads = [*node.decorator_list, *node.args.defaults, *filter(None, node.args.kw_defaults)]
    parts = [_written(one, names) for one in heads if id(one) in holding]
    parts += _leading(node.body, holding, names, whole=whole)
    return digest_of_text("\n".join(parts)) if parts else None


def _find_places(node: ast.AST, is_place: Callable[[ast.AST], bool], holding: set[int]) -> bool:
    """Add the ids of the places in a node, and of all nodes that have one; whether it has one."""
    holds = is_place(node)
    for child in ast.iter_child_nodes(node):
        holds |= _find_places(child, is_place, holding)
    if holds:
        holding.add(id(node))
    return holds


def _narrowed(node: ast.AST, holding: Container[int]) -> ast.AST:
    """A statement, where only the items with a place are left of a large table."""
    match node:
        case ast.Assign(value=ast.Dict() as table) | ast.AnnAssign(value=ast.Dict() as table) if (
            len(table.keys) > _LARGEST_TABLE
        ):
            pairs = zip(table.keys, table.values, strict=True)
            items = [pair for pair in pairs if any(id(one) in holding for one in pair)]
            if items:
                return ast.Dict([key for key, _ in items], [value for _, value in items])
        case ast.Assign(value=ast.List() | ast.Tuple() | ast.Set() as table) if (
            len(table.elts) > _LARGEST_TABLE
        ):
            elements = [one for one in table.elts if id(one) in holding]
            if elements:
                return ast.List(elements)
    return node


def digest_of_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _leading(
    body: Sequence[ast.AST],
    places: Container[int],
    names: _Locals,
    *,
    whole: bool,
) -> Iterator[str]:
    """The parts of a block that lead to places in it, as texts.

    `places` are the ids of the nodes that are or have a place.
    """
    holding = [id(one) in places for one in body]
    if not any(holding):
        return
    last = len(holding) - 1 - holding[::-1].index(True)
    for one, holds in zip(body[: last + 1], holding, strict=False):
        blocks = [value for name, value in ast.iter_fields(one) if name in _BLOCKS]
        if not holds:
            if any(isinstance(inner, _LEAVING) for inner in _statements(one)):
                yield f"leaves: {_head(one, names)}"
        elif not blocks or not isinstance(blocks[0], list):
            yield _written(one, names) if whole else "place"
        else:
            yield f"in: {_head(one, names)}"
            for block in blocks:
                yield from _leading(block, places, names, whole=whole)


def _statements(node: ast.AST) -> Iterator[ast.AST]:
    """A statement and those in it, without those of functions and classes in it.

    A `raise` of an `except` block is left out: an error left this code before it, too.
    """
    yield node
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        return
    for name, value in ast.iter_fields(node):
        for inner in value if name in _BLOCKS and isinstance(value, list) else ():
            for one in _statements(inner):
                if name != "handlers" or not isinstance(one, ast.Raise):
                    yield one


def _head(node: ast.AST, names: _Locals) -> str:
    """What a statement has above its blocks."""
    fields = [
        f"{name}={_written(value, names)}"
        for name, value in ast.iter_fields(node)
        if name not in _BLOCKS and name not in _LEFT_OUT and value is not None
    ]
    return f"{type(node).__name__} {' '.join(fields)}"


class _Locals:
    """New names for what a function binds and nobody else sees, in the order of their use.

    So another local elsewhere in the function makes no difference.
    """

    def __init__(self, node: ast.AST) -> None:
        bound: set[str] = set()
        seen_outside: set[str] = set()
        for inner in ast.walk(node) if isinstance(node, _FUNCTIONS) else ():
            match inner:
                case ast.Name(id=name, ctx=ast.Store()):
                    bound.add(name)
                case ast.arg(arg=name):
                    seen_outside.add(name)
                case ast.Global(names=names) | ast.Nonlocal(names=names):
                    seen_outside.update(names)
        self._own = bound - seen_outside
        self._numbers: dict[str, int] = {}

    def new_name(self, name: str) -> str:
        """Return what is written of a name; one that is not a local stays."""
        if name not in self._own:
            return name
        return f"local {self._numbers.setdefault(name, len(self._numbers))}"


def _written(node: object, names: _Locals) -> str:
    return "".join(_parts(node, names))


def _parts(node: object, names: _Locals) -> Iterator[str]:
    if isinstance(node, ast.Name):
        yield f"({names.new_name(node.id)})"
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        yield from _parts(ast.Assign(targets=[node.target], value=node.value), names)
    elif isinstance(node, ast.AST):
        yield f"({type(node).__name__}"
        for name, value in ast.iter_fields(node):
            if name in _LEFT_OUT or value is None or value == []:
                continue
            yield f" {name}="
            is_block = name in _BLOCKS and isinstance(value, list)
            yield from _parts([o for o in value if not is_idle(o)] if is_block else value, names)
        yield ")"
    elif isinstance(node, list):
        yield "["
        for item in node:
            yield from _parts(item, names)
            yield ","
        yield "]"
    else:
        yield ascii(node)


def is_idle(node: object) -> bool:
    """Whether a statement is a text, or a log line."""
    match node:
        case ast.Expr(value=ast.Constant()) | ast.Pass():
            return True
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr=level))):
            return owner in _LOGGERS and level in _LEVELS
        case _:
            return False
