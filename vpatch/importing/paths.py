"""Which file of a tree a name in a diff means, and how a patch names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vpatch.source.tree import Tree

_INSTALLED = re.compile(r"^.*?(?:site|dist)-packages/")
_ASIDE = {"tests": "a test", "docs": "documentation"}


@dataclass(frozen=True)
class TreePaths:
    """The files of a tree, to look names up in."""

    paths: frozenset[str]

    @classmethod
    def of(cls, paths: Iterable[str]) -> TreePaths:
        return cls(frozenset(paths))

    @cached_property
    def roots(self) -> frozenset[str]:
        return frozenset(path.partition("/")[0] for path in self.paths)

    def meant(self, name: str) -> str:
        """The path that a name means, with the prefix that git, a folder or a Python gave it."""
        candidates = list(_readings(name))
        for path in candidates:
            if path in self.paths:
                return path
        for path in candidates:
            if path.partition("/")[0] in self.roots:
                return path
        return candidates[min(1, len(candidates) - 1)]


def _readings(name: str) -> Iterable[str]:
    name = name.removeprefix("./")
    if _INSTALLED.match(name):
        yield _INSTALLED.sub("", name, count=1)
        return
    parts = name.strip("/").split("/")
    yield "/".join(parts)
    # As `patch -p1` does, and for what lies in somebody's folder, the last vllm in it.
    if len(parts) > 1:
        yield "/".join(parts[1:])
    for index in range(len(parts) - 1, 1, -1):
        if parts[index] == "vllm":
            yield "/".join(parts[index:])


def aside(path: str) -> str | None:
    """Why a file is never in a patch, whatever a diff does with it; None if it may be."""
    found = _ASIDE.get(path.partition("/")[0])
    return f"it is {found}" if found else None


def glob_of(path: str, tree: Tree) -> str:
    """A glob for a file, which finds it in another folder too if no other file has its name."""
    name = path.rpartition("/")[2]
    same = [each for each in tree.paths() if each.rpartition("/")[2] == name]
    is_only_one = same == [path] and name.endswith(".py") and name != path
    return f"*/{name}" if is_only_one else path
