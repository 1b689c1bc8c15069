"""What an import proposes beside the edits: how its effect shows, and which releases need it."""

from __future__ import annotations

import ast
import json
from difflib import SequenceMatcher
from itertools import islice, takewhile
from textwrap import dedent
from typing import TYPE_CHECKING

from packaging.version import Version
from pydantic import ValidationError

from vpatch.changes.paths import glob_of, glob_of_texts
from vpatch.codemods.change import sides_of
from vpatch.codemods.pattern import parse_pattern
from vpatch.commands.importing.concerns import whole_lines
from vpatch.commands.importing.whole_statements import whole_statements
from vpatch.declare.edits import Predicate
from vpatch.deriving.defining_files import files_defining, files_with_root
from vpatch.deriving.source_code import SourceCode, parsed_if_python
from vpatch.errors import UsageError
from vpatch.planning.editing import probe
from vpatch.planning.outline import is_python

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.changes.change import FileChange
    from vpatch.commands.importing.assembly import AssembledPatch
    from vpatch.deriving.candidate import Declared
    from vpatch.deriving.derive import DerivedEdit
    from vpatch.planning.view import View
    from vpatch.source.tree import Tree

_MOST_CONTEXT = 4
# Each part of an effect is looked for in the whole file, now and by each later plan.
_MOST_PARTS = 50


def effect_of(
    patch: AssembledPatch, before: View, after: View, silent: Sequence[Declared] = ()
) -> Declared | None:
    """A predicate that the changed tree fulfils and the release does not; None if there is none.

    `silent` are edits that show nothing, as those of docstrings.
    """
    parts: list[Declared] = []
    # A predicate finds a place and cannot count them: a tree that is half done would have it.
    if any("expect" in edit for edit in patch.edits):
        return None
    # An import shows nothing of what is done with it.
    others = [
        edit for edit in patch.edits if edit not in silent and not _only_imports(edit, patch.files)
    ]
    edits = others or patch.edits
    for edit in edits:
        shown = list(_effect_parts(edit, patch.files, after))
        if not shown:
            return None
        parts += shown
    if len(parts) > _MOST_PARTS:
        return None
    parts = [one for one in {repr(one): one for one in parts}.values() if _holds(one, after)]
    parts = [_place(one, after) for one in parts]
    telling = [one for one in parts if _holds(one, before) is False]
    if len(telling) < len(edits):
        return None
    if all("none" in part for part in telling):
        return None  # what lacks some code need not be this change
    return telling[0] if len(telling) == 1 else {"all": [*telling]}


def _place(part: Declared, after: View) -> Declared:
    """A part of an effect, in its file if others define such a class or function as well."""
    if "find" not in part or "files" in part:
        return part
    site = next(iter(probe(Predicate.model_validate_json(json.dumps(part)), after).sites), None)
    if site is None:
        return part
    if "within" in part:
        same = files_with_root(str(part["within"]), after.tree)
    else:
        same = files_defining(str(part["find"]), after.tree)
    if same == {site.path}:
        return part
    return {**part, "files": glob_of(site.path, after.tree)}


def effect_by_text(
    files: Sequence[FileChange], tree: Tree, left_out: Sequence[DerivedEdit] = ()
) -> Declared | None:
    """A predicate of the new lines of each hunk, for code that no pattern tells from the old.

    `left_out` are changes that the patch does not make. Imports alone show nothing, either.
    """
    parts: list[Declared] = []
    imports: list[Declared] = []
    for file in files:
        aside = [edit.lines for edit in left_out if edit.path == file.path]
        for text in _new_texts(
            (file.before or b"").decode(errors="replace"),
            file.after.decode(errors="replace"),
            aside,
            python=is_python(file.path),
        ):
            part: Declared = {"text": text, "files": glob_of_texts(file.path, tree, [text])}
            (imports if _is_imports(text) else parts).append(part)
    parts = parts or imports
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else {"all": [*parts]}


def _new_texts(
    before: str, after: str, aside: Sequence[tuple[int, int]], *, python: bool
) -> Iterator[str]:
    """For each hunk the fewest whole statements around it that only the new file has.

    Not for those that are within lines `aside` of the old file, counted from 1.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for tag, start, end, first, last in matcher.get_opcodes():
        if tag == "equal" or any(top <= start + 1 and end <= bottom for top, bottom in aside):
            continue
        for context in range(_MOST_CONTEXT):
            lines = max(0, first - context), min(len(new), last + context)
            text = whole_statements(after, *lines, python=python)
            if text is not None and text.strip() and text not in before:
                yield text
                break


def _only_imports(edit: Declared, files: Mapping[str, bytes]) -> bool:
    """Whether the code of an edit is imports alone."""
    match edit:
        case {"add-import": _}:
            return True
        case {"insert": dict(snippet)}:
            code = files[str(snippet["from"])].decode()
        case {"insert": str(code)} | {"rewrite": str(code)} | {"delete": str(code)}:
            pass
        case _:
            return False
    return _is_imports(code)


def _is_imports(code: str) -> bool:
    """Whether code is Python, and imports alone."""
    body = parsed_if_python(code).body
    return bool(body) and all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in body)


def _effect_parts(edit: Declared, files: Mapping[str, bytes], after: View) -> Iterator[Declared]:
    """What the new code of an edit looks like."""
    where: Declared = {key: edit[key] for key in ("within", "files") if key in edit}
    match edit:
        case {"rewrite": str(code)}:
            yield {"find": code, **where}
        case {"set-value": value, "of": str(symbol)}:
            owner, _, name = symbol.rpartition(".")
            yield {"find": f"{name} = {value}", **({"within": owner} if owner else {}), **where}
        case {"add-keyword": dict(added), "find": str(find)} if find.endswith("(...)"):
            keywords = ", ".join(f"{name}={value}" for name, value in added.items())
            yield {"find": f"{find[:-4]}..., {keywords})", **where}
        case {"add-keyword": dict(added), "find": str(find)} if find.endswith("(...): ..."):
            defaults = [
                f"{name}={str(value).rpartition(' = ')[2]}" for name, value in added.items()
            ]
            head = find.removesuffix("(...): ...")
            yield {"find": f"{head}(..., {', '.join(defaults)}, ...): ...", **where}
        case {"insert": dict(snippet)}:
            code = files[str(snippet["from"])].decode()
            yield from _insert_parts(code, str(snippet.get("name", "")), _outer(edit, where))
        case {"insert": str(code)}:
            yield from _insert_parts(code, "", _outer(edit, where))
        case {"delete": str(code)}:
            yield {"none": [{"find": code, **where}]}
        case {"change": str(text)}:
            before, code = sides_of(text)
            is_there = bool(code.strip())
            yield {"find": code, **where} if is_there else {"none": [{"find": before, **where}]}
        case _:
            yield from _text_parts(edit, files, after)


def _text_parts(edit: Declared, files: Mapping[str, bytes], after: View) -> Iterator[Declared]:
    """What the new text of an edit looks like that does not go by meaning."""
    match edit:
        case {"text": {"replace": str(replace)}, "files": str(path)}:
            yield from _whole_texts(replace, path, after)
        case {"diff": str(name)}:
            yield from _hunk_parts(files[name].decode(), after)
        case {"add-file": str(path), "from": str(file)}:
            yield from islice(whole_lines(files[file], path), 1)


def _whole_texts(text: str, glob: str, after: View) -> Iterator[Declared]:
    """A text of the changed tree, with the rest of its statements."""
    for path in after.containing(text.encode(), [glob]):
        content = (after.read(path) or b"").decode(errors="replace")
        at = content.find(text)
        first = content.count("\n", 0, at)
        last = content.count("\n", 0, at + len(text.rstrip("\n"))) + 1
        whole = whole_statements(content, first, last, python=is_python(path))
        if whole is not None:
            yield {"text": whole, "files": glob}


def _hunk_parts(diff: str, after: View) -> Iterator[Declared]:
    """The new lines of the one hunk of a diff, with those around them."""
    _, target, _, *lines = diff.splitlines(keepends=True)
    text = "".join(line[1:] for line in lines if line[0] in " +")
    if not any(line[0] == "\\" for line in lines):
        yield from _whole_texts(text, target.removeprefix("+++ b/").strip(), after)


def _outer(edit: Declared, where: Declared) -> Declared:
    """Where code is to be found that is inserted beside a definition: not in that definition."""
    anchor = str(edit.get("before") or edit.get("after") or "")
    if "within" in where and anchor.startswith(("def ", "class ")):
        owner = str(where["within"]).rpartition(".")[0]
        rest = {key: value for key, value in where.items() if key != "within"}
        return {**rest, "within": owner} if owner else rest
    return where


def _insert_parts(code: str, name: str, where: Declared) -> Iterator[Declared]:
    if name:
        word = "class" if f"class {name}" in code else "def"
        yield {"find": f"{word} {name}{'(...)' if word == 'def' else ''}: ...", **where}
        return
    source = SourceCode(code.encode())
    for statement in source.block.statements:
        text = source.lines_of(statement.top, statement.end).strip()
        if statement.name is not None:
            yield from _insert_parts(text, statement.name, where)
        elif not text.startswith(('"""', "'''", "import ", "from ")) and not statement.parts:
            yield {"find": text.replace("...", "(...)"), **where}
        elif isinstance(statement.node, ast.Try):
            body = statement.parts[0].body
            lines = source.lines_of(body.first, body.statements[-1].end)
            yield from _insert_parts(dedent(lines), "", where)
        elif statement.parts:
            head = source.lines_of(statement.top, statement.parts[0].body.first).strip()
            yield {"find": f"{head}\n    ...", **where}


def _holds(declared: Declared, view: View) -> bool | None:
    """Whether a predicate holds; None if it is wrong."""
    try:
        predicate = Predicate.model_validate_json(json.dumps(declared))
        if predicate.find is not None:
            parse_pattern(predicate.find)
        return probe(predicate, view).holds
    except (UsageError, ValidationError, SyntaxError):
        return None


def claimed_range(needed: Mapping[Version, bool], origin: Version) -> str:
    """The versions around the origin that need the patch, as `needed-in` claims them."""
    known, origin = sorted(needed), _named_by_ranges(origin)
    if origin not in needed:
        return f">={origin}"
    earlier = takewhile(needed.get, reversed([version for version in known if version < origin]))
    claim = f">={min([origin, *earlier])}"
    end = next((version for version in known if version > origin and not needed[version]), None)
    return claim if end is None else f"{claim},<{end}"


def _named_by_ranges(version: Version) -> Version:
    """The version without the local part of a build: PEP 440 has no range with one."""
    return Version(version.public)


def claimed_before(needed: Mapping[Version, bool], origin: Version) -> str:
    """The versions that need the patch, if the origin is the first that has it already."""
    origin = _named_by_ranges(origin)
    known = [version for version in sorted(needed, reverse=True) if version < origin]
    # The release that the user names need not be the first that has it.
    while known and not needed[known[0]]:
        origin = known.pop(0)
    first = None
    while known and needed[known[0]]:
        first = known.pop(0)
    return f"<{origin}" if first is None else f">={first},<{origin}"
