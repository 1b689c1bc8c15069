"""C++ as text: without comments, and with what is under a condition of the preprocessor marked."""

from __future__ import annotations

import re
from bisect import bisect
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

_SKIPPED = re.compile(
    r"//(?:\\\n|[^\n])*|/\*.*?(?:\*/|\Z)"
    r'|R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r"|\"(?:\\.|[^\"\\\n])*\"|(?<!\d)'(?:\\.|[^'\\\n])+'",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)((?:\\\n|[^\n])*)", re.MULTILINE)
_NOT_A_NEWLINE = re.compile(r"[^\n]")
_PAIRS = {"(": ")", "{": "}", "[": "]"}


@dataclass(frozen=True)
class CppText:
    """A source. `code` has blanks for comments and directives, and `x` for what texts hold.

    Both have the same offsets. `conditional` are the spans under `#if`, in order and without those
    inside others. `defined` are the values of plain macros, and `includes` offsets of `#include`.
    """

    text: str
    code: str
    conditional: tuple[tuple[int, int], ...]
    defined: dict[str, str]
    includes: tuple[int, ...]

    def is_conditional(self, offset: int) -> bool:
        number = bisect(self.conditional, offset, key=lambda span: span[0])
        return number > 0 and offset < self.conditional[number - 1][1]

    def line(self, offset: int) -> int:
        return self.code.count("\n", 0, offset) + 1

    @cached_property
    def _closings(self) -> dict[int, int]:
        closings: dict[int, int] = {}
        stack: list[tuple[int, str]] = []
        for match in re.finditer(r"[(){}\[\]]", self.code):
            if match[0] in _PAIRS:
                stack.append((match.start(), _PAIRS[match[0]]))
            elif stack and stack[-1][1] == match[0]:
                closings[stack.pop()[0]] = match.start()
        return closings

    def closing(self, offset: int) -> int | None:
        """Return where the bracket at an offset is closed."""
        return self._closings.get(offset)


def read_cpp(source: bytes) -> CppText:
    """Read a source. Nothing of it is expanded."""
    text = source.decode(errors="replace").replace("\r\n", "\n")
    code = _SKIPPED.sub(_hidden, text)
    directives = list(_DIRECTIVE.finditer(code))
    defined: dict[str, str] = {}
    spans: list[tuple[int, int]] = []
    dead: list[tuple[int, int]] = []
    # Each open `#if`: where it begins, and whether it only guards a header against a second read.
    open_ifs: list[tuple[int, bool]] = []
    for match, after in pairwise([*directives, None]):
        if match is None:
            break
        word, rest = match[1], match[2].strip()
        if word in {"if", "ifdef", "ifndef"}:
            is_next = after is not None and after[1] == "define" and after[2].split()[:1] == [rest]
            open_ifs.append((match.end(), word == "ifndef" and is_next))
            if word == "if" and rest == "0":
                dead.append((match.end(), after.start() if after else len(code)))
        elif word == "endif" and open_ifs:
            start, is_guard = open_ifs.pop()
            if not is_guard and all(other for _, other in open_ifs):
                spans.append((start, match.start()))
        elif word == "define" and re.fullmatch(r"\w+\s+\w+", rest):
            name, value = rest.split()
            # What has several values has none that is sure.
            defined[name] = value if defined.get(name, value) == value else ""
    spans += [(start, len(code)) for start, is_guard in open_ifs if not is_guard][:1]
    includes = tuple(match.start() for match in directives if match[1] == "include")
    code = _DIRECTIVE.sub(lambda match: _blank(match[0]), code)
    parts, end = [], 0
    for first, last in dead:
        parts += [code[end:first], _blank(code[first:last])]
        end = last
    return CppText(text, "".join([*parts, code[end:]]), tuple(spans), defined, includes)


def _hidden(match: re.Match[str]) -> str:
    """Return a comment as blanks, and a text with its quotes alone."""
    whole = match[0]
    if whole.startswith("/"):
        return _blank(whole)
    return f'"{_NOT_A_NEWLINE.sub("x", whole[1:-1])}"'


def _blank(text: str) -> str:
    return _NOT_A_NEWLINE.sub(" ", text)
