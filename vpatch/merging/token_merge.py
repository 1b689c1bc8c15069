"""Two changes of the same lines, word by word."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from itertools import pairwise

from vpatch.merging.hunks_of_sides import SideHunk, clusters, counterparts, side_hunks
from vpatch.merging.syntax import parses

_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")
_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|\w+|[^\w\s]")
_LONGEST = 4000
# The part of the words that upstream must have left as they were.
_ALIKE = 0.6


def merge_tokens(ours: str, base: str, theirs: str, *, backwards: bool) -> str | None:
    """The text of `ours` with the words that `theirs` has otherwise than `base`.

    None if both changed the same words, or neighbouring ones that are no arguments.
    """
    if max(map(len, (ours, base, theirs))) > _LONGEST or '"""' in base:
        return None
    tokens = [list(_TOKEN.finditer(text)) for text in (ours, base, theirs)]
    words = [[one.group() for one in side] for side in tokens]
    own = side_hunks(words[1], words[0], backwards=backwards)
    other = side_hunks(words[1], words[2], backwards=backwards)
    places = counterparts(own, len(words[1]))
    remaining = sum(place is not None for place in places)
    if remaining * 2 < _ALIKE * (len(words[0]) + len(words[1])):
        return None
    parts = clusters(own, other)
    for one, next_one in pairwise(parts):
        last = max(hunk.last for hunk in (*one[0], *one[1]))
        first = min(hunk.first for hunk in (*next_one[0], *next_one[1]))
        if last == first and bool(one[0]) != bool(next_one[0]):
            added = [
                words[2][hunk.begin : hunk.end] for part in (one, next_one) for hunk in part[1]
            ]
            if not all(text and "," in {text[0], text[-1]} for text in added):
                return None
    texts = _Texts(theirs, tokens[0], tokens[2], places, _indent(ours) - _indent(base))
    result = ours
    for mine, its in reversed(parts):
        if not its:
            continue
        if len(its) > 1 or len(mine) > 1 or not _has_its_call(words[1], its[0].first, places):
            return None
        changed = texts.with_hunk(result, mine, its[0])
        if changed is None:
            return None
        result = changed
    return result


def _has_its_call(words: list[str], at: int, places: list[int | None]) -> bool:
    """Whether upstream still has what the innermost brackets around a word belong to."""
    depth = 0
    for number in range(at - 1, -1, -1):
        depth += (words[number] in _CLOSING) - (words[number] in _OPENING)
        if depth < 0:
            return places[number] is not None and (number == 0 or places[number - 1] is not None)
    return True


@dataclass(frozen=True)
class _Texts:
    """The words of `ours` and `theirs`, and where `ours` has those of the base.

    `theirs` is moved by so many blanks as upstream moved the lines.
    """

    theirs: str
    own: list[re.Match[str]]
    its: list[re.Match[str]]
    places: list[int | None]
    shift: int

    def with_hunk(self, text: str, mine: list[SideHunk], hunk: SideHunk) -> str | None:
        """The text of `ours` with one change; behind its place, others may be in it already."""
        if hunk.first < hunk.last:
            return None if mine else self._replaced(text, hunk)
        if not mine:
            return self._added(text, hunk)
        own = mine[0]
        if own.first < own.last:
            return None
        added = text[self.own[own.begin].start() : self.own[own.end - 1].end()]
        new = self._their(hunk)
        if _are_free_arguments(added, new) and not _takes_names_only(added):
            return self._put(text, self.own[own.end - 1].end(), self._their(hunk, above=True))
        # What is found by its position stays so.
        return self._added(text, hunk) if _are_free_arguments(new, added) else None

    def _replaced(self, text: str, hunk: SideHunk) -> str | None:
        places = [self.places[number] for number in range(hunk.first, hunk.last)]
        numbers = [one for one in places if one is not None]
        if len(numbers) < len(places):
            return None
        start, end = self.own[numbers[0]].start(), self.own[numbers[-1]].end()
        if hunk.begin < hunk.end:
            return self._put(text[:start] + text[end:], start, self._their(hunk))
        # Between the words beside it are the blanks that `theirs` has there.
        before, after = self.its[: hunk.begin][-1:], self.its[hunk.begin :][:1]
        if not before or not after or not numbers[0]:
            return text[:start] + text[end:]
        start = self.own[numbers[0] - 1].end()
        blanks = self.theirs[before[0].end() : after[0].start()]
        return self._put(text[:start] + text[end:].lstrip(), start, blanks)

    def _added(self, text: str, hunk: SideHunk) -> str | None:
        before = self.places[hunk.first - 1] if hunk.first else None
        if before is not None:
            return self._put(text, self.own[before].end(), self._their(hunk, above=True))
        after = self.places[hunk.first] if hunk.first < len(self.places) else None
        if after is None:
            return None
        new = self.theirs[self.its[hunk.begin].start() : self.its[hunk.end].start()]
        return self._put(text, self.own[after].start(), new)

    def _their(self, hunk: SideHunk, *, above: bool = False) -> str:
        """What `theirs` has there, with the blanks above it."""
        start = self.its[hunk.begin].start()
        if above:
            start = self.its[hunk.begin - 1].end() if hunk.begin else 0
        return self.theirs[start : self.its[hunk.end - 1].end()]

    def _put(self, text: str, at: int, new: str) -> str:
        return text[:at] + _shifted(new, self.shift) + text[at:]


def both_inserted(ours: str, theirs: str) -> str | None:
    """What is there if both sides add something at the same place, in any order."""
    if _is_decorators(ours) and not _is_decorators(theirs):
        return theirs + ours if _is_whole(theirs) else None
    if _are_imports(ours) and _are_imports(theirs):
        return ours + theirs
    if ours.rstrip().endswith(",") and _are_free_arguments(ours, theirs):
        return None if _takes_names_only(ours) else ours + theirs
    return None


def _takes_names_only(text: str) -> bool:
    """Whether parameters begin with a bare star."""
    return re.match(r",?\s*\*\s*,", text) is not None


def _are_free_arguments(one: str, other: str) -> bool:
    """Whether both may be there, this one first: arguments, parameters, or entries of a dict.

    The other one is found by its name alone, and has another name.
    """
    texts = [text.strip().strip(",") for text in (one, other)]
    for form in ("f({})", "{{{}}}", "def f({}): ..."):
        names = [_names_of(form.format(text)) for text in texts]
        together = _names_of(form.format(", ".join(texts)))
        if together is None or None in names or not names[1]:
            continue
        if not set(names[0] or ()) & set(names[1]) and "" not in names[1]:
            return True
    return False


def _names_of(code: str) -> list[str] | None:
    """The names of arguments, parameters or keys; an empty one for what has a position."""
    try:
        compile(code, "", "exec")
        (node,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    names: list[str] | None = None
    if isinstance(node, ast.FunctionDef):
        own = node.args
        free = len(own.args) - len(own.defaults)
        if own.vararg is None and own.kwarg is None and not own.posonlyargs:
            names = ["" if number < free else one.arg for number, one in enumerate(own.args)]
            names += [one.arg for one in own.kwonlyargs]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if not any(isinstance(one, ast.Starred) for one in node.value.args):
            names = [*("" for _ in node.value.args), *(k.arg or "" for k in node.value.keywords)]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Dict):
        names = ["" if one is None else ast.unparse(one) for one in node.value.keys]
    return names


def _is_decorators(text: str) -> bool:
    code = textwrap.dedent(text)
    return code.startswith("@") and parses(code + "def f(): ...\n") and not parses(code)


def _is_whole(text: str) -> bool:
    return parses(textwrap.dedent(text))


def _are_imports(text: str) -> bool:
    try:
        body = ast.parse(textwrap.dedent(text)).body
    except SyntaxError:
        return False
    return bool(body) and all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in body)


def _indent(text: str) -> int:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return len(line) - len(line.lstrip(" "))


def _shifted(text: str, by: int) -> str:
    """A text with other blanks behind its line ends."""
    if by >= 0:
        return re.sub(r"\n(?=[^\n])", "\n" + " " * by, text)
    return re.sub(rf"\n {{0,{-by}}}", "\n", text)
