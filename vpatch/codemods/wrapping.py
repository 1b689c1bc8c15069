"""Break a line that is too long at its brackets and operators, as `ruff format` does.

Source: Black's style as ruff has it. What is in the brackets goes on a line of its own; where that
is too long, each element goes on one, with a comma behind the last.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# ruff's own limit, which vLLM keeps.
WIDTH = 88
STEP = 4
_ASSIGNMENTS = frozenset(
    ["=", "+=", "-=", "*=", "/=", "//=", "%=", "@=", "&=", "|=", "^=", ">>=", "<<=", "**="]
)
# What an expression follows in its statement, and what ends one.
_STARTS = frozenset(["return", "if", "elif", "while", "assert", "del", "raise", "with", "@"])
_BLOCKS = frozenset(["if", "elif", "while", "for", "with", "async"])
_ENDS = {"raise": "from", "with": "as"}
# From the operator that binds least; `for` is that of a comprehension.
_OPERATORS = (
    ("if", "else"),
    ("or", "and"),
    ("in", "not", "is", "<", ">", "==", ">=", "<=", "!="),
    ("|",),
    ("^",),
    ("&",),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "@", "/", "%", "//"),
)
_RANKS = {word: rank for rank, words in enumerate(_OPERATORS) for word in words}
_STRINGS = len(_OPERATORS)


@dataclass(frozen=True)
class Word:
    """A token, with the space in front of it."""

    gap: str
    text: str
    is_string: bool = False
    opening = ""

    @property
    def is_operand(self) -> bool:
        if self.is_string or self.text in {"True", "False", "None", "..."}:
            return True
        first = self.text[0]
        return (first.isalnum() or first in "_.") and self.text != "." and not iskeyword(self.text)

    def __str__(self) -> str:
        return f"{self.gap}{self.text}"


@dataclass(frozen=True)
class Bracket:
    """Brackets and what is in them. `space` is in front of the closing one."""

    gap: str
    opening: str
    inside: tuple[Part, ...]
    space: str
    closing: str

    text = ""
    is_operand = True

    def __str__(self) -> str:
        return f"{self.gap}{self.opening}{_join(self.inside)}{self.space}{self.closing}"


Part = Word | Bracket
_Parts = tuple[Part, ...]


def _join(parts: Sequence[Part]) -> str:
    return "".join(map(str, parts))


def _line(indent: int, *texts: str) -> str:
    return " " * indent + "".join(texts)


def _bare(parts: _Parts) -> _Parts:
    """The parts without the space in front of the first."""
    return (replace(parts[0], gap=""), *parts[1:]) if parts else parts


# --- statements --------------------------------------------------------------------------------


def wrapped_statement(parts: _Parts, indent: int, comment: str = "") -> list[str]:
    """The lines of a statement, or of the header of one, that is on one line."""
    first = parts[0].text
    words = [part.text for part in parts]
    if ";" in words or (first in _BLOCKS and words[-1] != ":"):
        return [_line(indent, _join(parts), comment)]
    if first in {"def", "class"} or words[:2] == ["async", "def"]:
        at = next((i for i, part in enumerate(parts) if isinstance(part, Bracket)), None)
        if at is None or not _inside(parts[at]):
            return [_line(indent, _join(parts), comment)]
        return _break(parts, at, "", comment, indent, is_def=first != "class")
    start, end = _value_of(words)
    before, value, behind = _join(parts[:start]), parts[start:end], _join(parts[end:])
    if value and start:
        before, value = before + value[0].gap, _bare(value)
    suffix = behind + comment
    items, _ = _elements(value)
    if len(items) > 1 and words[0] not in {"assert", "del", "with", "import", "from"}:
        # A tuple without brackets gets them.
        lines = [line for item in items for line in _element(item, ",", indent + STEP)]
        return [_line(indent, before, "("), *lines, _line(indent, ")", suffix)]
    if len(items) > 1 or not value:
        return [_line(indent, _join(parts), comment)]
    return _expression(before, value, suffix, indent, is_free=True)


def _value_of(words: Sequence[str]) -> tuple[int, int]:
    """Where the expression of a statement begins and ends."""
    if words[0] == "async":
        start, end = _value_of(words[1:])
        return start + 1, end + 1
    end = len(words) - (words[-1] == ":")
    stop = _ENDS.get(words[0])
    if stop in words:
        end = words.index(stop)
    if words[0] in _STARTS:
        return 1, end
    if words[0] == "for":
        return words.index("in") + 1, end
    limit = words.index("lambda") if "lambda" in words else end
    signs = [i for i, word in enumerate(words[:limit]) if word in _ASSIGNMENTS]
    if signs:
        return signs[-1] + 1, end
    return 0, 0 if ":" in words else end


# --- expressions -------------------------------------------------------------------------------


def wrapped_elements(
    parts: _Parts, indent: int, *, is_def: bool, is_group: bool, comment: str = ""
) -> list[str]:
    """The lines of what is in brackets, where it is too long for one line."""
    items, has_comma = _elements(parts)
    comma = "," if has_comma or len(items) > 1 or (is_def and not is_group) else ""
    lines = [line for item in items for line in _element(item, comma, indent)]
    return [*lines[:-1], lines[-1] + comment]


def wrapped_element(parts: _Parts, indent: int, comment: str = "") -> list[str]:
    """The lines of one element in brackets, which may have a comma behind it."""
    items, has_comma = _elements(parts)
    if len(items) != 1:
        return [_line(indent, _join(parts), comment)]
    return _element(items[0], ("," if has_comma else "") + comment, indent)


def _expression(
    before: str, parts: _Parts, behind: str, indent: int, *, is_free: bool = False
) -> list[str]:
    """The lines of an expression, `is_free` if it is in no brackets."""
    flat = _line(indent, before, _join(parts), behind)
    if _fits(flat):
        return [flat]
    splits = _splits(parts)
    if not splits:
        return _without_operators(before, parts, behind, indent, is_free=is_free)
    if not is_free:
        return _in_lines(before, parts, splits, behind, indent)
    last, is_index = parts[-1], parts[-1].opening == "[" and parts[-2].is_operand
    head = _line(indent, before, _join(parts[:-1]), last.gap, last.opening)
    if len(splits) == 1 and _inside(last) and not is_index and _fits(head):
        return _break(parts, len(parts) - 1, before, behind, indent)
    return _in_brackets(before, parts, behind, indent)


def _in_lines(
    before: str, parts: _Parts, splits: Sequence[int], behind: str, indent: int
) -> list[str]:
    """The lines of operands or of a chain; an operator leads its line."""
    lines: list[str] = []
    for start, end in zip([0, *splits], [*splits, len(parts)], strict=True):
        own, sign = _bare(parts[start:end]), "" if start else before
        if start and not own[0].is_operand:
            size = 2 if _join(own[:2]) in {"not in", "is not"} else 1
            sign, own = _join(own[:size]) + own[size].gap, _bare(own[size:])
        lines += _expression(sign, own, behind if end == len(parts) else "", indent)
    return lines


def _in_brackets(before: str, parts: _Parts, behind: str, indent: int) -> list[str]:
    inner = _expression("", _bare(parts), "", indent + STEP)
    return [_line(indent, before, "("), *inner, _line(indent, ")", behind)]


def _without_operators(
    before: str, parts: _Parts, behind: str, indent: int, *, is_free: bool
) -> list[str]:
    """Break the brackets that the line is too long in; with none, put it into brackets."""
    flat = [_line(indent, before, _join(parts), behind)]
    end = _lambda_in(parts)
    if end is not None and end != len(parts):
        head = before + _join(parts[: end + 1]) + parts[end + 1].gap
        return _expression(head, _bare(parts[end + 1 :]), behind, indent)
    places = [i for i, part in enumerate(parts) if isinstance(part, Bracket) and _inside(part)]
    links = [i for i in range(1, len(parts)) if parts[i].text == "." and parts[i - 1].opening]
    if is_free and not before:
        links = []
    if len(links) > 1 and is_free:
        return _in_brackets(before, parts, behind, indent)
    if len(links) > 1:
        # A chain of calls has a line for each but the first.
        return _in_lines(before, parts, links, behind, indent)
    for at, following in zip(places, [*places[1:], None], strict=False):
        head = before + _join(parts[: at + 1])
        if following is not None:
            upto = "".join(map(str, parts[at + 1 : following]))
            if _fits(_line(indent, head, upto, "(")):
                continue
        start = _line(indent, before, _join(parts[:at]), parts[at].gap, parts[at].opening)
        return _break(parts, at, before, behind, indent) if _fits(start) else flat
    # A comment behind a short value may be as long as it likes.
    if (
        is_free
        and before
        and "#" not in behind
        and _fits(_line(indent + STEP, _join(_bare(parts))))
    ):
        return _in_brackets(before, parts, behind, indent)
    return flat


def _break(
    parts: _Parts, at: int, before: str, behind: str, indent: int, *, is_def: bool = False
) -> list[str]:
    """Put what is in some brackets on lines of its own."""
    bracket = cast("Bracket", parts[at])
    head = _line(indent, before, _join(parts[:at]), bracket.gap, bracket.opening)
    tail = _line(indent, bracket.closing, _join(parts[at + 1 :]), behind)
    inside = _bare(bracket.inside)
    items, has_comma = _elements(inside)
    is_group = not (at and parts[at - 1].is_operand)
    one = _line(indent + STEP, _join(inside))
    is_literal = is_group and len(items) > 1
    if _fits(one) and not (has_comma or is_literal or (is_def and len(items) == 1)):
        return [head, one, tail]
    lines = wrapped_elements(inside, indent + STEP, is_def=is_def, is_group=is_group)
    return [head, *lines, tail]


def _element(parts: _Parts, behind: str, indent: int) -> list[str]:
    """The lines of an argument, a parameter, an entry or a comprehension."""
    flat = _line(indent, _join(parts), behind)
    if _fits(flat):
        return [flat]
    loops = _loops(parts)
    if loops:
        lines = _element(parts[: loops[0]], "", indent)
        for start, end in zip(loops, [*loops[1:], len(parts)], strict=True):
            clause = _bare(parts[start:end])
            words = [part.text for part in clause]
            size = words.index("in") + 1 if "in" in words and words[0] != "if" else 1
            head = _join(clause[:size]) + clause[size].gap
            last = behind if end == len(parts) else ""
            lines += _expression(head, _bare(clause[size:]), last, indent)
        return lines
    words = [part.text for part in parts]
    limit = words.index("lambda") if "lambda" in words else len(words)
    signs = [words.index(sign, 0, limit) for sign in ("=", ":") if sign in words[:limit]]
    start = signs[0] + 1 if signs else int(words[0] in {"*", "**"})
    if start == len(parts):
        return [flat]
    head = _join(parts[:start]) + (parts[start].gap if start else "")
    return _expression(head, _bare(parts[start:]), behind, indent)


# --- parts -------------------------------------------------------------------------------------


def _fits(line: str) -> bool:
    """Whether a line is short enough, not counting a comment for tools."""
    text, sign, comment = line.partition("  # ")
    is_for_tools = comment.startswith(("noqa", "type:", "pyright:", "pylint:", "mypy:", "ruff:"))
    return len(text if sign and is_for_tools else line) <= WIDTH


def _inside(part: Part) -> bool:
    return isinstance(part, Bracket) and bool(part.inside)


def _lambda_in(parts: _Parts) -> int | None:
    """The place of the colon of a lambda that some code begins with; its end without a colon."""
    if not parts or parts[0].text != "lambda":
        return None
    return next((i for i, part in enumerate(parts) if part.text == ":"), len(parts))


def _elements(parts: _Parts) -> tuple[list[_Parts], bool]:
    """What is between the commas, and whether a comma is behind the last."""
    items: list[list[Part]] = [[]]
    lambdas, is_loop = 0, False
    for part in parts:
        is_loop = is_loop or part.text == "for"
        if part.text == "lambda":
            lambdas += 1
        elif part.text == ":" and lambdas:
            lambdas -= 1
        if part.text == "," and not lambdas and not is_loop:
            items.append([])
        else:
            items[-1].append(part)
    has_comma = len(items) > 1 and not items[-1]
    return [_bare(tuple(item)) for item in items if item], has_comma


def _operators(parts: _Parts) -> Iterator[tuple[int, int]]:
    """The places of the operators between operands, with their ranks; none of a lambda's."""
    for i, (part, following) in enumerate(itertools.pairwise(parts), 1):
        if part.text == "lambda":
            return
        if (
            isinstance(part, Word)
            and isinstance(following, Word)
            and part.is_string
            and following.is_string
        ):
            yield i, _STRINGS
        elif part.is_operand and isinstance(following, Word) and not following.is_string:
            rank = _RANKS.get(following.text)
            if rank is not None:
                yield i, rank


def _splits(parts: _Parts) -> list[int]:
    """The places of the operators that bind least."""
    operators = list(_operators(parts))
    least = min((rank for _, rank in operators), default=None)
    return [i for i, rank in operators if rank == least]


def _loops(parts: _Parts) -> list[int]:
    """Where the clauses of a comprehension begin."""
    places: list[int] = []
    for i, part in enumerate(parts):
        if part.text == "lambda" and not places:
            return []
        if part.text == "for":
            places.append(i - (i > 0 and parts[i - 1].text == "async"))
        elif part.text == "if" and places:
            places.append(i)
    return places
