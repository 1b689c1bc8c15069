"""Bind declared edits to the codemods that carry them out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.codemods.add_keyword import AddKeyword
from vpatch.codemods.change import DiffLikeRewrite, change_of
from vpatch.codemods.custom import Custom
from vpatch.codemods.diff import bytes_beside, parse_diff
from vpatch.codemods.insert import Insert, InsertAtEnd
from vpatch.codemods.pattern import (
    PatternError,
    parse_expression,
    parse_pattern,
)
from vpatch.codemods.replace_body import ReplaceBody
from vpatch.codemods.rewrite import Rewrite, rewrite_of
from vpatch.codemods.scope import Scope
from vpatch.codemods.set_value import SetValue
from vpatch.codemods.snippet import beside, offers, read_code
from vpatch.codemods.statements import RewriteStatements, delete_statements
from vpatch.codemods.text import AddFile, TextReplacement
from vpatch.declare import edits as declared
from vpatch.errors import UsageError
from vpatch.source.tree import LOCK_FILE
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import plain_path

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from vpatch.codemods.base import PythonEdit
    from vpatch.declare.yamlfile import Declared
    from vpatch.trust.decision import Trust


_WITH_NEW_CODE = (Rewrite, RewriteStatements, DiffLikeRewrite)
_WITH_CODE = declared.InsertEdit | declared.ReplaceBodyEdit


@dataclass(frozen=True)
class BoundEdit:
    """An edit ready to run; `files` is None for the whole package, `uses` are files it reads.

    `offers` says of the names in a snippet's file how a patch can bring each along. `question` is
    what decides what the edit does with a file of Python, as far as it is declared.
    """

    name: str
    codemod: PythonEdit | TextReplacement | AddFile
    files: tuple[str, ...] | None
    expect: declared.Expect
    where: Mapping[str, Sequence[str]]
    uses: tuple[Path, ...] = ()
    offers: Mapping[str, str] = field(default_factory=dict)
    question: str = ""


def bind(edit: Declared, folder: Path, trust: Trust) -> list[BoundEdit]:
    """Turn one declared edit into codemods; a diff becomes one for each hunk.

    `trust` decides whether code of the folder may run, once it would.

    Raises:
        UsageError: a pattern or snippet is not what it must be, or a file leaves the folder.
    """
    match edit:
        case declared.TextEdit():
            files = tuple(inside_tree(path) for path in edit.files)
            find, replace = edit.text.find.encode(), edit.text.replace.encode()
            name = f"text {_short(edit.text.find)}"
            return [BoundEdit(name, TextReplacement(files, find, replace), files, edit.expect, {})]
        case declared.DiffEdit():
            path = beside(folder, edit.diff)
            return [_bind_hunk(edit.diff, hunk, path, count) for hunk, count in parse_diff(path)]
        case declared.AddFileEdit():
            source = beside(folder, edit.from_)
            target = inside_tree(edit.add_file)
            added = AddFile(target, bytes_beside(source))
            return [BoundEdit(f"add {target}", added, (target,), declared.Expect(), {}, (source,))]
    return [_bind_python(edit, folder, trust)]


def _bind_hunk(name: str, hunk: TextReplacement | AddFile, path: Path, count: int) -> BoundEdit:
    target = inside_tree(hunk.files[0] if isinstance(hunk, TextReplacement) else hunk.path)
    return BoundEdit(
        f"{name}: {target}", hunk, (target,), declared.Expect(count=count), {}, (path,)
    )


def _bind_python(edit: Declared, folder: Path, trust: Trust) -> BoundEdit:
    codemod: PythonEdit
    place = Scope()
    uses: tuple[Path, ...] = ()
    if isinstance(edit, declared.PlacedEdit):
        where = {name.removeprefix("$"): texts for name, texts in edit.where.items()}
        place = Scope(edit.within, where)
    match edit:
        case declared.AddKeywordEdit():
            accepted = None if edit.any_value is True else edit.any_value or ()
            codemod = AddKeyword(
                parse_pattern(edit.find),
                place,
                edit.add_keyword,
                accepted if accepted is None else tuple(map(parse_pattern, accepted)),
            )
            name = f"add {', '.join(edit.add_keyword)} to {_short(edit.find)}"
        case declared.ChangeEdit() | declared.RewriteEdit() | declared.DeleteEdit():
            codemod, name = _bind_change(edit, place)
        case declared.InsertEdit():
            code, uses = read_code(edit.insert, folder)
            position, anchor = next((p, a) for p, a in edit.anchors.items() if a is not None)
            below = _blank_below(edit.insert)
            kind = InsertAtEnd if edit.is_at_end_of_module else Insert
            codemod = kind(parse_pattern(anchor), place, code, position, below)
            name = f"insert {position} {_short(anchor)}"
        case declared.AddImportEdit():
            # libcst.codemod costs a third of a run's imports, and few patches add an import.
            from vpatch.codemods.add_import import AddImport, parse_import  # noqa: PLC0415

            codemod = AddImport(parse_pattern(edit.beside), place, parse_import(edit.add_import))
            name = edit.add_import
        case declared.ReplaceBodyEdit():
            pattern = parse_pattern(edit.find)
            code, uses = read_code(edit.replace_body, folder, body_for=pattern)
            having = [parse_pattern(text) for text in edit.having]
            codemod = ReplaceBody(pattern, place, code, having)
            name = f"replace the body of {_short(edit.find)}"
        case declared.SetValueEdit():
            value, was = parse_expression(edit.set_value), parse_expression(edit.was)
            codemod = SetValue(edit.of, value, was)
            name = f"set {edit.of}"
        case declared.CodemodEdit():
            path = beside(folder, edit.codemod)
            contains = frozenset(text.encode() for text in edit.contains)
            codemod = Custom(bytes_beside(path), path, contains, place, folder, trust)
            name, uses = edit.codemod, (path,)
        case _:
            raise TypeError(f"no codemod for {type(edit).__name__}")
    _check_where(codemod, place)
    files = None if edit.files is None else tuple(inside_tree(path) for path in edit.files)
    brought = offers(uses) if isinstance(edit, _WITH_CODE) else {}
    question = _question(edit, uses)
    return BoundEdit(name, codemod, files, edit.expect, place.where, uses, brought, question)


def _bind_change(
    edit: declared.ChangeEdit | declared.RewriteEdit | declared.DeleteEdit, place: Scope
) -> tuple[PythonEdit, str]:
    if isinstance(edit, declared.ChangeEdit):
        changed, before = change_of(edit.change, place, with_comments=edit.with_comments)
        return changed, f"change {_short(before)}"
    if isinstance(edit, declared.RewriteEdit):
        return rewrite_of(edit.find, edit.rewrite, place), f"rewrite {_short(edit.find)}"
    codemod = delete_statements(edit.delete, place, comments=edit.with_comments)
    return codemod, f"delete {_short(edit.delete)}"


def _question(edit: Declared, uses: Sequence[Path]) -> str:
    """All that decides what an edit does with a file: what is declared, and the files it uses."""
    declaration = edit.model_dump_json(exclude={"files", "expect"})
    used = [digest_of(path.read_bytes()) for path in uses]
    return "\n".join([type(edit).__name__, declaration, *used])


def _check_where(codemod: PythonEdit, place: Scope) -> None:
    for name in place.where:
        if codemod.sought is not None and name not in codemod.sought.variables:
            raise PatternError(
                f"where: the pattern {codemod.sought} has no ${name}",
                hint="name a metavariable of the pattern",
                code="codemods.unknown-metavariable",
            )
        new = (
            codemod.replace
            if isinstance(codemod, (Rewrite, RewriteStatements, DiffLikeRewrite))
            else None
        )
        if new is not None and name not in new.variables:
            raise PatternError(
                f"where: the new code {new} has no ${name}, so vpatch could not tell "
                f"that the edit is done",
                hint="write one edit for each value",
                code="codemods.unknown-metavariable",
            )


def inside_tree(path: str) -> str:
    """A path or glob in the tree.

    Raises:
        UsageError: it is absolute, climbs out with `..`, or names what is not the tree's own.
    """
    parts = path.split("/")
    if path.startswith("/") or "\\" in path or ".." in parts:
        raise _wrong(f"{path!r} leaves the tree", "give a path relative to the tree's root, with /")
    if "" in parts or "." in parts:
        raise _wrong(f"{path!r} is not a plain path", "leave out . and empty parts")
    if path == LOCK_FILE or any(part.lower() == ".git" for part in parts):
        raise _wrong(f"{path!r} is not a file of the source", "name a file of the source")
    try:
        return plain_path(path)
    except ValueError as error:
        raise _wrong(str(error), "give the file another name") from error


def _wrong(what: str, hint: str) -> UsageError:
    return UsageError(what, hint=hint, code="codemods.wrong-path")


def _blank_below(code: declared.Code) -> int:
    """How many blank lines end the code that a declaration has in its own text."""
    text = code if isinstance(code, str) else ""
    return max(0, len(text) - len(text.rstrip("\n")) - 1)


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: limit - 1] + "…"
