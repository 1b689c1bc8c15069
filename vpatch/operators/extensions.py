"""Which extension a C++ source is built into: what CMake files and setup.py say of it."""

from __future__ import annotations

import ast
import re
from fnmatch import fnmatch
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_COMMAND = re.compile(r"^[ \t]*(\w+)[ \t]*\(([^()]*(?:\([^()]*\)[^()]*)*)\)", re.MULTILINE)
_COMMENT = re.compile(r"#[^\n]*")
_TARGET = re.compile(
    r"\w*(?:extension_target|add_library|add_module|target_sources)", re.IGNORECASE
)
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_BASE = re.compile(r"(?:\$\{\w+\}/)*")


class Extensions:
    """The extensions that build files declare, with their sources."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._variables: dict[str, list[str]] = {}
        self._sources: dict[str, list[str]] = {}
        for path, content in files.items():
            text = content.decode(errors="replace")
            if path.endswith(".py"):
                for name, sources in _python_extensions(text):
                    self._sources.setdefault(name, []).extend(sources)
            else:
                self._read_cmake(text)

    def _read_cmake(self, text: str) -> None:
        for command, arguments in _COMMAND.findall(_COMMENT.sub("", text)):
            words = [word.strip("\"'") for word in arguments.split()]
            if command.lower() == "set" and words:
                self._variables.setdefault(words[0], []).extend(words[1:])
            elif command.lower() in {"list", "file"} and len(words) > 1:
                self._variables.setdefault(words[1], []).extend(words[2:])
            elif words and _TARGET.fullmatch(command):
                self._sources.setdefault(words[0], []).extend(words[1:])

    @property
    def is_empty(self) -> bool:
        """Whether no build file tells of any source."""
        return not any(self._sources.values())

    def of(self, path: str) -> list[str]:
        """Return the extensions that a source is built into."""
        return [
            name
            for name, words in self._sources.items()
            if any(_matches(path, word) for word in self._expanded(words))
        ]

    def _expanded(self, words: list[str]) -> Iterator[str]:
        """Yield words, and what the variables in them mean."""
        pending, known = list(words), set()
        for word in pending:
            variable = _VARIABLE.fullmatch(word)
            if variable is None:
                yield word
            elif variable[1] not in known:
                known.add(variable[1])
                pending += self._variables.get(variable[1], [])


def _matches(path: str, word: str) -> bool:
    pattern = _BASE.sub("", word, count=1).removeprefix("./")
    if path == pattern or path.endswith(f"/{pattern}"):
        return bool(pattern)
    return "*" in pattern and (fnmatch(path, pattern) or fnmatch(path, f"*/{pattern}"))


def _python_extensions(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what a setup.py declares such as `CUDAExtension("package._C", ["csrc/ops.cpp"])`."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not ast.unparse(node.func).endswith("Extension"):
            continue
        arguments = dict(zip(("name", "sources"), node.args, strict=False))
        arguments |= {one.arg: one.value for one in node.keywords if one.arg}
        name, sources = arguments.get("name"), arguments.get("sources")
        if isinstance(name, ast.Constant) and isinstance(sources, ast.List):
            texts = [one.value for one in sources.elts if isinstance(one, ast.Constant)]
            yield str(name.value).rpartition(".")[2], [str(one) for one in texts]
