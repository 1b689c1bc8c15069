"""One assignment of a plugin's module, made to the files of the release."""

from __future__ import annotations

import ast
import re
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.importing.sources.function_text import (
    free_names,
    is_same,
    mangled_in,
    parsed_function,
    with_names,
)
from vpatch.deriving.module_names import (
    bound_in,
    defined,
    imports_in,
    names_of,
    place_of,
)
from vpatch.deriving.source_code import Definition, Function, parsed

if TYPE_CHECKING:
    from vpatch.changes.stack import Stack
    from vpatch.commands.importing.sources.plugin_module import Assigned, PluginModule, Scopes
    from vpatch.errors import UsageError

_KINDS = ("staticmethod", "classmethod", "property")
# A base or a decorator that reads the values of a class when it is made: later ones do not count.
_MADE_ONCE = re.compile(
    r"(Enum|Flag|BaseModel|NamedTuple|TypedDict|Struct|dataclass|config|define)$"
)


@dataclass(frozen=True)
class _Replacement:
    """A function of a plugin: its text without decorators, and the one that it gets."""

    module: PluginModule
    name: str
    text: str
    scopes: Scopes
    kind: str | None = None


class AssignmentEdit:
    """One assignment. `files` are the files as the earlier ones left them.

    Raises:
        UsageError: the release does not have what is assigned, or vpatch does not read the form.
    """

    def __init__(
        self, source: PluginModule, one: Assigned, stack: Stack, files: dict[str, bytes]
    ) -> None:
        self.source = source
        self.one = one
        self.stack = stack
        self.files = files
        self.notes: list[str] = []
        if one.refused is not None:
            raise self._refusal(f"{one.dotted} {one.refused}")
        place = place_of(one.owner, self._read)
        if place is None:
            raise self._refusal(f"the release has no {one.owner}")
        self.path, self.owner = place
        self.content = (self._read(self.path) or b"").decode()
        self.tree = parsed(self.content)
        # What the release has of the class, or the module, and of what is assigned in it.
        self.around = defined(self.tree, self.owner) if self.owner else self.tree
        self.target = defined(self.tree, f"{self.owner}.{one.name}" if self.owner else one.name)

    def _read(self, path: str) -> bytes | None:
        return self.files[path] if path in self.files else self.stack.read(path)

    def _refusal(self, what: str) -> UsageError:
        return self.source.refused(self.one.line, what)

    def make(self) -> list[str]:
        """Change the file that the assignment is about, and say what to look at."""
        one = self.one
        body = self.around.body if isinstance(self.around, ast.ClassDef | ast.Module) else []
        if sum(one.name in names_of(node) for node in body) > 1:
            raise self._refusal(f"{one.dotted} is defined several times in the release")
        if one.is_conditional:
            self.notes.append(
                f"line {one.line}: {one.dotted} is assigned on a condition, and the patch does it "
                "always"
            )
        value = one.value
        if isinstance(value, ast.Name) and (constant := self.source.value_of(value.id)) is not None:
            value = constant
        replacement = self._replacement(value)
        if replacement is not None:
            self._put(replacement)
        elif value is not None and _is_plain(value):
            self._set(value)
        elif isinstance(self.target, (ast.Assign, ast.AnnAssign)):
            raise self._refusal(f"{one.dotted} gets a value that is computed")
        else:
            raise self._refusal(f"{one.dotted} gets no function of this module")
        return self.notes

    def _replacement(self, value: ast.expr | None, kind: str | None = None) -> _Replacement | None:
        """The function that a value is, if it is one of the plugin."""
        match value:
            case ast.Call(func=ast.Name(id=name), args=[inner], keywords=[]) if (
                name in _KINDS and kind is None
            ):
                return self._replacement(inner, name)
            case ast.Lambda(args=args, body=body):
                head = f"def {self.one.name}({ast.unparse(args)}):"
                text = f"{head}\n    return {ast.unparse(body)}\n"
                return _Replacement(self.source, "the lambda", text, self.one.scopes, kind)
            case ast.Name(id=name):
                known = self.source.function(name, self.one.scopes)
                if known is None:
                    return None
                module, function, scopes = known
                kind = self._kind_of(function, kind)
                return _Replacement(module, name, self._text_of(module, function), scopes, kind)
        return None

    def _kind_of(self, function: Function, kind: str | None) -> str | None:
        """The decorator that a function gets; `functools.wraps` changes only what it is called."""
        for decorator in function.decorator_list:
            name = ast.unparse(decorator)
            if name in _KINDS and kind is None and len(function.decorator_list) == 1:
                kind = name
            elif not re.match(r"(functools\.)?wraps\(", name):
                raise self._refusal(f"{function.name} has decorators (@{name})")
        return kind

    def _text_of(self, module: PluginModule, function: Function) -> str:
        lines = module.text.splitlines(keepends=True)
        text = "".join(lines[function.lineno - 1 : function.end_lineno])
        text = textwrap.dedent(text).rstrip("\n") + "\n"
        text = text.replace(f"def {function.name}", f"def {self.one.name}", 1)
        if not is_same(function, text):
            raise self._refusal(f"{function.name} has a string of several lines, or comes after ;")
        return text

    # --- values ---------------------------------------------------------------------------------

    def _set(self, value: ast.expr) -> None:
        target, owner = self.target, self.around
        new = ast.unparse(value)
        segment = ast.get_source_segment(self.source.text, value)
        new = segment if segment is not None and "\n" not in segment else new
        if isinstance(target, (ast.Assign, ast.AnnAssign)):
            self._refuse_made_once()
            if target.value is None:
                raise self._refusal(f"{self.one.dotted} has no value in the release")
            old = ast.get_source_segment(self.content, target.value) or ""
            start = _offset(self.content, target.value)
            self._write(self.content[:start] + new + self.content[start + len(old) :])
        elif target is None and isinstance(owner, ast.ClassDef):
            self._refuse_made_once()
            lines = self.content.splitlines(keepends=True)
            indent = " " * owner.body[-1].col_offset
            assignment = f"{indent}{self.one.name} = {new}\n"
            lines[owner.end_lineno : owner.end_lineno] = ["\n", assignment]
            self._write("".join(lines))
        else:
            what = "is not" if target is None else "is no variable"
            raise self._refusal(f"{self.one.dotted} {what} in the release")

    def _refuse_made_once(self) -> None:
        """Refuse fields: a class such as a dataclass has their values from its making."""
        owner, target = self.around, self.target
        if not isinstance(owner, ast.ClassDef):
            return
        heads = [ast.unparse(n).partition("(")[0] for n in (*owner.bases, *owner.decorator_list)]
        is_enum = any(re.search(r"(Enum|Flag)$", head) for head in heads)
        if (is_enum or isinstance(target, ast.AnnAssign)) and any(map(_MADE_ONCE.search, heads)):
            raise self._refusal(
                f"{self.one.dotted} is a field: {self.owner} has read its value when it is assigned"
            )

    # --- functions ------------------------------------------------------------------------------

    def _put(self, new: _Replacement) -> None:
        """Put a function in the place of another, or behind the last one of its class."""
        target, owner = self.target, self.around
        hidden = self._hidden_name()
        renamed, imports = self._names(new, hidden)
        text = with_names(new.text, renamed)
        lines = self.content.splitlines(keepends=True)
        if isinstance(target, Function):
            if renamed:
                text = self._indent(new, text, target.col_offset)
                # As the module does it. The old function stays as it is, so one insert says this.
                alias = f"{' ' * target.col_offset}{hidden} = {self.one.name}\n"
                gap = "\n" if self.owner else "\n\n"
                lines[target.end_lineno : target.end_lineno] = [gap, alias, gap, text]
            else:
                first = self._first_line(new, target)
                text = self._indent(new, text, target.col_offset)
                lines[first - 1 : target.end_lineno] = [text]
        elif renamed:
            raise self._refusal(f"{self.one.dotted} is not defined in {self.one.owner} itself")
        elif target is None and self.owner:
            if not isinstance(owner, ast.ClassDef):
                raise self._refusal(f"{self.one.owner} is no class in the release")
            text = self._indent(new, text, owner.body[-1].col_offset)
            lines[owner.end_lineno : owner.end_lineno] = ["\n", text]
        else:
            raise self._refusal(f"{self.one.dotted} is no function in the release")
        lines[self._end_of_imports() : self._end_of_imports()] = [f"{one}\n" for one in imports]
        self._write("".join(lines))

    def _first_line(self, new: _Replacement, target: Function) -> int:
        """The first line to replace: that of the decorators if they go."""
        names = [ast.unparse(decorator) for decorator in target.decorator_list]
        if not names or (new.kind is not None and names == [new.kind]):
            return target.lineno
        if new.kind is None and set(names).isdisjoint({"staticmethod", "classmethod"}):
            self.notes.append(
                f"{self.one.dotted} keeps its decorators (@{', @'.join(names)}), which the module "
                "takes away"
            )
            return target.lineno
        self.notes.append(
            f"{self.one.dotted} has no @{', @'.join(names)} any more, as in the module"
        )
        return min(decorator.lineno for decorator in target.decorator_list)

    def _indent(self, new: _Replacement, text: str, indent: int) -> str:
        decorators = self.target.decorator_list if isinstance(self.target, Function) else []
        is_there = list(map(ast.unparse, decorators)) == [new.kind]
        is_there = is_there and self._hidden_name() not in text
        head = f"@{new.kind}\n" if new.kind and not is_there else ""
        whole = textwrap.indent(head + text, " " * indent)
        if not is_same(parsed_function(text), whole):
            raise self._refusal(f"{new.name} has a string of several lines, or comes after ;")
        return whole

    def _hidden_name(self) -> str:
        """A name for the function of the release, which the new one calls."""
        name = f"_unpatched_{self.one.name.strip('_')}"
        while re.search(rf"\b{name}\b", self.content):
            name += "_"
        return name

    def _names(self, new: _Replacement, hidden: str) -> tuple[dict[str, str], list[str]]:
        """What a function uses of its module: new names for some, and imports for others."""
        if re.search(r"^\s*(global|nonlocal)\s", new.text, re.MULTILINE):
            raise self._refusal(f"{new.name} changes a variable of this module (global, nonlocal)")
        if self.owner and (mangled := mangled_in(new.text)):
            raise self._refusal(
                f"{new.name} uses {mangled}, which is another name inside of a class"
            )
        own, known = new.module.own(new.scopes), new.module.imports
        bound = bound_in(self.tree)
        renamed: dict[str, str] = {}
        imports: list[str] = []
        for name in sorted(free_names(new.text)):
            alias = new.module.aliases.get(name)
            if alias is not None:
                self._check_original(new, name, alias)
                renamed[name] = f"{self.owner}.{hidden}" if self.owner else hidden
            elif name in own:
                if not self._is_same_variable(name, new.module):
                    raise self._refusal(f"{new.name} uses {name} of this module")
            elif name in known.dotted and name in bound:
                if not self._is_same_import(name, known.dotted[name]):
                    raise self._refusal(f"{new.name} uses {name}, another thing in {self.path}")
            elif name in known.dotted:
                imports.append(known.statements[name])
                self._note_plugin(new.module, known.dotted[name])
        return renamed, imports

    def _check_original(self, new: _Replacement, name: str, alias: tuple[str, int]) -> None:
        """Refuse what is not the function of the release from before the assignment."""
        dotted, line = alias
        if place_of(dotted, self._read) != place_of(self.one.dotted, self._read) or (
            new.module is not self.source
        ):
            raise self._refusal(f"{new.name} uses {name} of this module, which is {dotted}")
        if line > self.one.line or new.module.is_unsure(name):
            raise self._refusal(f"{new.name} uses {name}, which need not be the original")

    def _is_same_variable(self, name: str, module: PluginModule) -> bool:
        """Whether the release has a variable of the same code, such as its logger."""
        ours, theirs = module.value_of(name), defined(self.tree, name)
        value = getattr(theirs, "value", None)
        return ours is not None and value is not None and ast.dump(ours) == ast.dump(value)

    def _is_same_import(self, name: str, dotted: str) -> bool:
        if defined(self.tree, name) is not None:
            return place_of(dotted, self._read) == (self.path, name)
        theirs = imports_in(self.tree, self.path).get(name)
        if theirs is None or theirs == dotted:
            return theirs is not None
        place = place_of(dotted, self._read)
        return place is not None and place == place_of(theirs, self._read)

    def _note_plugin(self, module: PluginModule, dotted: str) -> None:
        root = dotted.partition(".")[0]
        if root in {parent.name for parent in module.path.absolute().parents}:
            self.notes.append(f"the patched tree imports {dotted}, which the plugin has")

    def _end_of_imports(self) -> int:
        """The line behind the imports at the head of the file."""
        end = 0
        for node in self.tree.body:
            if isinstance(node, Definition):
                break
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                end = node.end_lineno or 0
            elif not end and ast.get_docstring(self.tree) is not None:
                end = self.tree.body[0].end_lineno or 0
        return end

    def _write(self, text: str) -> None:
        self.files[self.path] = text.encode()


def _is_plain(value: ast.expr) -> bool:
    try:
        ast.literal_eval(value)
    except (ValueError, TypeError):
        return False
    return True


def _offset(text: str, node: ast.expr) -> int:
    """Where an expression begins, in characters."""
    lines = text.splitlines(keepends=True)
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    return sum(map(len, lines[: node.lineno - 1])) + len(before)
