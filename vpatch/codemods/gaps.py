"""`...` in a pattern, spelt so that libcst can parse it.

Python itself takes `...` as an argument of a call, as a statement and as an entry of a list. It
takes none as a parameter of a `def`, behind a keyword of a call, or in a dict. There the gap
becomes a name that `is_gap` knows.
"""

from __future__ import annotations

import io
import keyword
import tokenize
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.codemods.nodes import GAP_PARAMETER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Tokens = Sequence[tokenize.TokenInfo]

_BLANK = {tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT}
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


def spell_gaps(source: str) -> str:
    """The same code with each `...` that Python does not take replaced by a name."""
    if "..." not in source:
        return source
    try:
        tokens = [
            token
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type not in _BLANK
        ]
    except (tokenize.TokenError, IndentationError):
        return source  # libcst says what is wrong
    # Not splitlines(): to the tokens, a form feed or a separator of Unicode ends no line.
    lines = source.split("\n")
    for token, text in sorted(_respell(tokens), key=lambda item: item[0].start, reverse=True):
        row, column = token.start
        line = lines[row - 1]
        lines[row - 1] = line[:column] + text + line[column + len("...") :]
    return "\n".join(lines)


def _respell(tokens: Tokens) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    in_def = depth = in_text = 0
    for index, token in enumerate(tokens):
        # From Python 3.12 on, an f-string is several tokens.
        kind = tokenize.tok_name[token.type]
        in_text += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if token.type == tokenize.NAME and token.string == "def":
            in_def = depth + 1
        elif token.string == "(" and in_def == depth + 1:
            yield from _parameters(list(_items(tokens, index + 1)))
            in_def = 0
        elif token.string == "(" and index and _is_called(tokens[index - 1]):
            is_class = index > 1 and tokens[index - 2].string == "class"
            yield from _arguments(list(_items(tokens, index + 1)), "**" if is_class else "*")
        elif token.string == "{" and not in_text:
            yield from _entries(list(_items(tokens, index + 1)))
        if token.type == tokenize.OP:
            depth += (token.string in _OPENING) - (token.string in _CLOSING)


def _is_called(before: tokenize.TokenInfo) -> bool:
    if before.type == tokenize.NAME:
        return not keyword.iskeyword(before.string)
    return before.string in {")", "]"}


@dataclass(frozen=True)
class _Item:
    """The text between two commas."""

    first: tokenize.TokenInfo
    is_gap: bool
    has_value: bool
    has_key: bool


def _items(tokens: Tokens, start: int) -> Iterator[_Item]:
    """The items up to the closing bracket that belongs to what was opened before `start`."""
    item: list[tokenize.TokenInfo] = []
    depth = colons = 0
    has_value = False
    for token in tokens[start:]:
        ends = not depth and token.string in {",", *_CLOSING} and token.type == tokenize.OP
        if ends and item:
            yield _Item(item[0], len(item) == 1 and item[0].string == "...", has_value, colons > 0)
            item, has_value, colons = [], False, 0
        elif not ends:
            item.append(token)
            has_value |= not depth and token.string == "="
            # A lambda has a colon of its own.
            colons += not depth and token.string == ":"
            colons -= not depth and token.string == "lambda"
        if token.type == tokenize.OP:
            depth += (token.string in _OPENING) - (token.string in _CLOSING)
        if depth < 0:
            return


def _arguments(
    items: Sequence[_Item], behind_keyword: str
) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Give each gap behind a keyword the stars that libcst takes there."""
    stars = ""
    for item in items:
        if item.is_gap and stars:
            yield item.first, stars + GAP_PARAMETER
        elif item.first.string == "**":
            stars = "**"
        elif item.has_value:
            stars = stars or behind_keyword


def _entries(items: Sequence[_Item]) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Give each gap in a dict the form of an entry; braces with a gap alone are a dict, too."""
    if all(item.is_gap for item in items) or any(
        item.has_key or item.first.string == "**" for item in items
    ):
        yield from ((item.first, f"**{GAP_PARAMETER}") for item in items if item.is_gap)


def _parameters(items: Sequence[_Item]) -> Iterator[tuple[tokenize.TokenInfo, str]]:
    """Give each gap the form that Python's order of parameters has room for at that place."""
    has_star = has_default = False
    for index, item in enumerate(items):
        if item.is_gap and (has_star or not has_default):
            yield item.first, GAP_PARAMETER
        elif item.is_gap and _needs_a_value(items[index + 1 :]):
            has_star = True  # only a keyword may lack a default behind one that has some
            yield item.first, f"*{GAP_PARAMETER}"
        elif item.is_gap:
            yield item.first, f"{GAP_PARAMETER}={GAP_PARAMETER}"
        has_star |= item.first.string.startswith("*")
        has_default |= item.has_value


def _needs_a_value(items: Sequence[_Item]) -> bool:
    for item in items:
        if item.first.string.startswith("*"):
            return False
        if not item.is_gap and not item.has_value and item.first.string != "/":
            return True
    return False
