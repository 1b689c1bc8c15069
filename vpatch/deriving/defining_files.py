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
    code = rf"{assigned}\s*(?::[^=\n]*)?=(?!=)" if assigned else rf"(?:async\s+)?{kind}\s+{name}\b"
    defines = re.compile(rf"^[ \t]*{code}".encode(), re.MULTILINE)
    word = (name or assigned).encode()
    return {path for path in tree.holding(word) if defines.search(tree.read(path))}
