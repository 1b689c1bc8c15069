"""What the code that a patch is about is called, as the `concerns` of patch.yaml.

A name that one file alone defines finds its code in every release. Any other name needs its class,
or its file: else the patch would be about code of which it knows nothing.
"""

from __future__ import annotations

import ast
import re
from itertools import chain
from typing import TYPE_CHECKING

from vpatch.importing.module_names import imports_in, place_of
from vpatch.importing.paths import glob_of
from vpatch.importing.source_code import parsed
from vpatch.planning.outline import is_python, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.importing.candidate import Declared
    from vpatch.importing.change import FileChange
    from vpatch.planning.outline import Definition
    from vpatch.source.tree import Tree

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
# So many files of a folder are looked at for a definition beside a new file.
_MOST_NEIGHBOURS = 20


def concerns_of_new(files: Sequence[FileChange], tree: Tree) -> Declared:
    """A predicate for new files alone: what they import of the tree, or what is beside them."""
    paths = frozenset(tree.paths())
    nearest = (one for file in files for one in _imported(file, tree, paths))
    beside = (one for file in files for one in _beside(file.path, tree, paths))
    place = next(chain(nearest, beside), None)
    return _longest_line(tree) if place is None else definition_predicate(*place, tree)


def _imported(
    file: FileChange, tree: Tree, paths: frozenset[str]
) -> Iterator[tuple[str, Definition]]:
    """What a new file imports of the tree, that of its own folders first."""
    if not is_python(file.path):
        return
    try:
        dotted = imports_in(parsed(file.after), file.path)
    except (SyntaxError, ValueError, RecursionError):
        return
    own = file.path.split("/")

    def distance(name: str) -> int:
        shared = [a == b for a, b in zip(own, name.split("."), strict=False)]
        return -next((n for n, same in enumerate(shared) if not same), len(shared))

    for name in sorted(dict.fromkeys(dotted.values()), key=distance):
        place = place_of(name, lambda path: tree.read(path) if path in paths else None)
        if place is not None and place[1]:
            for one in _definitions(tree.read(place[0])):
                if one.name == place[1]:
                    yield place[0], one


def _beside(path: str, tree: Tree, paths: frozenset[str]) -> Iterator[tuple[str, Definition]]:
    """A definition in the folder of a file, or in one above it."""
    folder = path
    while folder:
        folder = folder.rpartition("/")[0]
        same = [each for each in sorted(paths) if each.rpartition("/")[0] == folder]
        for each in [each for each in same if each.endswith(".py")][:_MOST_NEIGHBOURS]:
            yield from ((each, one) for one in _definitions(tree.read(each)))


def _longest_line(tree: Tree) -> Declared:
    """The longest line of the first file that has a text: every tree names its distribution."""
    for path in tree.paths():
        lines = tree.read(path).decode(errors="ignore").splitlines()
        text = max((line.strip() for line in lines), key=len, default="")
        if text:
            return {"text": text, "files": path}
    return {"text": "\n"}


def _definitions(content: bytes) -> Iterator[Definition]:
    """The functions, classes and assignments of a file that a pattern can name."""
    return (one for one in outline(content) if pattern_of(one) is not None)


def pattern_of(definition: Definition) -> str | None:
    """The pattern that finds a definition; None for what has no name or no value."""
    name = definition.name.rpartition(".")[2]
    match definition.node:
        case ast.ClassDef():
            return f"class {name}: ..."
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return f"def {name}(...): ..."
        case ast.Assign() | ast.AnnAssign(value=ast.expr()):
            return f"{name} = $_"
    return None


def definition_predicate(path: str, definition: Definition, tree: Tree) -> Declared:
    """A predicate for a definition: by its name, within its class, or in its file."""
    scope, _, name = definition.name.rpartition(".")
    found: Declared = {"find": pattern_of(definition)}
    if scope and not _tells(name):
        found["within"] = scope
        is_unique = files_with_class(scope.partition(".")[0], tree) == {path}
    else:
        is_unique = _files_with(definition, tree) == {path}
        if scope and not is_unique:
            found["within"] = scope
            is_unique = files_with_class(scope.partition(".")[0], tree) == {path}
    return found if is_unique else {**found, "files": glob_of(path, tree)}


def _tells(name: str) -> bool:
    """Whether few classes have a method of that name: it has several words."""
    return "_" in name.strip("_") and name[:2] != "__"


def files_with_class(name: str, tree: Tree) -> set[str]:
    """The files of a tree that define a class."""
    return _files_defining(name, rf"class\s+{name}\b", tree)


def _files_with(definition: Definition, tree: Tree) -> set[str]:
    """The files of a tree that define a name in the same way."""
    name = definition.name.rpartition(".")[2]
    if isinstance(definition.node, ast.ClassDef):
        return files_with_class(name, tree)
    if isinstance(definition.node, _FUNCTIONS):
        return _files_defining(name, rf"(?:async\s+)?def\s+{name}\b", tree)
    return _files_defining(name, rf"{name}\s*(?::[^=\n]*)?=(?!=)", tree)


def _files_defining(name: str, code: str, tree: Tree) -> set[str]:
    defines = re.compile(rf"^[ \t]*{code}".encode(), re.MULTILINE)
    return {path for path in tree.holding(name.encode()) if defines.search(tree.read(path))}
