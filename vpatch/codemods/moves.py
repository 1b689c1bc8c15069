"""Which statements of new code are statements of a pattern, at whatever depth."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import filterfalse
from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

from vpatch.codemods.correspond import gaps_correspond, has_gap
from vpatch.codemods.lines import apart, block_of
from vpatch.codemods.nodes import STATEMENTS, code_of, is_gap, statements_of, with_others
from vpatch.codemods.trees import BLOCKS

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterator, Mapping, Sequence

# From which likeness on one statement becomes another, and keeps its comments.
_ALIKE = 0.7
_Statement = TypeVar("_Statement", bound=cst.CSTNode)


@dataclass(frozen=True)
class Moves:
    """What becomes of the statements of a pattern.

    `unchanged` maps a statement of the new code, by its identity, to the one of the pattern that it
    is; `changed` maps it to the one that it is made of. `gone` are the other statements of the
    pattern, by identity, which may have kept ones inside.
    """

    old: Sequence[cst.CSTNode]
    new: Sequence[cst.CSTNode]
    unchanged: Mapping[int, cst.CSTNode]
    changed: Mapping[int, cst.CSTNode]
    gone: frozenset[int] = field(default=frozenset())

    def origin(self, statement: cst.CSTNode) -> cst.CSTNode | None:
        return self.unchanged.get(id(statement), self.changed.get(id(statement)))

    def has_origin(self, statement: cst.CSTNode) -> bool:
        return self.origin(statement) is not None

    def first_kept_in(self, statement: cst.CSTNode) -> cst.CSTNode | None:
        """The first statement of the pattern that one of the new code has inside, or is."""
        origins = (self.origin(inner) for inner in flat([statement]))
        return next((origin for origin in origins if origin is not None), None)

    @property
    def loses_a_gap(self) -> bool:
        """Whether code that a gap matches would be lost, or a gap would be written."""
        written = self.unchanged.keys() | self.changed
        taken = set(map(id, (*self.unchanged.values(), *self.changed.values())))
        rest = *_without(self.new, written), *_without(self.old, taken)
        return has_gap(*rest)

    @property
    def only_takes_away(self) -> bool:
        """Whether all of the new code is in the pattern already."""
        return all(id(statement) in self.unchanged for statement in self.new)


def _without(statements: Sequence[cst.CSTNode], known: Container[int]) -> Iterator[cst.CSTNode]:
    """Take statements away, by identity, that come from elsewhere, or go elsewhere."""
    nothing = cst.SimpleStatementLine([cst.Pass()])
    for statement in statements:
        yield with_others(statement, lambda node: nothing if id(node) in known else None)


def holds(block: cst.CSTNode, found_in: Callable[[Sequence[cst.CSTNode]], bool]) -> bool:
    """Whether something is found among the statements of a block, or of one inside it."""
    statements = statements_of(cast("cst.BaseSuite", block))
    return found_in(statements) or any(
        holds(inner, found_in) for each in statements for inner in blocks_in(each)
    )


def moves_of(old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode]) -> Moves:
    """Find out which statements stay, move or change between a pattern and new code."""
    all_old, all_new = list(flat(old)), list(flat(new))
    unchanged = {
        id(other): one
        for one, other in zip(filter(is_gap, all_old), filter(is_gap, all_new), strict=False)
    }
    same_key: dict[str, list[cst.CSTNode]] = {}
    for one in filterfalse(is_gap, all_old):
        same_key.setdefault(key_of(one), []).append(one)
    inside: set[int] = set()
    for right in filterfalse(is_gap, all_new):
        if id(right) in inside:
            continue
        others = (one for one in same_key.get(key_of(right), ()) if id(one) not in inside)
        same = next(others, None)
        if same is not None:
            for inner in flat([right]):
                unchanged.pop(id(inner), None)
            unchanged[id(right)] = same
            inside.update(id(each) for one in (same, right) for each in flat([one]))
    changed = _pair_changed(old, new, unchanged)
    taken = {id(one) for one in (*unchanged.values(), *changed.values())}
    gone = frozenset(map(id, old)) - taken
    return Moves(old, new, unchanged, changed, gone)


def _pair_changed(
    old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode], unchanged: dict[int, cst.CSTNode]
) -> dict[int, cst.CSTNode]:
    """Pair the statements of both that are the same kind, between two that are kept.

    What is kept inside such a pair is left to the pair.
    """
    origins = {id(one) for one in unchanged.values()}
    changed: dict[int, cst.CSTNode] = {}
    holes = zip(
        _runs([None if id(one) in origins else one for one in old]),
        _runs([None if id(one) in unchanged else one for one in new]),
        strict=False,
    )
    for olds, news in holes:
        for one, other in _pairs(olds, news):
            if _inside_alike(one, other, unchanged) and gaps_correspond(one, other):
                changed[id(other)] = one
                for inner in flat([other]):
                    unchanged.pop(id(inner), None)
    return changed


def _pairs(
    old: Sequence[cst.CSTNode], new: Sequence[cst.CSTNode]
) -> Iterator[tuple[cst.CSTNode, cst.CSTNode]]:
    """The statements of the same kind at the same place; of more or fewer, those that are alike."""
    if len(old) == len(new):
        yield from ((one, other) for one, other in zip(old, new, strict=True) if _fit(one, other))
        return
    start = 0
    for one in old:
        likeness = [
            (_likeness(one, other), -number)
            for number, other in enumerate(new[start:], start)
            if _fit(one, other)
        ]
        best, number = max(likeness, default=(0.0, 0))
        if best >= _ALIKE:
            yield one, new[-number]
            start = 1 - number


def _fit(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    return type(one) is type(other) and is_gap(one) == is_gap(other)


def _likeness(one: cst.CSTNode, other: cst.CSTNode) -> float:
    old, new = (code_of(each.with_changes(leading_lines=[])) for each in (one, other))
    return SequenceMatcher(None, old, new, autojunk=False).ratio()


def _inside_alike(old: cst.CSTNode, new: cst.CSTNode, unchanged: Mapping[int, cst.CSTNode]) -> bool:
    """Whether what is kept inside of one statement is inside of the other, and nowhere else."""
    sources = {id(unchanged[id(inner)]) for inner in flat([new]) if id(inner) in unchanged}
    within = {id(inner) for inner in flat([old])}
    return sources == within.intersection(map(id, unchanged.values()))


def _runs(statements: Sequence[cst.CSTNode | None]) -> list[list[cst.CSTNode]]:
    """Split statements at each None."""
    runs: list[list[cst.CSTNode]] = [[]]
    for one in statements:
        if one is None:
            runs.append([])
        else:
            runs[-1].append(one)
    return runs


def flat(statements: Sequence[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Some statements, and those in their blocks, in the order of the code."""
    for statement in statements:
        yield statement
        if isinstance(statement, cst.BaseCompoundStatement):
            for block in blocks_in(statement):
                yield from flat([each for each in block.body if isinstance(each, STATEMENTS)])


def blocks_in(statement: cst.CSTNode) -> Iterator[cst.BaseSuite]:
    """The blocks of a statement, but for those of the statements in them."""
    for name in BLOCKS:
        part = getattr(statement, name, None)
        for each in part if isinstance(part, (list, tuple)) else [part]:
            if isinstance(each, cst.BaseSuite):
                yield each
            elif each is not None and not isinstance(statement, cst.BaseSuite):
                yield from blocks_in(each)


def as_blocks(statements: Sequence[_Statement], keys: Container[str] | None) -> list[_Statement]:
    """The same statements with lines for what is behind a header, as `y` in `if x: y`.

    With `keys`, only where such a statement is a gap or has one of these keys.
    """

    def as_block(node: cst.CSTNode) -> cst.CSTNode | None:
        if not isinstance(node, cst.SimpleStatementSuite):
            return None
        lines = apart([cst.SimpleStatementLine(node.body)])
        is_meant = keys is None or any(key_of(line) in keys for line in lines)
        return block_of(lines) if is_meant else None

    return [with_others(statement, as_block) for statement in statements]


def key_of(statement: cst.CSTNode) -> str:
    """What two statements have in common that are the same but for their formatting."""
    if is_gap(statement):
        return "..."
    code = code_of(statement.with_changes(leading_lines=[]))
    try:
        return ast.dump(ast.parse(code))
    except SyntaxError:
        return code  # of a newer Python
