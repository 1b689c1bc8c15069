"""An expression or a statement that became another one."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, Case, Declared, one, within
from vpatch.deriving.code import (
    Pair,
    call_patterns,
    differing,
    header,
    mark_ellipses,
    narrowed,
    pattern,
    same,
    tells,
)
from vpatch.deriving.source_code import Definition, Function

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.deriving.source_code import SourceCode

# Longer patterns say more than what changes: a text says the same.
_MOST_LINES = 20
_MOST_PARTS = 6


def rewritten(case: Case) -> Iterator[Candidate]:
    """Propose `rewrite` of what differs, and then of the code around it."""
    pair = case.pair
    if pair is None:
        return
    for edit in _smallest(case, pair):
        yield one("rewrite", edit)
    old, new = case.difference.old[0].node, case.difference.new[0].node
    is_handler = isinstance(pair.old, ast.ExceptHandler)
    if is_handler and isinstance(old, ast.Try) and isinstance(new, ast.Try):
        texts = _handlers(case.before, old), _handlers(case.after, new)
        yield one("rewrite", within({"find": texts[0], "rewrite": texts[1]}, case.scope))


def each_part(case: Case) -> Iterator[Candidate]:
    """Propose a `rewrite` for each of several parts that differ."""
    pair = case.pair
    if pair is None:
        return
    parts = differing(list(narrowed(pair))[-1]) or []
    options = [list(itertools.islice(_smallest(case, part), 2)) for part in parts]
    if 1 < len(parts) <= _MOST_PARTS and all(options):
        for edits in itertools.islice(itertools.product(*options), 8):
            yield Candidate("rewrite", edits)


def _smallest(case: Case, pair: Pair) -> Iterator[Declared]:
    """Edits that rewrite what alone differs, and then more and more around it."""
    for inner in reversed(list(narrowed(pair))):
        yield from rewrites(case, inner)


def rewrites(case: Case, pair: Pair) -> Iterator[Declared]:
    """Edits that rewrite the old code of a pair as the new one."""
    scope = case.scope_of(pair.old)
    if _is_renamed(pair):
        scope = case.scope  # nothing has the old name any more
        if isinstance(pair.old, Function) and isinstance(pair.new, Function):
            find, rewrite = (f"def {each.name}(...): ..." for each in (pair.old, pair.new))
            yield within({"find": find, "rewrite": rewrite}, scope)
    if isinstance(pair.old, Function) and isinstance(pair.new, Function):
        yield from _with_other_return(pair, pair.old, pair.new, scope)
    # Of compound statements, with `...` for their blocks.
    old, new = (header(*side) or _definition(*side) for side in pair.sides)
    if old is not None and new is not None:
        texts = [(old, new)]
    elif not tells(pair.old) or (hasattr(pair.old, "body") and isinstance(pair.old, ast.stmt)):
        return
    else:
        texts = list(dict.fromkeys([*call_patterns(pair), pair.texts]))
    for find, rewrite in texts:
        if "$" in find + rewrite or find == rewrite or find.count("\n") >= _MOST_LINES:
            continue
        yield within({"find": find, "rewrite": rewrite}, scope)


def _with_other_return(
    pair: Pair, old: Function, new: Function, scope: tuple[str, ...]
) -> Iterator[Declared]:
    """An edit of the type that a function returns, if no more of its header differs."""
    if old.returns is None or new.returns is None or same(old.returns, new.returns):
        return
    if old.name == new.name and same(old.args, new.args):
        types = (pattern(pair.sources[0], old.returns), pattern(pair.sources[1], new.returns))
        find, rewrite = (f"def {old.name}(...) -> {each}: ..." for each in types)
        yield within({"find": find, "rewrite": rewrite}, scope)


def _is_renamed(pair: Pair) -> bool:
    names = [getattr(each, "name", None) for each in (pair.old, pair.new)]
    return isinstance(pair.old, Definition) and names[0] != names[1]


def _handlers(source: SourceCode, node: ast.Try) -> str:
    """A `try` with all of its handlers."""
    heads = ["try"]
    for each in node.handlers:
        kind = f" {pattern(source, each.type)}" if each.type else ""
        heads.append(f"except{kind}{f' as {each.name}' if each.name else ''}")
    return "\n".join(f"{head}:\n    ..." for head in heads)


def _definition(source: SourceCode, node: ast.AST) -> str | None:
    """The header of a class or function, with all that a pattern may leave out."""
    match node:
        case ast.ClassDef():
            inner = mark_ellipses(", ".join(map(ast.unparse, [*node.bases, *node.keywords])))
            head = f"class {node.name}({inner})" if inner else f"class {node.name}"
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
            returns = f" -> {pattern(source, node.returns)}" if node.returns else ""
            head = f"{word} {node.name}({mark_ellipses(ast.unparse(node.args))}){returns}"
        case _:
            return None
    marks = "".join(f"@{source.code(each)}\n" for each in node.decorator_list)
    return f"{marks}{head}: ..."
