"""The modules of a package, be it of a release of vLLM or of a target."""

from __future__ import annotations

import json
import re
import tomllib
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.commands.compat.code.outline import Outline, outline_of, row_of
from vpatch.commands.compat.code.read import read_outline

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vpatch.planning.answers import Answers
    from vpatch.source.entry import CachedTree

_QUESTION = "the outline of a module, form 1"
_INIT = "__init__"
_COMPILED = re.compile(r"(.+?)(?:\.[\w-]+)?\.(?:so|pyd)")
# What a build makes is named there.
_BUILD_FILES = re.compile(r"setup\.py|CMakeLists\.txt|\.gitignore|pyproject\.toml|cmake/.*")
_SOURCES = re.compile(r"csrc/.*\.(?:cpp|cc|cu|h|hpp|cuh|inc)")


class CodePart:
    """The modules of some packages, by their dotted names."""

    def __init__(
        self,
        paths: Mapping[str, str],
        outline: Callable[[str], Outline],
        built: BuiltModules | None,
    ) -> None:
        self._paths = paths
        self._read = outline
        self._outlines: dict[str, Outline] = {}
        self._built = built
        self.roots = frozenset(name.partition(".")[0] for name in paths)

    @cached_property
    def packages(self) -> frozenset[str]:
        """The folders that have modules, be there an `__init__.py` or not."""
        return frozenset(
            name.rsplit(".", depth)[0]
            for name in self._paths
            for depth in range(1, name.count(".") + 1)
        )

    def has(self, module: str) -> bool:
        return module in self._paths or module in self.packages

    def path(self, module: str) -> str | None:
        return self._paths.get(module)

    def is_package(self, module: str) -> bool:
        return module in self.packages or self._paths.get(module, "").endswith(f"/{_INIT}.py")

    def outline(self, module: str) -> Outline | None:
        """Return the outline of a module; None for a folder without code of its own."""
        if module not in self._paths:
            return None
        if module not in self._outlines:
            self._outlines[module] = self._read(self._paths[module])
        return self._outlines[module]

    def why_unknown(self, module: str) -> str | None:
        """Say why a module may be there that has no Python file; None if it is not there."""
        return None if self._built is None else self._built.why_unknown(module, self)


class BuiltModules:
    """What the build of a release adds to it: compiled and generated modules."""

    def __init__(self, tree: CachedTree) -> None:
        self._tree = tree

    @cached_property
    def _compiled(self) -> frozenset[str]:
        matches = map(_COMPILED.fullmatch, self._tree.paths())
        return frozenset(match[1].replace("/", ".") for match in matches if match)

    @cached_property
    def _build_text(self) -> str:
        files = [path for path in self._tree.paths() if _BUILD_FILES.fullmatch(path)]
        return "\n".join(_build_part(path, self._tree.read(path)) for path in files)

    @cached_property
    def native_text(self) -> str | None:
        """The C++ sources; None for a built package, which has none."""
        files = [path for path in self._tree.paths() if _SOURCES.fullmatch(path)]
        texts = [self._tree.read(path).decode(errors="replace") for path in files]
        return "\n".join(texts) if texts else None

    def why_unknown(self, module: str, part: CodePart) -> str | None:
        if module in self._compiled:
            return "it is compiled"
        parts = module.split(".")
        # The first name that has no file, and the folder that it would be in.
        depth = next((n for n in range(1, len(parts)) if not part.has(".".join(parts[: n + 1]))), 0)
        name, folder = parts[depth], "/".join(parts[:depth])
        text = self._build_text
        # What is compiled has a name such as _C, which CMake names without its folder.
        before = rf"{re.escape(parts[depth - 1])}[./]" if not name.startswith("_") else ""
        # To look for a word in the build files takes long, and most of them do not have it.
        is_named = depth and name in text
        if is_named and re.search(rf"\b{before}{re.escape(name)}\b", text):
            return f"the build names {parts[depth - 1]}.{name}, and may make it"
        if (
            folder.count("/")
            and f"{folder}/" in text
            and re.search(rf"{re.escape(folder)}/(?:\*|['\"])", text)
        ):
            return f"the build adds files to {folder}"
        if any(one.startswith(f"{'.'.join(parts[: depth + 1])}.") for one in self._compiled):
            return "it is compiled"
        return None


def _build_part(path: str, content: bytes) -> str:
    """Return what a file says of the build: pyproject.toml is for linters as well."""
    text = content.decode(errors="replace")
    if path != "pyproject.toml":
        return text
    try:
        project = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return text
    tools = project.get("tool", {})
    build = tools.get("setuptools", {}) if isinstance(tools, dict) else {}
    return json.dumps([project.get("build-system"), build], default=str)


def module_at(path: str) -> str:
    """Return the dotted name of the module that a file is."""
    return path.removesuffix(".py").removesuffix(f"/{_INIT}").replace("/", ".")


def modules_of(paths: list[str], below: str = "") -> dict[str, str]:
    """Return Python files by the names of their modules; `below` is the folder of packages."""
    modules = {}
    for path in paths:
        if not path.endswith(".py") or not path.startswith(below):
            continue
        parts = path.removeprefix(below).removesuffix(".py").split("/")
        if parts[-1] == _INIT and len(parts) > 1:
            parts = parts[:-1]
        if all(part.isidentifier() for part in parts):
            modules[".".join(parts)] = path
    return modules


def release_part(tree: CachedTree, answers: Answers) -> CodePart:
    """Return the modules of a release. What is known of a file's contents is not read again."""

    def outline(path: str) -> Outline:
        digest = bytes.fromhex(tree.records[path].sha256)
        row = answers.ask(
            _QUESTION, [digest], lambda: row_of(read_outline(tree.package_files[path]))
        )
        return outline_of(row)

    return CodePart(modules_of(list(tree.package)), outline, BuiltModules(tree))
