"""Code of a file as patterns: with `...` for what does not matter, else as the file has it."""

from __future__ import annotations

import ast
import io
import tokenize
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import bounds_of, parsed_if_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.deriving.source_code import SourceCode, Statement

# Fields of a statement that are blocks, and no part of its header.
_BLOCKS = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})
_IGNORED = frozenset({"ctx", "type_comment", "kind"})
_SHORT = 60


@dataclass(frozen=True)
class Pair:
    """Code that became other code; each with its file, which has its text."""

    old: ast.AST
    new: ast.AST
    sources: tuple[SourceCode, SourceCode]

    @property
    def sides(self) -> tuple[tuple[SourceCode, ast.AST], tuple[SourceCode, ast.AST]]:
        """Each code with its file."""
        return (self.sources[0], self.old), (self.sources[1], self.new)

    @property
    def texts(self) -> tuple[str, str]:
        return pattern(self.sources[0], self.old), pattern(self.sources[1], self.new)


def same(one: ast.AST | None, other: ast.AST | None) -> bool:
    if one is None or other is None:
        return one is other
    return ast.dump(one) == ast.dump(other)


def narrowed(pair: Pair) -> Iterator[Pair]:
    """The pair itself, and then what alone differs in it, as deep as that is one part."""
    while True:
        yield pair
        parts = differing(pair)
        if parts is None or len(parts) != 1:
            return
        pair = parts[0]


def differing(pair: Pair) -> list[Pair] | None:
    """The parts of a pair that differ; None where the two are different in another way."""
    if type(pair.old) is not type(pair.new) or isinstance(pair.old, ast.JoinedStr):
        return None
    parts: list[Pair] = []
    for name in pair.old._fields:
        if name in _IGNORED or (name in _BLOCKS and not isinstance(pair.old, _WITH_BODY)):
            continue
        old, new = getattr(pair.old, name), getattr(pair.new, name)
        lists = isinstance(old, list) and isinstance(new, list)
        if lists and len(old) != len(new):
            return None
        for one, other in zip(old, new, strict=True) if lists else [(old, new)]:
            if isinstance(one, ast.AST) and isinstance(other, ast.AST):
                if not same(one, other):
                    parts.append(Pair(one, other, pair.sources))
            elif one != other:
                return None
    return parts


# Their body is an expression.
_WITH_BODY = (ast.IfExp, ast.Lambda, ast.Expression)


def pattern(source: SourceCode, node: ast.AST) -> str:
    """The text of an expression or statement, with Python's own Ellipsis as `(...)`.

    Its lines are indented as if its statement was at the left margin. An expression of several
    lines has the brackets that hold these together.
    """
    if not isinstance(node, (ast.stmt, ast.expr)):
        return ast.unparse(node)
    text = moved(source.code(node), source.indent_of(node))
    if "\n" in text and isinstance(node, ast.expr) and not parsed_if_python(text).body:
        bracketed = source.in_brackets(node)
        return f"({text})" if bracketed is None else moved(bracketed, source.indent_of(node))
    return text


def argument(source: SourceCode, node: ast.expr | ast.keyword) -> str:
    """The text of an argument, as if its line was at the left margin."""
    if isinstance(node, ast.keyword) and node.arg is None:
        return f"**{pattern(source, node.value)}"
    # A keyword has the parentheses around its value, which that node has not.
    starts_line = not source.lines[node.lineno - 1][: node.col_offset].strip()
    indent = node.col_offset if starts_line else source.indent_of(node)
    return moved(source.code(node), indent)


def with_instead(source: SourceCode, outer: ast.AST, inner: ast.AST, text: str) -> str:
    """The text of an expression or statement, with another text for an expression in it."""
    (first, last), (start, end) = bounds_of(outer), bounds_of(inner)
    whole = f"{source.between(first, start)}{_INSTEAD}{source.between(end, last)}"
    return moved(whole, source.indent_of(outer)).replace(_INSTEAD, text)


_INSTEAD = "vpatch_instead"


def moved(code: str, indent: int) -> str:
    """Code that begins at a column, as if it began at the left margin."""
    if "\n" in code:
        code = dedented(" " * indent + code)
    return mark_ellipses(code).rstrip()


def mark_ellipses(code: str) -> str:
    """Code of a file as a pattern, with Python's own Ellipsis as `(...)`."""
    if "..." not in code:
        return code
    lines = code.split("\n")
    for token in reversed(_tokens(code)):
        if token.string == "..." and token.type == tokenize.OP:
            row, column = token.start
            line = lines[row - 1]
            lines[row - 1] = f"{line[:column]}(...){line[column + 3 :]}"
    return "\n".join(lines)


def _tokens(code: str) -> list[tokenize.TokenInfo]:
    tokens = []
    try:
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            tokens.append(token)  # noqa: PERF402 - what was read before an error counts
    except (tokenize.TokenError, IndentationError):
        pass
    return tokens


def dedented(code: str) -> str:
    """The same code without its indentation; lines inside of strings stay as they are."""
    lines = code.split("\n")
    first = next((line for line in lines if line.strip() and line.strip()[0] != "#"), "")
    indent = len(first) - len(first.lstrip(" "))
    inside = {
        row
        for token in _tokens("if 1:\n" + code if indent else code)
        if token.type == tokenize.STRING
        for row in range(token.start[0] + 1, token.end[0] + 1)
    }
    shift = 1 if indent else 0
    return "\n".join(
        line if number + shift in inside or line[:indent].strip() else line[indent:]
        for number, line in enumerate(lines, 1)
    )


def comments_of(code: str) -> list[tuple[int, str]]:
    """The comments of some code in order, each with its line, counted from 1."""
    tokens = (token for token in _tokens(code) if token.type == tokenize.COMMENT)
    return [(token.start[0], token.string) for token in tokens]


def tells(node: ast.AST) -> bool:
    """Whether code is enough by itself to find a place by: more than a name or a value."""
    if isinstance(node, (ast.Name, ast.Constant, ast.JoinedStr, ast.keyword, ast.arg, ast.alias)):
        return False
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return True
    if not isinstance(node, (ast.expr, ast.stmt)):
        return False
    return any(isinstance(each, (ast.Name, ast.Attribute)) for each in ast.walk(node))


def call_patterns(pair: Pair) -> Iterator[tuple[str, str]]:
    """Two calls with `...` for arguments that stay: for all of them, and without neighbours."""
    old, new = pair.old, pair.new
    if not isinstance(old, ast.Call) or not isinstance(new, ast.Call):
        return
    inside = [each for each in ast.walk(new) if isinstance(each, ast.Call) and same(each, old)]
    if len(inside) == 1 and len([*old.args, *old.keywords]) > 1:
        call = f"{pattern(pair.sources[0], old.func)}(...)"
        yield call, with_instead(pair.sources[1], new, inside[0], call)
    heads = pattern(pair.sources[0], old.func), pattern(pair.sources[1], new.func)
    for neighbours in (False, True):
        olds, news = _arguments(pair, old, new, neighbours=neighbours)
        yield f"{heads[0]}({', '.join(olds)})", f"{heads[1]}({', '.join(news)})"


def _arguments(
    pair: Pair, old: ast.Call, new: ast.Call, *, neighbours: bool
) -> tuple[list[str], list[str]]:
    """The arguments of two calls, with `...` for those that stay.

    With `neighbours`, the argument in front of what changes stays as it is: it says where that is.
    """
    items: list[list[ast.expr | ast.keyword]] = [[*c.args, *c.keywords] for c in (old, new)]
    texts, others = (
        [argument(source, each) for each in side]
        for source, side in zip(pair.sources, items, strict=True)
    )
    dumps = [[ast.dump(each) for each in side] for side in items]
    olds: list[str] = []
    news: list[str] = []
    matcher = SequenceMatcher(None, dumps[0], dumps[1], autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag != "equal":
            olds += texts[first:last]
            news += others[other_first:other_last]
            continue
        gap = ["..."]
        if neighbours and last < len(texts) + (other_last < len(others)):
            gap = ["...", texts[last - 1]] if last - first > 1 else [texts[last - 1]]
        olds += gap
        news += gap
    return with_single_gaps(olds), with_single_gaps(news)


def with_single_gaps(items: Sequence[str]) -> list[str]:
    """One gap where several follow each other."""
    return [item for n, item in enumerate(items) if item != "..." or items[n - 1 : n] != ["..."]]


def header(source: SourceCode, node: ast.AST) -> str | None:
    """The header of a block as a pattern, with `...` for the block; None for other statements."""
    match node:
        case ast.If() | ast.While():
            head = f"{type(node).__name__.lower()} {pattern(source, node.test)}"
        case ast.For():
            head = f"for {pattern(source, node.target)} in {pattern(source, node.iter)}"
        case ast.With():
            head = f"with {', '.join(map(ast.unparse, node.items))}"
        case _:
            return None
    return f"{head}:\n    ..."


def named(source: SourceCode, node: ast.AST) -> list[str]:
    """Patterns of a statement, from the one that says least to all of its code."""
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [f"def {node.name}(...): ..."]  # `async` may be left out
        case ast.ClassDef():
            return [f"class {node.name}: ..."]
        case ast.ImportFrom(names=[first, *_], level=0) if first.name != "*":
            # It is found among others of the same module as well.
            return [f"from {node.module} import {ast.unparse(first)}"]
        case ast.Expr(value=ast.Constant()):
            return []  # a docstring
    head = header(source, node)
    if head is not None:
        return [head]
    return [] if hasattr(node, "body") else list(_of_simple(source, node))


def _of_simple(source: SourceCode, node: ast.AST) -> Iterator[str]:
    whole = pattern(source, node)
    if len(whole) <= _SHORT and "\n" not in whole:
        yield whole
    value = getattr(node, "value", None)
    match node:
        case ast.Assign(targets=[target]):
            head = f"{pattern(source, target)} = "
        case ast.AnnAssign(target=target, value=ast.expr()):
            head = f"{pattern(source, target)} = "
        case _:
            head = "return " if isinstance(node, ast.Return) else ""
    if isinstance(value, ast.Call):
        yield f"{head}{pattern(source, value.func)}(...)"
    if " = " in head:
        yield f"{head}$_"
    yield whole


def names_in(statements: Sequence[Statement]) -> tuple[set[str], set[str]]:
    """The names that some statements bind, and those that they read."""
    bound: set[str] = set()
    read: set[str] = set()
    for node in (n for s in statements for n in ast.walk(s.node)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()):
                read.add(name)
            case ast.Name(id=name):
                bound.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ctx):
                (read if isinstance(ctx, ast.Load) else bound).add(f"self.{name}")
            case ast.alias():
                bound.add(node.asname or node.name.partition(".")[0])
    bound |= {s.name for s in statements if s.name is not None}
    return bound, read
