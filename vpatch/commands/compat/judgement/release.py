"""A release of vLLM beside a target: what can be asked of the two."""

from __future__ import annotations

import ast
import operator
import re
import textwrap
from functools import cached_property
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from vpatch.commands.compat.code.classes import line_of
from vpatch.commands.compat.code.codebase import Codebase, IsGone, IsHere, IsModule, IsOutside
from vpatch.commands.compat.code.methods import SelfUse, self_uses
from vpatch.commands.compat.code.outline import Class, Function
from vpatch.commands.compat.code.part import BuiltModules, CodePart, module_at, release_part
from vpatch.commands.compat.code.read import read_outline
from vpatch.commands.compat.judgement.callers import MethodUse, uses_in
from vpatch.commands.compat.judgement.evaluate import evaluate
from vpatch.commands.compat.surface.items import Ref
from vpatch.planning.outline import dumped
from vpatch.planning.view import View
from vpatch.util.digest import digest_of
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vpatch.commands.compat.code.codebase import DefinedPlace
    from vpatch.commands.compat.code.outline import Outline
    from vpatch.commands.compat.judgement.evaluate import Evaluated
    from vpatch.commands.compat.surface.items import Guard, Surface
    from vpatch.commands.compat.target import CompatTarget
    from vpatch.planning.answers import Answers
    from vpatch.source.entry import CachedTree

_OPERATORS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_DIGITS = 16
# An operator's schema begins with its name: `ops.def("silu_and_mul(Tensor! out, ...`.
_REGISTERED = re.compile(r"\b(?:def|impl)\(\s*\"(\w+)")
# What is asked of the code of a release, and kept by its contents.
_METHOD_USES = "the uses of a method, form 1"
_BODY = "the digest of a definition, form 1"
_SELF_USES = "what the methods of a class read and set, form 1"
# More places than these do not say where a name went.
_MOST_MOVES = 3


class JudgedRelease:
    """A release and a target, by the names of what they define."""

    def __init__(self, tree: CachedTree, own: CodePart, surface: Surface, answers: Answers) -> None:
        self._tree = tree
        self._part = release_part(tree, answers)
        self._built = BuiltModules(tree)
        self._answers = answers
        self._own_roots = own.roots
        self.version = tree.pin.version
        self.digest = tree.pin.digest
        self.code = Codebase([self._part, own])
        self.own_stores = surface.stores
        self.outer_stores = surface.outer_stores
        self.read_first = surface.read_first
        self.own_operators = surface.operators
        self.built_operators = surface.built
        self.parents = surface.parents
        self._surface = surface
        self._evaluated: dict[Ref, Evaluated] = {}

    @property
    def files(self) -> Mapping[str, bytes]:
        """The files of vLLM's package, by their paths."""
        return self._tree.package_files

    @cached_property
    def view(self) -> View:
        return View(self._tree, answers=self._answers)

    def outline(self, module: str) -> Outline | None:
        """Return the outline of a module of vLLM."""
        return self._part.outline(module)

    def holding(self, word: str) -> frozenset[str]:
        """Return the files of vLLM's package that have a word."""
        return frozenset(self._tree.holding(word.encode())) & self._tree.package_files.keys()

    def ask(
        self, question: str, path: str, find: Callable[[bytes], list[Any]], more: str = ""
    ) -> list[Any]:
        """Return what `find` says of a file of vLLM, which is kept by the file's contents."""
        key = [bytes.fromhex(self._tree.records[path].sha256), *([more.encode()] if more else [])]
        answer: list[Any] = self._answers.ask(
            question, key, lambda: find(self._tree.package_files[path])
        )
        return answer

    def uses(self, path: str, name: str) -> list[MethodUse]:
        """Return the uses of a method of some name in a file of vLLM."""
        rows = self.ask(
            _METHOD_USES, path, lambda text: [list(one) for one in uses_in(text, name)], name
        )
        return [MethodUse(*row)._replace(keywords=tuple(row[3])) for row in rows]

    def evaluate(self, ref: Ref) -> Evaluated:
        """Return what a reference means; see `evaluate`."""
        if ref not in self._evaluated:
            self._evaluated[ref] = evaluate(self.code, ref)
        return self._evaluated[ref]

    def is_own(self, place: DefinedPlace) -> bool:
        return place.module.partition(".")[0] in self._own_roots

    @cached_property
    def patched_members(self) -> dict[str, set[str]]:
        """The members of classes of vLLM that the target replaces, by the class."""
        members: dict[str, set[str]] = {}
        patches = (item.ref for item in self._surface.items.values() if item.kind == "patch")
        for root in {root for ref in patches for root in ref.roots}:
            owner, _, name = root.rpartition(".")
            answer = self.evaluate(Ref((owner,))).answer if owner else None
            if isinstance(answer, IsHere):
                members.setdefault(answer.place.dotted, set()).add(name)
        return members

    @cached_property
    def heirs_members(self) -> dict[str, set[str]]:
        """What classes of the target have that inherit from a class of vLLM, by that class."""
        members: dict[str, set[str]] = {}
        classes = (i.own_name for i in self._surface.items.values() if i.kind == "abstract")
        for name in filter(None, classes):
            answer = self.code.find(name)
            one = answer.place.binding if isinstance(answer, IsHere) else None
            if isinstance(answer, IsHere) and isinstance(one, Class):
                for place in line_of(self.code, answer.place).places[1:]:
                    members.setdefault(place.dotted, set()).update(one.members, one.attributes)
        return members

    def is_outside(self, ref: Ref) -> bool:
        """Whether a reference begins with a package that is neither vLLM's nor the target's."""
        first = {root.partition(".")[0] for root in ref.roots}
        return first.isdisjoint({*self._own_roots, *self._part.roots})

    def is_own_name(self, dotted: str) -> bool:
        return dotted.partition(".")[0] in self._own_roots

    def path_of(self, module: str) -> str:
        return self._part.path(module) or module.replace(".", "/")

    def where(self, place: DefinedPlace) -> str:
        return f"{self.path_of(place.module)}:{place.binding.first}"

    def lines(self, place: DefinedPlace) -> list[str]:
        """Return the lines of a definition of vLLM."""
        path = self._part.path(place.module)
        if path is None or not isinstance(place.binding, Function | Class):
            return []
        text = self._tree.package_files[path].decode(errors="replace")
        return text.splitlines()[place.binding.first - 1 : place.binding.last]

    def body(self, place: DefinedPlace) -> str:
        """Return a digest of a function that is the same for every layout and docstring."""
        if not isinstance(place.binding, Function):
            return ""
        return str(self._asked(_BODY, place, _body_digest) or "")

    def self_uses(self, place: DefinedPlace) -> dict[str, SelfUse]:
        """Return what each method of a class of vLLM reads and sets on `self`."""
        if not isinstance(place.binding, Class):
            return {}
        rows = self._asked(_SELF_USES, place, _self_use_rows) or {}
        return {
            name: SelfUse(frozenset(reads), frozenset(sets)) for name, (reads, sets) in rows.items()
        }

    def _asked(self, question: str, place: DefinedPlace, find: Callable[[str], Any]) -> Any | None:
        """Return what `find` says of the text of a definition; None for one that is not vLLM's."""
        path, one = self._part.path(place.module), place.binding
        if path is None or not isinstance(one, Function | Class):
            return None
        key = [bytes.fromhex(self._tree.records[path].sha256), f"{one.first}-{one.last}".encode()]
        return self._answers.ask(
            question, key, lambda: find(textwrap.dedent("\n".join(self.lines(place))))
        )

    def mentions(self, module: str, name: str) -> bool:
        """Whether the code of a module of vLLM has a word."""
        path = self._part.path(module)
        return path is not None and path in self._tree.holding(name.encode())

    def sets_somewhere(self, name: str) -> bool:
        """Whether code of vLLM sets an attribute of this name on anything."""
        word = re.escape(name)
        pattern = re.compile(
            rf"\.{word}\s*(?::[^=\n]+)?(?:=[^=]|[-+*/|&]=)|setattr\(\s*[\w.]+,\s*[\"']{word}[\"']"
        )
        return any(pattern.search(text) for text in self.texts(name))

    def sets_from_outside(self, name: str) -> bool:
        """Whether code of vLLM sets an attribute of this name on something else than `self`."""
        word = re.escape(name)
        pattern = re.compile(rf"(?<!\bself)\.{word}\s*(?::[^=\n]+)?=[^=]|setattr\([^)]*\b{word}\b")
        return any(pattern.search(text) for text in self.texts(name))

    def sets_on_module(self, dotted: str) -> bool:
        """Whether code of vLLM sets a name on a module that has no such name itself."""
        module, _, name = dotted.rpartition(".")
        word, last = re.escape(name), re.escape(module.rpartition(".")[2])
        pattern = re.compile(rf"\b{last}\.{word}\s*=[^=]|setattr\([^)]*[\"']{word}[\"']")
        return any(pattern.search(text) for text in self.texts(name))

    def texts(self, name: str) -> Iterable[str]:
        """Return the files of vLLM's package that have a word."""
        for path in sorted(self._tree.holding(name.encode())):
            yield self._tree.package_files[path].decode(errors="replace")

    def has_text(self, text: str) -> bool:
        return bool(self._tree.containing(text.encode()))

    def moved(self, name: str) -> str:
        """Return where vLLM defines a function or a class of this name, if that is clear."""
        places = []
        for path in self._defining(name):
            module = module_at(path)
            outline = self._part.outline(module)
            for one in outline.names.get(name, ()) if outline else ():
                if isinstance(one, Function | Class):
                    places.append(f"{module}.{name} ({path}:{one.first})")
                    break
        return "; ".join(places) if len(places) <= _MOST_MOVES else ""

    def defines(self, name: str) -> bool:
        """Whether some file of vLLM defines a function, a method or a class of this name."""
        return next(self._defining(name), None) is not None

    def _defining(self, name: str) -> Iterator[str]:
        definition = re.compile(
            rf"^\s*(?:async\s+def|def|class)\s+{re.escape(name)}\b".encode(), re.MULTILINE
        )
        for path in sorted(self._tree.holding(name.encode())):
            if definition.search(self._tree.package_files[path]):
                yield path

    @cached_property
    def registered_operators(self) -> frozenset[str]:
        """The names of operators that vLLM's C++ sources register."""
        return frozenset(_REGISTERED.findall(self.native_text or ""))

    @property
    def native_text(self) -> str | None:
        """The C++ sources of vLLM; None for a built package, which has none."""
        return self._built.native_text

    def runs(self, guards: Iterable[Guard]) -> bool | None:
        """Return whether code under some conditions runs with this release."""
        results = [self._holds(guard) for guard in guards]
        if False in results:
            return False
        return None if None in results else True

    def _holds(self, guard: Guard) -> bool | None:
        result: bool | None = None
        match guard.kind:
            case "typing":
                result = False
            case "try":
                result = True
            case "platform":
                return True
            case "version":
                result = self._compares(guard)
            case "has":
                answer = self.evaluate(guard.refs[0].attribute(guard.names[0])).answer
                known = {IsHere: True, IsOutside: True, IsModule: True, IsGone: False}
                result = known.get(type(answer))
            case "handler":
                answers = [self.evaluate(ref).answer for ref in guard.refs]
                if any(isinstance(one, IsGone) for one in answers):
                    result = True
                elif answers and all(isinstance(one, IsHere | IsModule) for one in answers):
                    result = False
        return result if result is None or not guard.is_not else not result

    def _compares(self, guard: Guard) -> bool | None:
        version = read_version(self.version or "")
        if version is None:
            return None
        return bool(_OPERATORS[guard.comparison](version, Version(guard.version)))


def _body_digest(text: str) -> str:
    try:
        return digest_of(dumped(ast.parse(text)).encode())[-_DIGITS:]
    except (SyntaxError, ValueError, RecursionError):
        return digest_of(text.encode())[-_DIGITS:]


def _self_use_rows(text: str) -> dict[str, list[list[str]]]:
    try:
        node = ast.parse(text).body[0]
    except (SyntaxError, ValueError, RecursionError):
        return {}
    uses = self_uses(node) if isinstance(node, ast.ClassDef) else {}
    return {name: [sorted(use.reads), sorted(use.sets)] for name, use in uses.items()}


def own_part(target: CompatTarget, surface: Surface) -> CodePart:
    """Return the modules of a target. What its surface has is not read again."""
    known = surface.outlines
    return CodePart(
        target.modules, lambda path: known.get(path) or read_outline(target.files[path]), None
    )
