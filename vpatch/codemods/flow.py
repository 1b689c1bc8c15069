"""Whether Python ever gets past a statement."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node

from vpatch.codemods.nodes import statements_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

NEVER_RETURN = {"exit", "os._exit", "os.abort", "quit", "sys.exit"}
# Context managers that swallow an exception, and so let the program go on behind the block.
_SWALLOWING = {"suppress", "raises", "assertRaises"}


def barrier(statements: Iterable[cst.CSTNode]) -> cst.CSTNode | None:
    """The first of some statements that the program never gets past, or None.

    A condition counts as open unless it is a constant. A block under `with` counts as left for good
    when its end is never reached, unless a context manager is known to swallow exceptions.
    """
    return next((statement for statement in statements if _ends(statement)), None)


def unreached(node: cst.Module | cst.IndentedBlock | cst.If) -> Sequence[cst.CSTNode]:
    """The statements or blocks of a node that the program never comes to."""
    if isinstance(node, cst.If):
        known = _constant(node.test)
        if known is None:
            return []
        never = node.orelse if known else node.body
        return [] if never is None else [never]
    statements = statements_of(node) if isinstance(node, cst.IndentedBlock) else node.body
    for index, statement in enumerate(statements):
        if _ends(statement):
            return statements[index + 1 :]
    return []


def _ends(node: cst.CSTNode) -> bool:
    ends = False
    match node:
        case cst.Return() | cst.Raise() | cst.Break() | cst.Continue():
            ends = True
        case cst.SimpleStatementLine(body=body):
            ends = any(map(_ends, body))
        case cst.Assert(test=test):
            ends = _constant(test) is False
        case cst.Expr(value=cst.Call(func=func)):
            ends = get_full_name_for_node(func) in NEVER_RETURN
        case cst.If():
            ends = _if_ends(node)
        case cst.For() | cst.While():
            ends = _loop_ends(node)
        case cst.With(body=body, items=items):
            ends = _block_ends(body) and not any(map(_swallows, items))
        case cst.Try() | cst.TryStar():
            ends = _try_ends(node)
        case cst.Match(cases=cases):
            ends = any(map(_takes_all, cases)) and all(_block_ends(case.body) for case in cases)
    return ends


def _loop_ends(node: cst.For | cst.While) -> bool:
    known = _constant(node.test) if isinstance(node, cst.While) else None
    if known is not False and _breaks(node.body):
        return False
    if known is True:
        return True
    return node.orelse is not None and _block_ends(node.orelse.body)


def _block_ends(body: cst.BaseSuite) -> bool:
    return barrier(statements_of(body)) is not None


def _if_ends(node: cst.If) -> bool:
    known = _constant(node.test)
    if known is True:
        return _block_ends(node.body)
    other = node.orelse
    other_ends = (
        _ends(other)
        if isinstance(other, cst.If)
        else (other is not None and _block_ends(other.body))
    )
    return other_ends and (known is False or _block_ends(node.body))


def _try_ends(node: cst.Try | cst.TryStar) -> bool:
    if node.finalbody is not None and _block_ends(node.finalbody.body):
        return True
    through = _block_ends(node.body) or (node.orelse is not None and _block_ends(node.orelse.body))
    return through and all(_block_ends(handler.body) for handler in node.handlers)


def _swallows(item: cst.WithItem) -> bool:
    call = item.item
    name = get_full_name_for_node(call.func) if isinstance(call, cst.Call) else None
    return name is not None and name.rpartition(".")[2] in _SWALLOWING


def _takes_all(case: cst.MatchCase) -> bool:
    return case.guard is None and (
        isinstance(case.pattern, cst.MatchAs) and case.pattern.pattern is None
    )


def _constant(test: cst.BaseExpression) -> bool | None:
    match test:
        case cst.Name(value="True" | "False" as value):
            return value == "True"
        case cst.Integer():
            return bool(test.evaluated_value)
    return None


def _breaks(body: cst.BaseSuite) -> bool:
    """Whether a block of a loop has a `break` of that loop, which the program may come to."""
    return _any_breaks(statements_of(body))


def _any_breaks(statements: Iterable[cst.CSTNode]) -> bool:
    for statement in statements:
        if _has_break(statement):
            return True
        if _ends(statement):
            return False
    return False


def _has_break(node: cst.CSTNode) -> bool:
    match node:
        case cst.Break():
            return True
        case cst.SimpleStatementLine(body=body):
            return _any_breaks(body)
        case cst.BaseCompoundStatement():
            return any(map(_breaks, _blocks_of(node)))
    return False


def _blocks_of(node: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """The blocks of a statement in which a `break` is one of the loop around it."""
    match node:
        case cst.If():
            yield from _blocks_of_if(node)
        case cst.Try() | cst.TryStar():
            yield from _blocks_of_try(node)
        case cst.For(orelse=cst.Else(body=body)) | cst.With(body=body) | cst.Else(body=body):
            yield body
        case cst.While(test=test, orelse=cst.Else(body=body)) if _constant(test) is not True:
            yield body
        case cst.Match(cases=cases):
            yield from (case.body for case in cases)


def _blocks_of_if(node: cst.If) -> Iterator[cst.BaseSuite]:
    known = _constant(node.test)
    if known is not False:
        yield node.body
    if node.orelse is not None and known is not True:
        yield from _blocks_of(node.orelse)


def _blocks_of_try(node: cst.Try | cst.TryStar) -> Iterator[cst.BaseSuite]:
    final = node.finalbody
    if final is None or not _block_ends(final.body):
        yield node.body
        yield from (handler.body for handler in node.handlers)
        if node.orelse is not None and not _block_ends(node.body):
            yield node.orelse.body
    if final is not None:
        yield final.body
