"""What a change adds to a new release gets the names that upstream has there now."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.merging.merged_imports import (
    ImportedName,
    imported_names,
    with_imports,
)
from vpatch.merging.upstream_names import name_tokens, renames, with_names
from vpatch.planning.code_place import place_of
from vpatch.planning.lint import new_faults
from vpatch.planning.outline import is_python, outline
from vpatch.planning.successor import successor
from vpatch.planning.users import imported_from

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.planning.outline import Definition
    from vpatch.planning.view import View

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class NewNames:
    """The names of code in two releases; `patched` is the old one with the change.

    `notes` say what is imported from another module, and what is gone. `renamed` are names that the
    files of a change have no more, by those that took their place.
    """

    old: View
    new: View
    patched: View
    notes: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)

    def of_side(self, path: str, target: str, text: bytes) -> bytes:
        """A side of a merge, with the names of the new release in the whole file."""
        sides = [(self.old.pristine(path) or b""), (self.new.pristine(target) or b"")]
        names = renames(*(side.decode(errors="replace") for side in sides), local=False)
        changed = with_names(text.decode(errors="surrogateescape"), names, local=False)
        return _in_functions(changed, *sides).encode(errors="surrogateescape")

    def settled(self, origin: str, path: str, laid: bytes) -> bytes:
        """What was laid into a file, with the names of the new release in the lines that it adds.

        `origin` is where the old release has the file.
        """
        before, after = self.old.pristine(origin), self.new.pristine(path)
        if before is None or after is None:
            return laid
        old, new, text = (one.decode(errors="surrogateescape") for one in (before, after, laid))
        names = renames(old, new, local=False)
        self.renamed |= names
        text = self._only_added(new, text, with_names(text, names, local=False))
        text = self._only_added(new, text, _in_functions(text, before, after))
        text = self._with_imports(path, new, self._with_missing(origin, path, new, text))
        self._note(path, old, new, text)
        self._note_parameters(origin, path, before, text)
        return text.encode(errors="surrogateescape")

    def faults(self, files: Mapping[str, bytes]) -> tuple[str, ...]:
        """What is gone or otherwise in files into which a change was laid."""
        for path, laid in sorted(files.items()):
            before, after = self.old.pristine(path), self.new.pristine(path)
            if before is not None and after is not None and is_python(path):
                old, new, text = (one.decode(errors="replace") for one in (before, after, laid))
                self._note(path, old, new, text)
                self._note_parameters(path, path, before, text)
        return tuple(self.notes)

    def _only_added(self, new: str, text: str, renamed: str) -> str:
        """The renamed text in the lines that are not upstream's."""
        added = _added_lines(new, text)
        pairs = zip(text.splitlines(keepends=True), renamed.splitlines(keepends=True), strict=True)
        return "".join(b if number in added else a for number, (a, b) in enumerate(pairs, 1))

    def _with_imports(self, path: str, new: str, text: str) -> str:
        """Imports that the change adds, of names that are in another module now."""
        added = _added_lines(new, text)
        lines = text.splitlines(keepends=True)
        moved: list[ImportedName] = []
        for one in _imports(text):
            if one.lineno not in added or one.level or one.end_lineno != one.lineno:
                continue
            modules = {self._module_now(one.module or "", alias.name) for alias in one.names}
            (module, *more) = modules
            if more or module is None or module == one.module:
                continue
            line = lines[one.lineno - 1]
            changed = line.replace(f"from {one.module} ", f"from {module} ", 1)
            lines[one.lineno - 1] = changed if one.col_offset else ""
            own = [ImportedName(module, alias.name, alias.asname) for alias in one.names]
            moved += [] if one.col_offset else own
            names = ", ".join(alias.name for alias in one.names)
            self.notes.append(f"{path}: {names} is imported from {module} now")
        return with_imports("".join(lines), tuple(moved)) or text

    def _with_missing(self, origin: str, path: str, new: str, text: str) -> str:
        """The imports that added code needs, and that the change has where the code was."""
        if path == origin:
            return text
        missing = _undefined(path, new, text)
        own = imported_names((self.patched.read(origin) or b"").decode(errors="replace"))
        needed = tuple(sorted(one for one in own if one.bound in missing))
        return with_imports(text, needed) or text

    def _module_now(self, module: str, name: str) -> str | None:
        """The module that has a name of a module of the old release; None if that is not clear."""
        place = _file_of(module, self.old)
        if place is None:
            return module
        own = [one for one in self.old.outline(place) if one.name == name]
        present = _file_of(module, self.new)
        if present and any(one.name == name for one in self.new.outline(present)):
            return module
        if len(own) != 1:
            return module if not own else None
        heir = successor(
            place_of(place, self.old.pristine(place) or b"", own[0]), self.old, self.new
        )
        if heir is None or heir.name != name:
            return None
        return heir.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")

    def _note(self, path: str, old: str, new: str, text: str) -> None:
        added = _added_lines(new, text)
        tokens = [one for one in name_tokens(text) if one.line in added]
        known = {one.text for one in name_tokens(new)} | _bound(text)
        gone = {one.text for one in tokens} & {one.text for one in name_tokens(old)} - known
        undefined = _undefined(path, new, text)
        for name in sorted(gone | undefined):
            self.notes.append(f"{path}: the change names {name}, which is not there any more")
        for one in _imports(text):
            if one.lineno in added and not one.level:
                for alias in one.names:
                    if self._module_now(one.module or "", alias.name) is None:
                        self.notes.append(
                            f"{path}: {one.module} does not have {alias.name} any more"
                        )

    def _note_parameters(self, origin: str, path: str, before: bytes, text: str) -> None:
        """Parameters that the change adds, and that callers must give otherwise now."""
        theirs = _functions(outline(self.patched.read(origin) or b""))
        own = _functions(outline(text.encode(errors="replace")))
        old = _functions(outline(before))
        for name in sorted(theirs.keys() & own.keys() & old.keys()):
            added = _parameters(theirs[name]).items() - _parameters(old[name]).items()
            now = _parameters(own[name])
            for parameter, kind in sorted(added):
                if now.get(parameter, kind) != kind:
                    self.notes.append(
                        f"{path}: {name} takes {parameter} {now[parameter]}, and took it {kind}"
                    )


def _parameters(one: Definition) -> dict[str, str]:
    """How each parameter of a function is given."""
    if not isinstance(one.node, _FUNCTIONS):
        return {}
    own = one.node.args
    kinds = dict.fromkeys((each.arg for each in [*own.posonlyargs, *own.args]), "by position")
    return kinds | dict.fromkeys((each.arg for each in own.kwonlyargs), "by name")


def _undefined(path: str, new: str, text: str) -> set[str]:
    """The names that nothing defines, and that upstream's file does not use so."""
    sides = (side.encode(errors="replace") for side in (new, text))
    return {fault.name for fault in new_faults(path, *sides) if fault.kind == "undefined"}


def _in_functions(text: str, before: bytes, after: bytes) -> str:
    """A text with the names that local variables and parameters of its functions have now."""
    old, new = (_functions(outline(side)) for side in (before, after))
    own = _functions(outline(text.encode(errors="replace")))
    lines = text.splitlines(keepends=True)
    for name, one in sorted(own.items(), key=lambda pair: -pair[1].first):
        if name not in old or name not in new:
            continue
        sides = _text_of(before, old[name]), _text_of(after, new[name])
        if sides[0] == sides[1]:
            continue
        names = renames(*sides, local=True)
        if names:
            body = "".join(lines[one.first - 1 : one.last])
            lines[one.first - 1 : one.last] = with_names(body, names, local=True).splitlines(
                keepends=True
            )
    return "".join(lines)


def _functions(listed: list[Definition]) -> dict[str, Definition]:
    functions = [one for one in listed if isinstance(one.node, _FUNCTIONS)]
    numbers: dict[str, int] = {}
    for one in functions:
        numbers[one.name] = numbers.get(one.name, 0) + 1
    return {one.name: one for one in functions if numbers[one.name] == 1}


def _text_of(text: bytes, one: Definition) -> str:
    lines = text.splitlines(keepends=True)[one.first - 1 : one.last]
    return b"".join(lines).decode(errors="replace")


def _added_lines(new: str, text: str) -> set[int]:
    """The lines of a text, from 1, that upstream does not have."""
    matcher = SequenceMatcher(None, new.splitlines(), text.splitlines(), autojunk=False)
    codes = matcher.get_opcodes()
    return {n + 1 for tag, _, _, begin, end in codes if tag != "equal" for n in range(begin, end)}


def _imports(text: str) -> Iterator[ast.ImportFrom]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            yield node


def _file_of(module: str, view: View) -> str | None:
    stem = imported_from("", module, 0)
    return next(
        (p for p in (f"{stem}.py", f"{stem}/__init__.py") if view.pristine(p) is not None), None
    )


def _bound(text: str) -> set[str]:
    """The names that a piece of code binds itself, attributes as well."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                names.add(name)
            case ast.ClassDef(name=name):
                names.add(name)
            case ast.arg(arg=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=other):
                names.add(other or name.partition(".")[0])
    return names
