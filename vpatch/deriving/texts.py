"""The last resort: lines of text with as many neighbours as make them unique, or a diff of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vpatch.deriving.candidate import Candidate, one
from vpatch.planning.difference import shared_start

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_CONTEXTS = (0, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89)
_LONGEST_TEXT = 40
# As many characters as a text must have to find its place by itself, such as the id of a commit.
_TELLING = 12
_BETWEEN = re.compile(r"[^\w.]")


def texts(
    path: str,
    now: Sequence[str],
    changed: tuple[int, int],
    new: Sequence[str],
    name: str,
) -> Iterator[Candidate]:
    """Propose to replace lines `changed` of a file by `new`, as a text, and then as a diff."""
    start, end = changed
    diffs: list[Candidate] = []
    words = _words("".join(now[start:end]), "".join(new))
    if words is not None:
        yield one("text", {"text": {"find": words[0], "replace": words[1]}, "files": path})
    # Lines below may change later. Those above do not, and all of them are there once.
    for context in (*_CONTEXTS, len(now)):
        for above, below in dict.fromkeys([(context, 0), (0, context), (context, context)]):
            first, last = max(0, start - above), min(len(now), end + below)
            before, after = now[first:start], now[end:last]
            find = "".join([*before, *now[start:end], *after])
            replace = "".join([*before, *new, *after])
            if not find.strip() or not replace.strip():
                continue
            if find.count("\n") <= _LONGEST_TEXT and find.endswith("\n") == replace.endswith("\n"):
                yield one("text", {"text": {"find": find, "replace": replace}, "files": path})
            if first < start or last > end:
                text = _diff(path, now, (first, last), changed, new)
                diffs.append(one("diff", {"diff": name}, {name: text.encode()}))
    yield from diffs


def _words(old: str, new: str) -> tuple[str, str] | None:
    """What differs, and no more than the words that it is a part of; None if that says little."""
    top = shared_start(old, new)
    while top and not _BETWEEN.match(old[top - 1]):
        top -= 1
    rests = old[top:], new[top:]
    bottom = shared_start(rests[0][::-1], rests[1][::-1])
    while bottom and not _BETWEEN.match(old[len(old) - bottom]):
        bottom -= 1
    find, replace = (rest[: len(rest) - bottom] for rest in rests)
    return (find, replace) if len(find.strip()) >= _TELLING and replace.strip() else None


def _diff(
    path: str,
    now: Sequence[str],
    shown: tuple[int, int],
    changed: tuple[int, int],
    new: Sequence[str],
) -> str:
    """One hunk of a unified diff."""
    above, old, below = now[shown[0] : changed[0]], now[slice(*changed)], now[changed[1] : shown[1]]
    lengths = [len(above) + len(side) + len(below) for side in (old, new)]
    first = shown[0] + 1
    head = f"--- a/{path}\n+++ b/{path}\n@@ -{first},{lengths[0]} +{first},{lengths[1]} @@\n"
    body = [
        sign + (line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n")
        for sign, lines in ((" ", above), ("-", old), ("+", new), (" ", below))
        for line in lines
    ]
    return head + "".join(body)
