"""What the code that a patch is about is called, as the `concerns` of patch.yaml.

A name that one file alone defines finds its code in every release. Any other name needs its class,
or its file: else the patch would be about code that it does not know.
"""

from __future__ import annotations

import ast
import json
import re
from itertools import chain, islice
from typing import TYPE_CHECKING

from vpatch.changes.paths import glob_of, glob_of_texts
from vpatch.declare.edits import Predicate
from vpatch.deriving.defining_files import files_defining, files_with_root
from vpatch.deriving.differences import differences
from vpatch.deriving.module_names import imports_in, names_of, place_of
from vpatch.deriving.source_code import SourceCode, parsed_if_python
from vpatch.planning.editing import probe
from vpatch.planning.outline import is_python, outline

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.changes.change import FileChange
    from vpatch.deriving.candidate import Declared
    from vpatch.planning.outline import Definition
    from vpatch.planning.view import View
    from vpatch.source.tree import Tree

# What begins a line that belongs to a statement above it.
_PARTS = ("else", "elif", "except", "finally", "case", '"', "'")
_BRACKETS = (("(", ")"), ("[", "]"), ("{", "}"))
_WORD = re.compile(r"\w{3}")
_MOST = 6
# A class that more files have was never one of one file.
_MOST_OTHERS = 4
# So many files of a folder are looked at for a definition beside a new file.
_MOST_NEIGHBOURS = 20


def concerns_of(files: Sequence[FileChange], before: View, after: View) -> Declared:
    """A predicate that holds where the code is that a change is about.

    Args:
        files: the change.
        before: the tree.
        after: the tree with the change, which the predicate must know as well.
    """
    tree = before.tree
    existing = [file for file in files if file.before is not None]
    own = frozenset(file.path for file in existing)
    changed = [(f.path, one) for f in existing for one in _changed_definitions(f)]
    declared = ((path, definition_predicate(path, one, tree, own)) for path, one in changed)
    distinct = {repr(one): (path, one) for path, one in declared}.values()
    holding = list(
        islice((one for path, one in distinct if _holds_at(path, one, before, after)), _MOST)
    )
    if holding:
        holding += filter(None, [_in_one_file(one, tree, own) for one in holding])
        return holding[0] if len(holding) == 1 else {"any": [*holding]}
    same = [(f.path, definition_predicate(f.path, d, tree)) for f in existing for d in _stable(f)]
    same.sort(key=lambda placed: _vagueness(placed[1]))
    stable = (one for path, one in same if _holds_at(path, one, before, after))
    lines = (line for file in existing for line in _unchanged_lines(file, tree))
    others = chain(stable, lines, _predicates_around(files, tree))
    return next((one for one in others if _holds_in(one, before, after)), _longest_line(tree))


def _in_one_file(declared: Declared, tree: Tree, own: frozenset[str]) -> Declared | None:
    """The same part of a class in any file, if none of the others that have it now has it there.

    A release that has it elsewhere is one without the file, and not one without the code.
    """
    pattern, owner = str(declared["find"]), str(declared.get("within", ""))
    if "files" not in declared or not (owner or pattern.startswith("class ")):
        return None
    same = files_with_root(owner, tree) if owner else files_defining(pattern, tree)
    others = sorted(same - own)
    if not 0 < len(others) <= _MOST_OTHERS:
        return None
    anywhere = {key: value for key, value in declared.items() if key != "files"}
    return {"all": [anywhere, {"none": [{**anywhere, "files": [*others]}]}]}


def _vagueness(declared: Declared) -> tuple[bool, bool]:
    """A name that one file alone has tells most, and a variable less than a function."""
    return "files" in declared, " = $_" in str(declared["find"])


def _holds_at(path: str, declared: Declared, *views: View) -> bool:
    """Whether a predicate holds by one file: a name that is common is not looked for elsewhere."""
    return _holds_in({**declared, "files": path}, *views)


def _holds_in(declared: Declared, *views: View) -> bool:
    predicate = Predicate.model_validate_json(json.dumps(declared))
    return all(probe(predicate, view).holds for view in views)


def _stable(file: FileChange) -> list[Definition]:
    """What a file of Python defines before and after."""
    if not is_python(file.path):
        return []
    names = {(one.name, pattern_of(one)) for one in _definitions(file.after)}
    return [one for one in _definitions(file.before or b"") if (one.name, pattern_of(one)) in names]


def _changed_definitions(file: FileChange) -> Iterator[Definition]:
    """The functions, classes and assignments in which code differs, imports apart.

    Code that comes beside a definition changes no definition: a release without the neighbour is
    not one without the code.
    """
    unchanged = {one.name: one for one in _stable(file)}
    try:
        sides = SourceCode(file.before or b""), SourceCode(file.after)
    except (SyntaxError, ValueError, RecursionError):
        return
    for difference in differences(*sides) if unchanged else ():
        old, new = (
            [ast.dump(one.node) for one in side] for side in (difference.old, difference.new)
        )
        if old == new:
            continue  # comments
        inner = [name for one in difference.old for name in names_of(one.node)] or [""]
        for name in inner:
            parts = [*difference.scope, *([name] if name else [])]
            for depth in range(len(parts), 0, -1):
                if ".".join(parts[:depth]) in unchanged:
                    yield unchanged[".".join(parts[:depth])]
                    break


def _unchanged_lines(file: FileChange, tree: Tree) -> Iterator[Declared]:
    """The lines that are whole statements before and after, the longest first."""
    after = set(map(str.strip, file.after.decode(errors="ignore").splitlines()))
    for one in whole_lines(file.before or b"", file.path):
        if one["text"] in after:
            yield {**one, "files": glob_of_texts(file.path, tree, [one["text"]])}


def whole_lines(content: bytes, path: str) -> Iterator[Declared]:
    """Texts for the lines of a file that are whole statements, the longest first."""
    text = content.decode(errors="ignore")
    lines = set(map(str.strip, text.splitlines()))
    if is_python(path):
        lines &= _statements_of(text)
    for line in sorted(lines, key=lambda line: (-len(line), line)):
        is_whole = all(line.count(one) == line.count(other) for one, other in _BRACKETS)
        if _WORD.search(line) and is_whole:
            yield {"text": line, "files": path}


def _statements_of(text: str) -> set[str]:
    """The lines of Python that are statements of their own."""
    lines = text.splitlines()
    nodes = [node for node in ast.walk(parsed_if_python(text)) if isinstance(node, ast.stmt)]
    ones = {lines[n.lineno - 1].strip() for n in nodes if n.lineno == n.end_lineno}
    return {line for line in ones if not line.startswith(_PARTS)}


def _predicates_around(files: Sequence[FileChange], tree: Tree) -> Iterator[Declared]:
    """Predicates for new files: what they import of the tree, or else what is beside them."""
    paths = frozenset(tree.paths())
    imported = (one for file in files for one in _imported_definitions(file, tree, paths))
    beside = (one for file in files for one in _beside(file.path, tree, paths))
    return (definition_predicate(*place, tree) for place in chain(imported, beside))


def _imported_definitions(
    file: FileChange, tree: Tree, paths: frozenset[str]
) -> Iterator[tuple[str, Definition]]:
    """What a new file imports of the tree, that of its own folders first."""
    if not is_python(file.path):
        return
    dotted = imports_in(parsed_if_python(file.after), file.path)
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
        case ast.Assign() | ast.AnnAssign(value=ast.expr()) if _may_be_named(name):
            return f"{name} = $_"
    return None


def _may_be_named(name: str) -> bool:
    """Whether an assignment is told by a name: not one to an item, and not `__all__`."""
    return name.isidentifier() and not name.startswith("__")


def definition_predicate(
    path: str, definition: Definition, tree: Tree, own: frozenset[str] = frozenset()
) -> Declared:
    """A predicate for a definition: by its name, within its class, or in its file.

    Where no file but the `own` ones has the class, the code is theirs in any file of a release.
    """
    scope, _, name = definition.name.rpartition(".")
    pattern = str(pattern_of(definition))
    if (not scope or _tells(name)) and files_defining(pattern, tree) <= {path, *own}:
        return {"find": pattern}
    predicate: Declared = {"find": pattern, **({"within": scope} if scope else {})}
    if scope and files_with_root(scope, tree) <= {path, *own}:
        return predicate
    return {**predicate, "files": glob_of(path, tree)}


def _tells(name: str) -> bool:
    """Whether few classes have a method of that name: it has several words."""
    return "_" in name.strip("_") and name[:2] != "__"
