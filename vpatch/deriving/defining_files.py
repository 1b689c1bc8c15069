"""Which files of a tree define a name: by the index of words, and then by their lines."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vpatch.source.tree import Tree

_DEFINES = re.compile(r"(class|def) (\w+)|(\w+) = ")


def files_with_root(scope: str, tree: Tree) -> set[str]:
    """The files of a tree that define the first name of a qualified one, as a class or function."""
    name = scope.partition(".")[0]
    return files_defining(f"class {name}", tree) | files_defining(f"def {name}", tree)


def files_defining(pattern: str, tree: Tree) -> set[str]:
    """The files of a tree that define what a pattern is about; none if it defines nothing."""
    match = _DEFINES.match(pattern)
    if match is None:
        return set()
    kind, name, assigned = match.groups()
    head = rb"[ \t]*" if assigned else rf"[ \t]*(?:async\s+)?{kind}\s+".encode()
    tail = rb"\s*(?::[^=\n]*)?=(?!=)" if assigned else rb"\b"
    above, below = re.compile(head), re.compile(tail)
    word = (name or assigned).encode()
    # To search is ten times as fast if the pattern is the word alone.
    search = re.compile(re.escape(word)).finditer

    def defines(text: bytes) -> bool:
        return any(
            below.match(text, at.end())
            and above.fullmatch(text, text.rfind(b"\n", 0, at.start()) + 1, at.start())
            for at in search(text)
        )

    return {path for path in tree.holding(word) if defines(tree.read(path))}
