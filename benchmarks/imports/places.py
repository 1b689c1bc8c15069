"""Where a release has the definitions of a change, also where their file is another one."""

from __future__ import annotations

import re
from functools import cached_property
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
        return situation(before, after, self.find)
