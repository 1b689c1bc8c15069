"""What took the place of a definition that is gone."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

from vpatch.planning.code_place import CodePlace, alike, place_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.planning.view import View

# The part of the lines that must be the same. A second candidate that is nearly as good makes the
# answer unclear.
_ALIKE = 0.6
CLEARER = 0.1
_WORD = re.compile(rb"[A-Za-z_]\w{3,}")
_WORDS = 12
_FILES = 20


def successor(gone: CodePlace, old: View, new: View) -> CodePlace | None:
    """Return what a definition of the old tree became in the new one; None if that is not clear.

    It has the same name in another file, or another name and mostly the same lines. What the old
    tree has as well, such as a copy for other hardware, did not take its place.
    """
    scored = [(alike(gone, one), one) for one in _candidates(gone, old, new)]
    scored = [pair for pair in scored if pair[0] >= _ALIKE]
    scored.sort(key=lambda pair: pair[0], reverse=True)
    if not scored or (len(scored) > 1 and scored[0][0] - scored[1][0] < CLEARER):
        return None
    return scored[0][1]


def _candidates(gone: CodePlace, old: View, new: View) -> Iterator[CodePlace]:
    """The definitions that only the new tree has, in files that may have the one that is gone."""
    if not gone.path.endswith((".py", ".pyi")):
        return
    for path in files_like(gone, new):
        known = {one.name for one in old.outline(path)}
        text = new.pristine(path) or b""
        for one in new.outline(path):
            named = one.name and one.name not in known and not one.name.endswith(">")
            if named and isinstance(one.node, ast.ClassDef) == gone.is_class:
                yield place_of(path, text, one)


def files_like(gone: CodePlace, new: View) -> list[str]:
    """Files that may have it: the same one, and those with the name or with most of its words.

    To parse a file takes long, and thousands of files have an `__init__`. So the file must have
    half of the words as well, and only those with the most of them count.
    """
    last = gone.name.rpartition(".")[2].encode()
    words = sorted(set(_WORD.findall("\n".join(gone.lines).encode())), key=len)[-_WORDS:]
    rest = [word for word in words if word != last]
    paths = set(new.holding([frozenset([last])], None))
    if len(rest) >= _WORDS // 2:
        paths.update(new.holding([frozenset(rest)], None))
    texts = {path: new.pristine(path) or b"" for path in paths - {gone.path}}
    held = {path: sum(word in text for word in words) for path, text in texts.items()}
    likely = sorted(path for path, count in held.items() if count * 2 >= len(words))
    likely.sort(key=held.__getitem__, reverse=True)
    own = [gone.path] if new.pristine(gone.path) is not None else []
    return sorted([*own, *likely[:_FILES]])
