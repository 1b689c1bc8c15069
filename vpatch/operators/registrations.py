"""Which operators C++ sources register with PyTorch, read as text. Nothing is compiled."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.operators.cpp_text import read_cpp
from vpatch.operators.extensions import Extensions

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.operators.cpp_text import CppText

SOURCES = (
    *(".cpp", ".cc", ".cxx", ".c", ".cu", ".mu", ".hip", ".maca", ".mm"),
    *(".h", ".hh", ".hpp", ".cuh", ".inc", ".inl"),
)
_REGISTERS = b"TORCH_LIBRARY"
_LIBRARY = re.compile(r"\b(\w*TORCH_LIBRARY\w*)\s*\(")
_METHOD = re.compile(r"\.\s*(def|impl)\s*\(")
_WRAPPER = re.compile(r"\s*(?:[A-Za-z_][\w:]*\s*\(\s*)*")
_TEXTS = re.compile(r'(?:"[^"\n]*"\s*)+')
_TEXT = re.compile(r'"((?:\\.|[^"\\\n])*)"')
_SCHEMA = re.compile(r"\s*(?:\w+::)?(\w+(?:\.\w+)?)\s*(\(?)")
_BLOCK = re.compile(r"\s*\{")
_STATEMENT = re.compile(r"(?:\A|[;{}])\s*([A-Za-z_][\w:]*)\s*\(")
_CONTROL = frozenset(["if", "for", "while", "switch", "TORCH_CHECK", "static_assert"])
# The name of the extension that a source is built into.
_EXTENSION = "TORCH_EXTENSION_NAME"


@dataclass
class BuiltOperators:
    """The operators that a build registers: `_C.rms_norm`, with an overload `_C.quant.out`.

    `places` are the namespaces, each with the first place that registers in it. `maybe` are
    operators that only some conditions register. `open` says of namespaces why they may have more,
    and of "" why any may. `whole` are those that only one library of a process can register.
    """

    places: dict[str, tuple[str, int]] = field(default_factory=dict)
    sure: set[str] = field(default_factory=set)
    maybe: set[str] = field(default_factory=set)
    open: dict[str, str] = field(default_factory=dict)
    whole: set[str] = field(default_factory=set)

    @property
    def row(self) -> list[list[object]]:
        """All of it in one order."""
        rows: list[list[object]] = [[*self.places.items()], [*self.open.items()]]
        return rows + [[*sorted(one)] for one in (self.sure, self.maybe, self.whole)]

    def names_in(self, namespace: str) -> set[str]:
        """Return what a namespace may have, without its overloads."""
        several = self.sure | self.maybe
        return {one.split(".")[1] for one in several if one.startswith(f"{namespace}.")}

    def has(self, name: str, *, any_overload: bool = False) -> bool | None:
        """Return whether an operator is built; None where the sources do not tell."""

        def among(names: set[str]) -> bool:
            return name in names or (
                any_overload and any(one.startswith(f"{name}.") for one in names)
            )

        if among(self.sure):
            return True
        namespace = name.partition(".")[0]
        is_open = namespace in self.open or "" in self.open
        return None if is_open or among(self.maybe) else False


def read_registrations(
    sources: Mapping[str, bytes], build_files: Mapping[str, bytes]
) -> BuiltOperators:
    """Return what some sources register that CMake files or a setup.py build."""
    extensions = Extensions(build_files)
    built = BuiltOperators()
    texts = {path: read_cpp(code) for path, code in sources.items() if _REGISTERS in code}
    defined: dict[str, str] = {}
    for text in texts.values():
        for name, value in text.defined.items():
            defined[name] = value if defined.get(name, value) == value else ""
    for path, text in texts.items():
        names = extensions.of(path)
        known = {_EXTENSION: names[0] if len(names) == 1 else "", **defined}
        # What no build file names is perhaps not built.
        is_listed = bool(names) or extensions.is_empty
        end = 0
        for match in _LIBRARY.finditer(text.code):
            if match.start() >= end:
                end = _read_library(built, path, text, match, known, is_listed=is_listed)
    return built


def _read_library(
    built: BuiltOperators,
    path: str,
    text: CppText,
    match: re.Match[str],
    known: dict[str, str],
    *,
    is_listed: bool,
) -> int:
    """Read a block such as `TORCH_LIBRARY(_C, ops) { ... }`, and return where it ends."""
    end = text.closing(match.end() - 1)
    start = None if end is None else _BLOCK.match(text.code, end + 1)
    last = None if start is None else text.closing(start.end() - 1)
    if end is None or start is None or last is None:
        return match.end()
    head = text.code[match.end() : end]
    namespace = _namespace(head, known)
    line = text.line(match.start())
    is_impl = "_IMPL" in match[1]
    if not namespace:
        if not is_impl:
            why = f"vpatch cannot read which namespace {path}:{line} registers in"
            built.open.setdefault("", why)
        return last
    if not is_impl:
        built.places.setdefault(namespace, (path, line))
        if "_FRAGMENT" not in match[1]:
            built.whole.add(namespace)
    library = head.rpartition(",")[2].strip()
    spans = list(_calls(text, start.end(), last))
    depth, before = 0, start.end()
    for offset, method, close in spans:
        depth += text.code.count("{", before, offset) - text.code.count("}", before, offset)
        before = offset
        name = _name(text, offset, close)
        if name is None:
            if method == "def":
                where = f"{path}:{text.line(offset)}"
                built.open.setdefault(namespace, f"{where} registers a name that is no plain text")
            continue
        is_plain = is_listed and not depth and not text.is_conditional(offset)
        is_sure = method == "def" and not is_impl and is_plain
        (built.sure if is_sure else built.maybe).add(f"{namespace}.{name}")
    more = _more(text, (start.end(), last), spans, library)
    if more and not is_impl:
        where = f"{path}:{text.line(more[1])}"
        built.open.setdefault(namespace, f"{where} may register more: {more[0]}")
    return last


def _namespace(head: str, known: dict[str, str]) -> str:
    """Return the namespace that the arguments of a macro name, or ""."""
    joined = re.match(r"\s*\w*CONCAT\w*\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)", head)
    parts = joined.groups() if joined else (head.partition(",")[0].strip(),)
    names = [known.get(part, part) for part in parts]
    return "".join(names) if all(re.fullmatch(r"\w+", one) for one in names) else ""


def _calls(text: CppText, first: int, last: int) -> Iterator[tuple[int, str, int]]:
    """Yield each call of `def` and `impl`: where its arguments begin, and where they end."""
    for match in _METHOD.finditer(text.code, first, last):
        close = text.closing(match.end() - 1)
        if close is not None:
            yield match.end(), match[1], close


def _name(text: CppText, offset: int, close: int) -> str | None:
    """Return the name in the first argument, which is a text or several that follow each other."""
    wrapper = _WRAPPER.match(text.code, offset, close)
    start = wrapper.end() if wrapper else offset
    several = _TEXTS.match(text.code, start, close)
    if several is None:
        return None
    plain = "".join(_TEXT.findall(text.text[start : several.end()]))
    match = _SCHEMA.match(plain)
    after = text.code[several.end() : close + 1].lstrip()[:1]
    return match[1] if match and (match[2] or after in {",", ")"}) else None


def _more(
    text: CppText, block: tuple[int, int], calls: list[tuple[int, str, int]], library: str
) -> tuple[str, int] | None:
    """Return what else in a block may register operators: a macro, a function, another file."""
    first, last = block
    code = list(text.code[first:last])
    for offset, _, close in calls:
        code[offset - first : close - first] = " " * (close - offset)
    rest = "".join(code)
    for match in _STATEMENT.finditer(rest):
        if match[1] not in _CONTROL:
            return match[1], first + match.start(1)
    handed = re.search(rf"\b{re.escape(library)}\b(?!\s*\.)", rest) if library else None
    if handed:
        return f"{library} is handed on", first + handed.start()
    inside = next((one for one in text.includes if first <= one < last), None)
    return None if inside is None else ("#include", inside)
