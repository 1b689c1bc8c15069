"""What differs between two versions of a Python file: definitions, statements, headers."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import Block, Definition, SourceCode, Statement

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Statements with this share of their words in common are taken for one that changed.
_LIKE = 0.6
# So many statements of each side are looked at, and so many words of each.
_MOST_STATEMENTS = 12
_MOST_WORDS = 400
_WORD = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True)
class CodeDifference:
    """Statements of a block that became others, or the header of one.

    `before` and `after` are ranges of lines, comments and blank lines included. `old` became `new`;
    an insertion has no `old`, a deletion no `new`. With `part`, only this header of the one
    statement differs. Where `old` and `new` are the same code, comments or blank lines differ.
    """

    old: tuple[Statement, ...]
    new: tuple[Statement, ...]
    before: tuple[int, int]
    after: tuple[int, int]
    blocks: tuple[Block, Block]
    # Where the statements begin in the blocks.
    indices: tuple[int, int]
    part: int | None = None

    @property
    def scope(self) -> tuple[str, ...]:
        """The qualified name of the definition that the block is in; its header is made already."""
        return self.blocks[1].scope

    @property
    def nodes(self) -> tuple[ast.AST, ast.AST] | None:
        """What one statement, or a header, was and is; None for several statements."""
        if len(self.old) != 1 or len(self.new) != 1:
            return None
        if self.part is None:
            return self.old[0].node, self.new[0].node
        return self.old[0].parts[self.part].owner, self.new[0].parts[self.part].owner

    def neighbours(self) -> tuple[Statement | None, Statement | None]:
        """The statements of the new block above and below, which the old one has as well."""
        block, start = self.blocks[1].statements, self.indices[1]
        above = block[start - 1] if start else None
        stop = start + len(self.new)
        return above, block[stop] if stop < len(block) else None


def differences(before: SourceCode, after: SourceCode) -> list[CodeDifference]:
    """Return what differs, in the order of the file; the ranges of lines do not overlap."""
    changes = list(_Comparison(before, after).blocks(before.block, after.block))
    ends = before.block.statements[-1].end if before.block.statements else 0
    others = after.block.statements[-1].end if after.block.statements else 0
    rest = before.lines_of(ends, len(before.lines)), after.lines_of(others, len(after.lines))
    if rest[0] != rest[1]:
        counts = len(before.block.statements), len(after.block.statements)
        lines = (ends, len(before.lines)), (others, len(after.lines))
        changes.append(CodeDifference((), (), *lines, (before.block, after.block), counts))
    return changes


@dataclass(frozen=True)
class _Comparison:
    before: SourceCode
    after: SourceCode

    def blocks(self, old: Block, new: Block) -> Iterator[CodeDifference]:
        texts = [
            [code.lines_of(s.first, s.end) for s in block.statements]
            for code, block in ((self.before, old), (self.after, new))
        ]
        matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
        for tag, first, last, other_first, other_last in matcher.get_opcodes():
            if tag != "equal":
                yield from self._changes(old, (first, last), new, (other_first, other_last))

    def _changes(
        self, old: Block, olds: tuple[int, int], new: Block, news: tuple[int, int]
    ) -> Iterator[CodeDifference]:
        i, j = olds[0], news[0]
        for at, new_at in [*self._pairs(old, olds, new, news), (olds[1], news[1])]:
            group = self._group(old, (i, at), new, (j, new_at)) if at > i or new_at > j else None
            i, j = at + 1, new_at + 1
            if at == olds[1]:
                if group is not None:
                    yield group
                break
            above = self._above(old, at, new, new_at)
            if group is not None and above is not None:
                # What is inserted took the blank lines of the statement below, or gave it some.
                lines = (group.before[0], above.before[1]), (group.after[0], above.after[1])
                group, above = replace(group, before=lines[0], after=lines[1]), None
            yield from filter(None, (group, above))
            yield from self._pair(old, at, new, new_at)

    def _pairs(
        self, old: Block, olds: tuple[int, int], new: Block, news: tuple[int, int]
    ) -> list[tuple[int, int]]:
        """Which statement became which: by the code without comments, by a name, by a target."""
        lefts, rights = old.statements[slice(*olds)], new.statements[slice(*news)]
        pairs: list[tuple[int, int]] = []
        for keys in (_same_code, _same_subject):
            pairs = _pair_by_key(pairs, [keys(s) for s in lefts], [keys(s) for s in rights])
        pairs = _pair_remaining(pairs, lefts, rights)
        if len(pairs) < min(len(lefts), len(rights)):
            words = [
                [_WORD.findall(code.lines_of(s.top, s.end)) for s in side]
                for code, side in ((self.before, lefts), (self.after, rights))
            ]
            pairs = _pair_similar(pairs, (lefts, rights), words)
        return [(olds[0] + i, news[0] + j) for i, j in pairs]

    def _group(
        self, old: Block, olds: tuple[int, int], new: Block, news: tuple[int, int]
    ) -> CodeDifference:
        lines = [
            (_line(block, bounds[0]), _line(block, bounds[1]))
            for block, bounds in ((old, olds), (new, news))
        ]
        statements = old.statements[slice(*olds)], new.statements[slice(*news)]
        return CodeDifference(*statements, lines[0], lines[1], (old, new), (olds[0], news[0]))

    def _above(self, old: Block, i: int, new: Block, j: int) -> CodeDifference | None:
        """What differs in the comments and blank lines above a statement that is still there."""
        one, other = old.statements[i], new.statements[j]
        above = (one.first, one.top), (other.first, other.top)
        if self.before.lines_of(*above[0]) == self.after.lines_of(*above[1]):
            return None
        return CodeDifference((), (), *above, (old, new), (i, j))

    def _pair(self, old: Block, i: int, new: Block, j: int) -> Iterator[CodeDifference]:
        one, other = old.statements[i], new.statements[j]
        blocks, indices = (old, new), (i, j)
        parts = list(self._parts(one, other))
        for part, lines in enumerate(parts):
            if self.before.lines_of(*lines[0]) != self.after.lines_of(*lines[1]):
                yield CodeDifference((one,), (other,), *lines, blocks, indices, part)
            yield from self.blocks(one.parts[part].body, other.parts[part].body)
        lines = (one.top, one.end), (other.top, other.end)
        if not parts and self.before.lines_of(*lines[0]) != self.after.lines_of(*lines[1]):
            yield CodeDifference((one,), (other,), *lines, blocks, indices)

    def _parts(
        self, old: Statement, new: Statement
    ) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """The lines of the headers of a compound statement that still has the same blocks."""
        kinds = [[type(p.owner) for p in each.parts] for each in (old, new)]
        if type(old.node) is type(new.node) and kinds[0] == kinds[1]:
            for one, other in zip(old.parts, new.parts, strict=True):
                yield (one.start, one.body.first), (other.start, other.body.first)


def _line(block: Block, index: int) -> int:
    """The line at which a statement of a block begins; behind the last one, the block's end."""
    if index < len(block.statements):
        return block.statements[index].first
    return block.statements[-1].end if block.statements else block.first


def _same_code(statement: Statement) -> str:
    return ast.dump(statement.node)


def _same_subject(statement: Statement) -> str:
    """What a statement is about, as its code may change."""
    node = statement.node
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            about = node.name
        case ast.Assign():
            about = ", ".join(map(ast.unparse, node.targets))
        case ast.AnnAssign() | ast.AugAssign() | ast.For():
            about = ast.unparse(node.target)
        case ast.ImportFrom():
            about = f"{'.' * node.level}{node.module}"
        case ast.Expr(value=ast.Call(func=func)):
            about = ast.unparse(func)
        case ast.If() | ast.While():
            about = ast.unparse(node.test)
        case ast.Return() | ast.With() | ast.Try():
            about = ""
        case _:
            about = ast.dump(node)
    # An annotation may come or go.
    kind = "Assign" if isinstance(node, ast.AnnAssign) else type(node).__name__
    return f"{kind} {about}"


def _pair_by_key(
    known: Sequence[tuple[int, int]], lefts: Sequence[str], rights: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs with the same key between pairs that are known."""
    pairs = list(known)
    for olds, news in _gaps(known, (len(lefts), len(rights))):
        i, j = olds.start, news.start
        matcher = SequenceMatcher(None, lefts[olds], rights[news], autojunk=False)
        for start, other, size in matcher.get_matching_blocks():
            pairs += [(i + start + k, j + other + k) for k in range(size)]
    return sorted(pairs)


def _pair_remaining(
    known: Sequence[tuple[int, int]], lefts: Sequence[Statement], rights: Sequence[Statement]
) -> list[tuple[int, int]]:
    """Pair what is left between pairs one by one, if there are as many on both sides."""
    pairs = list(known)
    for olds, news in _gaps(known, (len(lefts), len(rights))):
        if len(lefts[olds]) == len(rights[news]):
            pairs += [
                (olds.start + k, news.start + k)
                for k, (one, other) in enumerate(zip(lefts[olds], rights[news], strict=True))
                if not isinstance(one.node, Definition) and not isinstance(other.node, Definition)
            ]
    return sorted(pairs)


def _pair_similar(
    known: Sequence[tuple[int, int]],
    sides: tuple[Sequence[Statement], Sequence[Statement]],
    words: Sequence[Sequence[Sequence[str]]],
) -> list[tuple[int, int]]:
    """Pair statements of a kind that have most of their words in common, in their order."""
    pairs = list(known)
    for olds, news in _gaps(known, (len(sides[0]), len(sides[1]))):
        shares = {
            (i, j): _share(words[0][i], words[1][j])
            for i in range(*olds.indices(olds.start + _MOST_STATEMENTS))
            for j in range(*news.indices(news.start + _MOST_STATEMENTS))
            if type(sides[0][i].node) is type(sides[1][j].node)
        }
        while shares:
            best = max(shares, key=lambda pair: shares[pair])
            if shares[best] <= _LIKE:
                break
            pairs.append(best)
            # A pair may not cross it.
            shares = {
                (i, j): share
                for (i, j), share in shares.items()
                if (i < best[0] and j < best[1]) or (i > best[0] and j > best[1])
            }
    return sorted(pairs)


def _share(one: Sequence[str], other: Sequence[str]) -> float:
    """How many of the words of two codes are the same, at the same place of their order."""
    matcher = SequenceMatcher(None, one[:_MOST_WORDS], other[:_MOST_WORDS], autojunk=False)
    return matcher.ratio() if matcher.quick_ratio() > _LIKE else 0.0


def _gaps(
    known: Sequence[tuple[int, int]], lengths: tuple[int, int]
) -> Iterator[tuple[slice, slice]]:
    """What lies between pairs, on the left and on the right."""
    i = j = 0
    for at, new_at in [*known, lengths]:
        yield slice(i, at), slice(j, new_at)
        i, j = at + 1, new_at + 1
