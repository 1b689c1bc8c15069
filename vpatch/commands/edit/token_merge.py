"""Two changes of the same lines, word by word."""

from __future__ import annotations

import ast
import re
import textwrap
from itertools import pairwise

from vpatch.commands.edit.hunks_of_sides import SideHunk, clusters, counterparts, side_hunks

_TOKEN = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'|\w+|[^\w\s]")
_LONGEST = 4000


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
    shift = _indent(ours) - _indent(base)
    result = ours
    for mine, its in reversed(parts):
        if not its:
            continue
        if len(its) > 1 or len(mine) > 1:
            return None
        changed = _with_hunk(result, theirs, tokens, places, mine, its[0], shift)
        if changed is None:
            return None
        result = changed
    return result


def _with_hunk(
    text: str,
    theirs: str,
    tokens: list[list[re.Match[str]]],
    places: list[int | None],
    mine: list[SideHunk],
    hunk: SideHunk,
    shift: int,
) -> str | None:
    """The text of `ours`, of which nothing behind this place was changed yet, with one change."""
    ours, _, its = tokens
    if mine and (hunk.first != hunk.last or mine[0].first != mine[0].last):
        return None
    first, last = hunk.first, hunk.last
    if first < last:
        span = [places[number] for number in range(first, last)]
        if None in span:
            return None
        numbers = [one for one in span if one is not None]
        start, end = ours[numbers[0]].start(), ours[numbers[-1]].end()
        new = (
            theirs[its[hunk.begin].start() : its[hunk.end - 1].end()]
            if hunk.begin < hunk.end
            else ""
        )
        if not new and hunk.begin and numbers[0]:
            # The blanks before what goes go with it.
            start = ours[numbers[0] - 1].end()
            between = theirs[its[hunk.begin - 1].end() :]
            new = between[: len(between) - len(between.lstrip())]
            if hunk.begin >= len(its):
                new = text[ours[numbers[-1]].end() : ours[numbers[-1]].end()]
            else:
                end = ours[numbers[-1]].end()
                following = text[end:]
                end += len(following) - len(following.lstrip())
        return text[:start] + _shifted(new, shift) + text[end:]
    before = places[first - 1] if first else None
    if mine:
        # Both add something here: it goes behind what upstream adds.
        own = mine[0]
        added = text[ours[own.begin].start() : ours[own.end - 1].end()]
        new = theirs[its[hunk.begin].start() : its[hunk.end - 1].end()]
        if not _are_free_arguments(added, new):
            return None
        before = own.end - 1
    elif before is None:
        after = places[first] if first < len(places) else None
        if after is None:
            return None
        new = theirs[its[hunk.begin].start() : its[hunk.end].start()]
        start = ours[after].start()
        return text[:start] + _shifted(new, shift) + text[start:]
    new = theirs[
        (its[hunk.begin - 1].end() if hunk.begin else 0) : its[hunk.end - 1].end()
    ]
    end = ours[before].end()
    return text[:end] + _shifted(new, shift) + text[end:]


def both_inserted(ours: str, theirs: str) -> str | None:
    """What is there if both sides add something at the same place, and the order means nothing."""
    if _is_decorators(ours) and not _is_decorators(theirs):
        return theirs + ours if _is_whole(theirs) else None
    if _are_imports(ours) and _are_imports(theirs):
        return ours + theirs
    if ours.rstrip().endswith(",") and _are_free_arguments(ours, theirs):
        return ours + theirs
    return None


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
        (node,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return None
    if isinstance(node, ast.FunctionDef):
        own = node.args
        if own.vararg is not None or own.kwarg is not None or own.posonlyargs:
            return None
        free = len(own.args) - len(own.defaults)
        names = ["" if number < free else one.arg for number, one in enumerate(own.args)]
        return [*names, *(one.arg for one in own.kwonlyargs)]
    value = node.value if isinstance(node, ast.Expr) else None
    if isinstance(value, ast.Call):
        if any(isinstance(one, ast.Starred) for one in value.args):
            return None
        return [*("" for _ in value.args), *(one.arg or "" for one in value.keywords)]
    if isinstance(value, ast.Dict):
        return ["" if one is None else ast.unparse(one) for one in value.keys]
    return None


def _is_decorators(text: str) -> bool:
    code = textwrap.dedent(text)
    return code.startswith("@") and _parses(code + "def f(): ...\n") and not _parses(code)


def _is_whole(text: str) -> bool:
    return _parses(textwrap.dedent(text))


def _are_imports(text: str) -> bool:
    try:
        body = ast.parse(textwrap.dedent(text)).body
    except SyntaxError:
        return False
    return bool(body) and all(isinstance(one, (ast.Import, ast.ImportFrom)) for one in body)


def _parses(code: str) -> bool:
    try:
        ast.parse(code)
    except SyntaxError:
        return False
    return True


def _indent(text: str) -> int:
    line = next((line for line in text.splitlines() if line.strip()), "")
    return len(line) - len(line.lstrip(" "))


def _shifted(text: str, by: int) -> str:
    """A text with other blanks behind its line ends."""
    if by >= 0:
        return re.sub(r"\n(?=[^\n])", "\n" + " " * by, text)
    return re.sub(rf"\n {{0,{-by}}}", "\n", text)
