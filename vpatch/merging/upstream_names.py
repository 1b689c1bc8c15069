"""Names that upstream gave to what it had before, read from two releases of the same code."""

from __future__ import annotations

import builtins
import io
import keyword
import re
import tokenize
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_KNOWN = frozenset([*keyword.kwlist, *keyword.softkwlist, *dir(builtins), "self", "cls"])
# So many uses of a name, and this part of them, must show which name it has now.
_LEAST, _SHOWN = 2, 0.5


@dataclass(frozen=True)
class NameToken:
    """A name in code. `is_local` is not an attribute, and not the name of an argument."""

    text: str
    line: int
    column: int
    is_local: bool


def name_tokens(text: str) -> list[NameToken]:
    """The names in a piece of code, as far as it can be read; no keywords and no builtins."""
    tokens = _tokens(text)
    marks = [one for one in tokens if one.type not in _LAYOUT]
    names = []
    depth = 0
    for number, one in enumerate(marks):
        depth += (one.string in "([{") - (one.string in ")]}") if one.type == tokenize.OP else 0
        if one.type != tokenize.NAME or one.string in _KNOWN:
            continue
        before = marks[number - 1].string if number else ""
        after = marks[number + 1].string if number + 1 < len(marks) else ""
        is_local = before != "." and not (after == "=" and depth > 0)
        names.append(NameToken(one.string, one.start[0], one.start[1], is_local))
    return names


_LAYOUT = {
    tokenize.NEWLINE,
    tokenize.NL,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.COMMENT,
    tokenize.ENDMARKER,
}


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    tokens: list[tokenize.TokenInfo] = []
    # A part of a statement may end anywhere.
    with suppress(tokenize.TokenError, SyntaxError):
        for one in tokenize.generate_tokens(io.StringIO(text).readline):
            tokens.append(one)  # noqa: PERF402 - those before an error count
    return tokens


@lru_cache(maxsize=64)
def renames(before: str, after: str, *, local: bool) -> dict[str, str]:
    """The names that went from one text to the other, by the names that clearly took their place.

    Args:
        before: the code in the old release.
        after: the same code in the new one.
        local: whether only names count that are no attributes and no names of arguments.
    """
    sides = [
        [one for one in name_tokens(text) if one.is_local or not local] for text in (before, after)
    ]
    counts = [Counter(one.text for one in side) for side in sides]
    pairs: Counter[tuple[str, str]] = Counter()
    for one, other in _replaced_lines(before, after):
        pairs.update(_pairs(one, other))
    names: dict[str, str] = {}
    for (old, new), number in pairs.items():
        if old not in counts[0] or old in counts[1] or new not in counts[1] or new in counts[0]:
            continue
        others = [pair for pair in pairs if pair != (old, new) and (old in pair or new in pair)]
        if number >= max(_LEAST, _SHOWN * counts[0][old]) and not others:
            names[old] = new
    return names


def _replaced_lines(before: str, after: str) -> Iterator[tuple[list[str], list[str]]]:
    old, new = ([line.strip() for line in text.splitlines()] for text in (before, after))
    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    yield from ((old[a:b], new[c:d]) for tag, a, b, c, d in codes if tag == "replace")


_TOKEN = re.compile(r"\w+|[^\w\s]")
_MOST = 3000


def _pairs(old: list[str], new: list[str]) -> Iterator[tuple[str, str]]:
    """The names that have each other's place, between the same words."""
    words: list[list[str]] = [_TOKEN.findall("\n".join(side)) for side in (old, new)]
    if max(map(len, words)) > _MOST:
        return
    codes = SequenceMatcher(None, words[0], words[1], autojunk=False).get_opcodes()
    for tag, first, last, begin, end in codes:
        if tag == "replace" and last - first == end - begin:
            for one, other in zip(words[0][first:last], words[1][begin:end], strict=True):
                if one.isidentifier() and other.isidentifier() and not {one, other} & _KNOWN:
                    yield one, other


def with_names(text: str, names: Mapping[str, str], *, local: bool) -> str:
    """A text with other names in its code; strings and comments stay."""
    lines = text.splitlines(keepends=True)
    for one in reversed(name_tokens(text)):
        if one.text in names and (one.is_local or not local):
            line = lines[one.line - 1]
            end = one.column + len(one.text)
            lines[one.line - 1] = line[: one.column] + names[one.text] + line[end:]
    return "".join(lines)
