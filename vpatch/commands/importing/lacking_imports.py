"""New code uses names that its file imports, and that the same file of other releases does not."""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.changes.paths import glob_of
from vpatch.deriving.code import named
from vpatch.deriving.defining_files import files_defining
from vpatch.deriving.module_names import bound_in, imports_in, place_of
from vpatch.deriving.source_code import SourceCode, parsed, parsed_if_python
from vpatch.source.spec import PypiSpec
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from vpatch.changes.change import FileChange, SourceChange
    from vpatch.commands.importing.draft import Draft
    from vpatch.deriving.candidate import Declared
    from vpatch.deriving.other_releases import OtherFile
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context

# So many files of a release are looked at for an import of a library.
_MOST_FILES = 20
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class LackingImport:
    """An import that a file has, and that the same file lacks in some releases.

    `name` is the dotted name that it is of, and `edit` adds it.
    """

    path: str
    name: str
    edit: Declared
    releases: tuple[str, ...]


def with_lacking_imports(
    context: Context, one: Draft, others: Mapping[str, Sequence[OtherFile]]
) -> Draft:
    """A draft with the imports that other releases lack for its new code; the same if none does."""
    files = b" ".join(one.assembled.files.values()).decode(errors="replace")
    words = set(_WORD.findall(f"{json.dumps(one.assembled.edits)} {files}"))
    lacking = _lacking_imports(context, one.change, one.tree, words, others)
    if not lacking:
        return one
    edits = [_placed(each, one.tree) for each in lacking]
    notes = [
        f"{each.path}: the patch also imports {each.name}, for "
        f"{counted(len(each.releases), 'release')} without that import"
        for each in lacking
    ]
    assembled = replace(one.assembled, edits=(*one.assembled.edits, *edits))
    change = replace(one.change, notes=(*one.change.notes, *notes))
    return replace(one, assembled=assembled, change=change)


def _placed(each: LackingImport, tree: Tree) -> Declared:
    """The edit, with the file named unless no other one has the definition that it is beside."""
    if files_defining(str(each.edit["beside"]), tree) <= {each.path}:
        return each.edit
    return {**each.edit, "files": glob_of(each.path, tree)}


def _lacking_imports(
    context: Context,
    change: SourceChange,
    tree: Tree,
    words: AbstractSet[str],
    elsewhere: Mapping[str, Sequence[OtherFile]],
) -> list[LackingImport]:
    """The imports of changed files that new code needs, and that other releases of a tree lack.

    `words` are those of the edits. An import is left out if one of these releases does not have
    what it names: there, it would fail.
    """
    lacking = [
        one
        for file in change.files
        if file.before is not None and file.path.endswith(".py")
        for one in _lacking(file, words, elsewhere.get(file.path, ()))
    ]
    for version in sorted({version for one in lacking for version in one.releases}, key=Version):
        with context.tree(PypiSpec(tree.pin.tree, version)) as other:
            lacking = [
                one for one in lacking if version not in one.releases or _has(other, one.name)
            ]
    return lacking


def _has(tree: Tree, name: str) -> bool:
    """Whether a tree defines a dotted name, or else imports it itself."""
    there = frozenset(tree.paths())
    if place_of(name, lambda path: tree.read(path) if path in there else None) is not None:
        return True
    if name.partition(".")[0] in {path.partition("/")[0] for path in tree.package_files}:
        return False
    # Of a library: the release runs with one that has it.
    word = name.rpartition(".")[2].encode()
    return any(
        name in imports_in(parsed_if_python(tree.read(path)), path).values()
        for path in islice(sorted(tree.holding(word)), _MOST_FILES)
    )


def _lacking(
    file: FileChange, words: AbstractSet[str], others: Sequence[OtherFile]
) -> Iterator[LackingImport]:
    try:
        sides = SourceCode(file.before or b""), SourceCode(file.after)
        needed = list(_needed(*sides, words))
        # To parse all of the others takes long.
        bound = [(o.releases, bound_in(parsed(o.content))) for o in (others if needed else ())]
    except (SyntaxError, ValueError, RecursionError):
        return
    for node, alias, user in needed:
        name = alias.asname or alias.name
        releases = [v for versions, names in bound if name not in names for v in versions]
        if releases:
            code = ast.unparse(ast.ImportFrom(node.module, [alias], 0))
            edit: Declared = {"add-import": code, "beside": user}
            yield LackingImport(file.path, f"{node.module}.{alias.name}", edit, tuple(releases))


def _needed(
    before: SourceCode, after: SourceCode, words: AbstractSet[str]
) -> Iterator[tuple[ast.ImportFrom, ast.alias, str]]:
    """The names that a file imports before and after, with what uses them more often."""
    unchanged = {ast.dump(one.node) for one in before.block.statements}
    for node in (one.node for one in after.block.statements):
        if not isinstance(node, ast.ImportFrom) or node.level or ast.dump(node) not in unchanged:
            continue
        for alias in node.names:
            name = alias.asname or alias.name
            user = _new_user(name, before, after) if name in words else None
            if user is not None:
                yield node, alias, user


def _new_user(name: str, before: SourceCode, after: SourceCode) -> str | None:
    """A pattern of a definition that uses a name more often than before; it may be new."""
    counts = [
        {one.name: _count(one.node, name) for one in side.block.statements if one.name is not None}
        for side in (before, after)
    ]
    for statement in after.block.statements:
        own = statement.name
        if own is not None and counts[1][own] > counts[0].get(own, 0):
            return named(after, statement.node)[0]
    return None


def _count(root: ast.AST, name: str) -> int:
    return sum(isinstance(node, ast.Name) and node.id == name for node in ast.walk(root))
