"""A module that patches vLLM at run time: what it assigns becomes the code of the release.

These are the easy forms alone: a function that is assigned to a function or a method of vLLM, and a
plain value that is assigned to a name in a module of vLLM.
"""

from __future__ import annotations

import ast
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError, VpatchError, combine
from vpatch.importing.change import FileChange, Message, SourceChange
from vpatch.importing.message import id_of
from vpatch.importing.module_names import (
    FUNCTIONS,
    Function,
    bound_in,
    defined,
    free_names,
    imports_of,
    place_of,
)
from vpatch.importing.source_code import parsed
from vpatch.util.untrusted import LARGEST_BESIDE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vpatch.importing.stack import Stack

_EVERYWHERE = (
    "the module replaces what other modules find under a name; the patch changes the code itself"
)


def from_module(module: Path, stack: Stack) -> list[SourceChange]:
    """Read a module that patches vLLM at run time. Nothing of it runs.

    Raises:
        UsageError: it is not Python, or patches nothing of vLLM, or does so in another form.
    """
    source = _Source(module)
    files: dict[str, bytes] = {}
    errors: list[VpatchError] = []
    assigned = list(source.assigned())
    for one in assigned:
        try:
            _AssignmentEdit(source, one, stack, files).make()
        except VpatchError as error:
            errors.append(error)
    if errors:
        raise combine(errors)
    if not assigned:
        raise source.refused(1, "it assigns nothing to a class or a module of vLLM")
    title, _, body = (ast.get_docstring(source.tree) or "").partition("\n")
    message = Message(title or f"What {module.stem} changes", body.strip())
    changed = tuple(FileChange(path, stack.read(path), text) for path, text in files.items())
    name = id_of("", module.stem)
    return [stack.push(SourceChange(name, str(module), message, changed, (), (_EVERYWHERE,)))]


@dataclass(frozen=True)
class _Assigned:
    """`OWNER.NAME = VALUE`; `owner` is the dotted name of a class or a module of vLLM."""

    owner: str
    name: str
    value: ast.expr
    line: int

    @property
    def dotted(self) -> str:
        return f"{self.owner}.{self.name}"


class _Source:
    """The module that patches."""

    def __init__(self, module: Path) -> None:
        self.where = str(module)
        content = read_file(module, LARGEST_BESIDE)
        try:
            self.text = content.decode()
            self.tree = parsed(content)
        except (SyntaxError, ValueError) as error:
            raise self.refused(1, f"it is not Python that can be read: {error}") from error
        self.imports = imports_of(self.tree)
        self.functions = {n.name: n for n in ast.walk(self.tree) if isinstance(n, FUNCTIONS)}
        self.own = bound_in(self.tree) - self.imports.dotted.keys()

    def assigned(self) -> Iterator[_Assigned]:
        """What the module assigns to a part of vLLM, on import or in a function."""
        statements = [node for node in ast.walk(self.tree) if isinstance(node, ast.Assign)]
        pairs = [(node, target) for node in statements for target in node.targets]
        for node, target in pairs:
            if isinstance(target, ast.Attribute):
                owner = self.imports.named(target.value)
                if owner is not None and owner.partition(".")[0] == "vllm":
                    yield _Assigned(owner, target.attr, node.value, node.lineno)

    def refused(self, line: int, what: str) -> UsageError:
        return UsageError(
            what,
            where=f"{self.where}:{line}",
            hint="vpatch reads Class.method = function, module.function = function and "
            "module.NAME = value. Apply the rest by hand to a copy, and give it to --from-tree",
            code="importing.other-assignment",
        )


class _AssignmentEdit:
    """One assignment, made to the files of the release."""

    def __init__(
        self, source: _Source, one: _Assigned, stack: Stack, files: dict[str, bytes]
    ) -> None:
        self.source = source
        self.one = one
        self.stack = stack
        self.files = files
        found = place_of(one.owner, self._read)
        if found is None:
            raise self._refused(f"the release has no {one.owner}")
        self.path, self.owner = found
        self.content = (self._read(self.path) or b"").decode()
        self.tree = parsed(self.content)

    def _read(self, path: str) -> bytes | None:
        return self.files[path] if path in self.files else self.stack.read(path)

    def _refused(self, what: str) -> UsageError:
        return self.source.refused(self.one.line, what)

    def make(self) -> None:
        """Change the file that the assignment is about."""
        one = self.one
        target = defined(self.tree, f"{self.owner}.{one.name}" if self.owner else one.name)
        if isinstance(one.value, ast.Name) and one.value.id in self.source.functions:
            self._put(self.source.functions[one.value.id], target)
        elif not self.owner and isinstance(target, (ast.Assign, ast.AnnAssign)):
            self._set(target)
        else:
            raise self._refused(f"{one.dotted} gets no function of this module")

    def _set(self, target: ast.Assign | ast.AnnAssign) -> None:
        try:
            ast.literal_eval(self.one.value)
        except ValueError as error:
            raise self._refused(f"{self.one.dotted} gets a value that is computed") from error
        if target.value is None:
            raise self._refused(f"{self.one.dotted} has no value in the release")
        old = ast.get_source_segment(self.content, target.value) or ""
        new = ast.get_source_segment(self.source.text, self.one.value) or ""
        start = _offset(self.content, target.value)
        self._write(self.content[:start] + new + self.content[start + len(old) :])

    def _put(self, function: Function, target: ast.stmt | None) -> None:
        """Put a function in the place of another, or behind the last one of its class."""
        if function.decorator_list:
            raise self._refused(f"{function.name} has decorators")
        imports = self._imports(function)
        lines = self.content.splitlines(keepends=True)
        if isinstance(target, FUNCTIONS):
            text = self._text(function, " " * target.col_offset)
            lines[target.lineno - 1 : target.end_lineno] = [text]
        elif target is None and self.owner:
            owner = defined(self.tree, self.owner)
            if not isinstance(owner, ast.ClassDef):
                raise self._refused(f"{self.one.owner} is no class in the release")
            text = self._text(function, " " * owner.body[-1].col_offset)
            lines[owner.end_lineno : owner.end_lineno] = ["\n", text]
        else:
            raise self._refused(f"{self.one.dotted} is no function in the release")
        if imports:
            own = [n for n in self.tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
            end = (own[-1].end_lineno or 0) if own else 0
            lines[end:end] = [f"{statement}\n" for statement in imports]
        self._write("".join(lines))

    def _imports(self, function: Function) -> list[str]:
        """The imports that a function needs in its new module."""
        names, bound = free_names(function), bound_in(self.tree)
        theirs = imports_of(self.tree).dotted
        own = sorted((names - bound) & self.source.own)
        if own:
            raise self._refused(f"{function.name} uses {own[0]} of this module")
        known = self.source.imports
        others = [
            name
            for name in sorted(names & known.dotted.keys() & bound)
            if theirs.get(name, known.dotted[name]) != known.dotted[name]
        ]
        if others:
            raise self._refused(f"{function.name} uses {others[0]}, another thing in {self.path}")
        needed = sorted((names & known.statements.keys()) - bound)
        return [known.statements[name] for name in needed]

    def _text(self, function: Function, indent: str) -> str:
        lines = self.source.text.splitlines(keepends=True)
        text = "".join(lines[function.lineno - 1 : function.end_lineno])
        text = textwrap.dedent(text).rstrip("\n") + "\n"
        text = text.replace(f"def {function.name}", f"def {self.one.name}", 1)
        text = textwrap.indent(text, indent)
        if not _is_same(function, text):
            raise self._refused(f"{function.name} has a string of several lines, or comes after ;")
        return text

    def _write(self, text: str) -> None:
        self.files[self.path] = text.encode()


def _is_same(function: Function, text: str) -> bool:
    """Whether text is a function with the same code, whatever its name and docstring are."""
    try:
        # A method is indented.
        (made,) = parsed(f"class _:\n{text}" if text[:1].isspace() else text).body
    except (SyntaxError, ValueError):
        return False
    again = made.body[0] if isinstance(made, ast.ClassDef) else made
    return isinstance(again, type(function)) and _code(again) == _code(function)


def _code(function: Function) -> tuple[str, ...]:
    body = function.body[ast.get_docstring(function) is not None :]
    return tuple(map(ast.dump, (function.args, *body)))


def _offset(text: str, node: ast.expr) -> int:
    """Where an expression begins, in characters."""
    lines = text.splitlines(keepends=True)
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    return sum(map(len, lines[: node.lineno - 1])) + len(before)
