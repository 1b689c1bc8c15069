"""Whether new code shows by itself which code it replaced."""

from __future__ import annotations

import dataclasses
from collections import Counter
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.match import same_code
from vpatch.codemods.nodes import (
    DEFINITIONS,
    GAP_PARAMETER,
    IN_TEXT,
    all_nodes,
    statements_of,
    variable_of,
)
from vpatch.codemods.pattern import Pattern, find_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.codemods.base import EditOutcome

# Kinds of nodes that say something, besides the words, texts and numbers in them.
_KINDS = (
    cst.BaseAugOp,
    cst.BaseBinaryOp,
    cst.BaseBooleanOp,
    cst.BaseCompOp,
    cst.BaseCompoundStatement,
    cst.BaseSmallStatement,
    cst.BaseUnaryOp,
    cst.Await,
    cst.Yield,
)

_WORDS = {"word", "variable"}


def shows(find: Pattern, replace: Pattern) -> bool:
    """Whether new code shows that `find` would have been about it.

    It does if it has everything that `find` says, a match of `find`, or a statement of its block.
    Any other new code may always have been there: `g(1)` need not be an `f(1)` that became one.
    """
    return (
        find_in(find, replace.node)
        or _count_pieces(find.node) <= _count_pieces(replace.node)
        or _share_a_statement(find.node, replace.node)
    )


def seen_in_scope(
    outcome: EditOutcome, module: cst.Module, find: Pattern, replace: Pattern, within: str | None
) -> EditOutcome:
    """The same outcome, where new code also counts by the definition that it is in.

    It does if that is the only definition that `within` is about, by its name or by a glob, and
    everything that `find` names is still in there.
    """
    is_known = all(site.recognised for site in outcome.sites)
    if is_known or within is None or not find.variables <= replace.variables:
        return outcome
    named = [(name, node) for name, node in _definitions(module) if fnmatchcase(name, within)]
    if len(named) != 1:
        return outcome
    ((only, node),) = named
    seen = words_of(find.node) - find.variables <= words_of(node)
    sites = (
        dataclasses.replace(site, recognised=True) if seen and site.scope == only else site
        for site in outcome.sites
    )
    return dataclasses.replace(outcome, sites=tuple(sites))


def _definitions(root: cst.CSTNode, prefix: str = "") -> Iterator[tuple[str, cst.CSTNode]]:
    """Every definition and its qualified name, but for those in the blocks of others."""
    body = root if isinstance(root, cst.Module) else getattr(root, "body", None)
    for statement in getattr(body, "body", ()):
        if isinstance(statement, DEFINITIONS):
            name = f"{prefix}{statement.name.value}"
            yield name, statement
            yield from _definitions(statement, f"{name}.")


def words_of(*nodes: cst.CSTNode) -> set[str]:
    """The names, metavariables and texts in some code."""
    return {str(what) for node in nodes for kind, what in _count_pieces(node) if kind in _WORDS}


def _count_pieces(root: cst.CSTNode) -> Counter[tuple[str, object]]:
    """What a pattern says, piece by piece: words, metavariables, numbers, kinds of code."""
    return Counter(piece for node in all_nodes(root) for piece in _pieces(node))


def _pieces(node: cst.CSTNode) -> Iterator[tuple[str, object]]:
    """What a node itself says, without what is in it."""
    match node:
        case cst.Name(value=name):
            variable = variable_of(node)
            if variable is not None:
                yield "variable", variable
            elif name != GAP_PARAMETER:
                yield "word", name
        case cst.SimpleString(evaluated_value=text) | cst.FormattedStringText(value=text):
            plain = text if isinstance(text, str) else repr(text)
            yield from (("variable", name) for name in IN_TEXT.findall(plain))
            yield "word", IN_TEXT.sub("", plain)
        case cst.BaseNumber():
            yield "number", node.evaluated_value  # type: ignore[attr-defined]
        case cst.Assign() | cst.AnnAssign():
            yield "kind", "assignment"
        case cst.Expr():
            pass
        case _ if isinstance(node, _KINDS):
            yield "kind", type(node).__name__


def _share_a_statement(old: cst.CSTNode, new: cst.CSTNode) -> bool:
    others = _inner_statements(new)
    return any(
        words_of(statement) and any(same_code(statement, other) for other in others)
        for statement in _inner_statements(old)
    )


def _inner_statements(root: cst.CSTNode) -> list[cst.CSTNode]:
    suites = (node for node in all_nodes(root) if isinstance(node, cst.BaseSuite))
    return [statement for suite in suites for statement in statements_of(suite)]
