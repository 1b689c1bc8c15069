"""Rewrite statements that follow each other in a block, or delete them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.lines import block_of
from vpatch.codemods.moves import as_blocks, flat, key_of
from vpatch.codemods.nodes import DEFINITIONS, is_gap
from vpatch.codemods.pattern import (
    Pattern,
    needles_of,
    parse_block,
)
from vpatch.codemods.reduced import Reading
from vpatch.codemods.rewrite_blocks import BlockTransformer
from vpatch.codemods.statement_change import StatementChange, alone, as_small, body_of
from vpatch.codemods.successor import seen_in_scope

if TYPE_CHECKING:
    from vpatch.codemods.base import EditOutcome
    from vpatch.codemods.extent import Extents
    from vpatch.codemods.scope import Scope


class RewriteStatements(StatementChange):
    """The edit that makes a `StatementChange` in a module."""

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return tuple(form.needles for form in self.forms)

    @property
    def reading(self) -> Reading | None:
        statements = [*body_of(self.find), *body_of(self.replace)]
        definitions = [each for each in statements if isinstance(each, DEFINITIONS)]
        if definitions and len(statements) > 1:
            return None
        names = [form.names for form in self.forms]
        ifs = not any(isinstance(each, cst.If) for each in statements)
        own = frozenset(each.name.value for each in definitions)
        return Reading(names, "module statement", "everywhere", own, ifs, scopes=True)

    @property
    def sought(self) -> Pattern:
        """The statement of `find` with the most names: the nearest code is looked for by it."""
        statements = [each for each in body_of(self.find) if not is_gap(each)]
        if len(statements) == 1:
            return alone(self.find)
        patterns = [_of_one(self.find, each) for each in statements]
        return max(patterns, key=lambda one: len(one.names))

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        outcome = BlockTransformer(self).run(module, extents)
        if self.replace is None or self.moves.only_takes_away:
            return outcome
        return seen_in_scope(outcome, module, self.find, self.replace, self.place.within)


def rewrite_statements(
    find: str, new: str, place: Scope, *, comments: bool = False
) -> RewriteStatements:
    """Turn statements into others.

    Raises:
        PatternError: they are not Python, or code would be lost.
    """
    old = _with_blocks(parse_block(find))
    keys = {key_of(statement) for statement in flat(body_of(old))}
    template = parse_block(new, alone=True)
    body = as_blocks(body_of(template), keys)
    template = dataclasses.replace(template, node=block_of(body))
    return RewriteStatements(old, template, place, comments)


def delete_statements(find: str, place: Scope, *, comments: bool) -> RewriteStatements:
    """Delete statements.

    Raises:
        PatternError: they are not Python.
    """
    return RewriteStatements(_with_blocks(parse_block(find)), None, place, comments)


def _with_blocks(pattern: Pattern) -> Pattern:
    return dataclasses.replace(pattern, node=block_of(as_blocks(body_of(pattern), None)))


def _of_one(pattern: Pattern, statement: cst.CSTNode) -> Pattern:
    names, strings = needles_of(statement)
    return dataclasses.replace(
        pattern,
        node=as_small(statement),
        needles=frozenset(names | strings),
        names=frozenset(names),
    )
