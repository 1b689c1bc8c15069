"""Where a release has the definitions of a change, also where their file is another one."""

from __future__ import annotations

import ast
import re
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING

from imports.judge import MODULE, situation, units

if TYPE_CHECKING:
    from imports.judge import Files, Situation, Unit
    from vpatch.source.tree import Tree

_HEAD = re.compile(rb"^[ \t]*(?:async )?(?:def|class) (\w+)", re.MULTILINE)


class Places:
    """The definitions of a release by name."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._there = frozenset(tree.paths())

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path, text in self._tree.package_files.items():
            for name in set(_HEAD.findall(text)):
                found.setdefault(name.decode(), []).append(path)
        return found

    def find(self, path: str, name: str) -> Unit | None:
        """The unit of a name in this file, or else in the one other file that has it."""
        if path in self._there:
            unit = units(self._tree.read(path)).get(name)
            if unit is not None:
                return unit
        if name == MODULE:
            return None
        parts = [set(self._by_name.get(part, ())) for part in name.split(".")]
        others = set.intersection(*parts) - {path}
        found = [u for p in others if (u := units(self._tree.read(p)).get(name)) is not None]
        return found[0] if len(found) == 1 else None

    def situation(self, before: Files, after: Files) -> Situation:
        found = situation(before, after, self.find)
        return "gone" if found == "open" and self.lacks_import(before, after) else found

    def lacks_import(self, before: Files, after: Files) -> bool:
        """Whether new code imports from vLLM what neither the release nor `after` has."""
        for path, text in after.items():
            for module, name in _imports(path, text) - _imports(path, before.get(path, b"")):
                own, inner = f"{module}/__init__.py", f"{module}/{name}"
                files = (f"{module}.py", own, f"{inner}.py", f"{inner}/__init__.py")
                texts = [after.get(file) or self._read(file) for file in files]
                if texts[2:] == [None, None] and not any(_may_have(name, t) for t in texts[:2]):
                    return True
        return False

    def _read(self, path: str) -> bytes | None:
        return self._tree.read(path) if path in self._there else None


def _may_have(name: str, text: bytes | None) -> bool:
    word = rf"\b({name}|__getattr__)\b|import \*".encode()
    return text is not None and re.search(word, text) is not None


@lru_cache(maxsize=300)
def _imports(path: str, text: bytes) -> frozenset[tuple[str, str]]:
    """The paths of vLLM's modules that a file imports from, with the names."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError):
        return frozenset()
    return frozenset(
        (module, alias.name)
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        and (module := _module_of(path, node)).split("/")[0] == "vllm"
        for alias in node.names
    )


def _module_of(path: str, node: ast.ImportFrom) -> str:
    """The path of a module that is imported from, without an ending."""
    folders = path.split("/")[: -node.level] if node.level else []
    return "/".join([*folders, *(node.module or "").split(".")]).rstrip("/")
