"""The lines of one statement, with the tokens and the brackets of each."""

from __future__ import annotations

import io
import tokenize
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.codemods.wrapping import Bracket, Part, Word

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_NO_CODE = frozenset(
    [tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER]
)


@dataclass(eq=False)
class BracketPair:
    """Brackets, by the numbers of their lines, and the column of the opening one.

    `is_last` says that nothing is behind the opening one in its line; `is_group`, that they hold a
    part of an expression, and not arguments, parameters or an index.
    """

    start: int
    column: int
    end: int
    is_group: bool
    is_last: bool = False


@dataclass
class TokenLine:
    """A line of a statement. `within` are the brackets that it begins in.

    `parts` are None where a bracket has its other half in another line. `is_code` is False for
    what is inside a string. `closes` are the brackets that the first token closes.
    """

    indent: int
    is_code: bool = True
    within: BracketPair | None = None
    closes: BracketPair | None = None
    opened: list[BracketPair] = field(default_factory=list)
    parts: tuple[Part, ...] | None = None
    comment: str = ""
    is_def: bool = False


@dataclass(frozen=True)
class _Token:
    text: str
    start: tuple[int, int]
    end: tuple[int, int]
    is_string: bool = False
    is_comment: bool = False


def lines_of(texts: Sequence[str]) -> list[TokenLine] | None:
    """The lines of one statement, or of its header; None where Python's tokens do not tell."""
    try:
        tokens = list(_tokens("\n".join(texts) + "\n"))
    except (tokenize.TokenError, SyntaxError):
        return None
    lines = [
        TokenLine(len(text) - len(text.lstrip(" ")), is_code=bool(text.strip())) for text in texts
    ]
    by_row: dict[int, list[_Token]] = {}
    open_pairs: list[BracketPair] = []
    previous: _Token | None = None
    for token in tokens:
        row = token.start[0]
        line = lines[row]
        own = by_row.setdefault(row, [])
        if not own:
            line.within = open_pairs[-1] if open_pairs else None
        if token.text in _CLOSING and not token.is_string:
            is_group = not (previous and Word("", previous.text, previous.is_string).is_operand)
            is_group = is_group and not (previous and previous.text in _CLOSING.values())
            pair = BracketPair(row, token.start[1], row, is_group)
            line.opened.append(pair)
            open_pairs.append(pair)
        elif token.text in _CLOSING.values() and not token.is_string:
            if not open_pairs:
                return None  # the header of its block ends in its first line
            pair = open_pairs.pop()
            pair.end = row
            if not own:
                line.closes, line.within = pair, open_pairs[-1] if open_pairs else None
        for inner in range(row + 1, token.end[0] + 1):
            lines[inner].is_code = False
        own.append(token)
        previous = previous if token.is_comment else token
    for row, own in by_row.items():
        _fill(lines[row], own, texts[row])
    return lines


def _tokens(source: str) -> Iterator[_Token]:
    """The tokens with lines from 0, up to the end of the first statement. A string is one."""
    depth = 0
    start = (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        first, last = ((row - 1, column) for row, column in (token.start, token.end))
        name = tokenize.tok_name[token.type]
        if name.endswith("STRING_START"):
            start = start if depth else first
            depth += 1
        elif name.endswith("STRING_END"):
            depth -= 1
            if not depth:
                yield _Token('""', start, last, is_string=True)
        elif token.type == tokenize.NEWLINE:
            return
        elif not depth and token.type not in _NO_CODE:
            yield _Token(
                token.string,
                first,
                last,
                token.type == tokenize.STRING,
                token.type == tokenize.COMMENT,
            )


def _fill(line: TokenLine, tokens: list[_Token], text: str) -> None:
    line.is_def = "def" in [token.text for token in tokens[:2]]
    if tokens[-1].is_comment:
        at = tokens.pop().start[1]
        line.comment = text[len(text[:at].rstrip()) :].rstrip() if tokens else ""
    if not tokens:
        return
    if line.opened and tokens[-1].text in _CLOSING and not line.comment:
        line.opened[-1].is_last = True
    has_inner_lines = any(token.end[0] != token.start[0] for token in tokens)
    if not has_inner_lines and line.is_code:
        line.parts = _parts(tokens, text)


def _parts(tokens: Sequence[_Token], text: str) -> tuple[Part, ...] | None:
    """The tokens of a line as a tree of brackets; None where a bracket has no other half."""
    stack: list[tuple[str, str, list[Part]]] = [("", "", [])]
    at = tokens[0].start[1]
    for token in tokens:
        gap, code = text[at : token.start[1]], text[token.start[1] : token.end[1]]
        at = token.end[1]
        if token.is_string or code not in {*_CLOSING, *_CLOSING.values()}:
            stack[-1][2].append(Word(gap, code, token.is_string))
        elif code in _CLOSING:
            stack.append((gap, code, []))
        else:
            before, opening, inside = stack.pop()
            if _CLOSING.get(opening) != code:
                return None
            stack[-1][2].append(Bracket(before, opening, tuple(inside), gap, code))
    return tuple(stack[0][2]) if len(stack) == 1 else None
