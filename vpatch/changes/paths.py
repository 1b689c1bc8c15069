"""Which file of a tree a name in a diff means, and how a patch names it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from vpatch.changes.file_diff import FileDiff
    from vpatch.source.tree import Tree

_INSTALLED = re.compile(r"^.*?(?:site|dist)-packages/")
# Of more files with one name, such as __init__.py, none is read to look for a text.
_MOST_FILES = 50
# Others, such as CMakeLists.txt, have names that any folder may have.
_CODE = (".py", ".pyi", ".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp", ".hip", ".rs", ".jinja")
# Any folder may have it, also one that upstream adds.
_ANY = "__init__.py"
_ASIDE = {
    "tests": "it is a test",
    "docs": "it is documentation",
    ".buildkite": "it is for upstream's CI",
    ".github": "it is for upstream's CI",
}
# What tools and editors leave beside the files that somebody changes.
_REMAINS = re.compile(r"(^|/)__pycache__(/|$)|(^|/)\.git(/|$)|(\.pyc|\.orig|\.rej|\.bak|~)$")
# Folders that git and people put two sides of a diff into.
_SIDES = frozenset({"a", "b", "c", "i", "o", "w", "old", "new", "orig"})
# What people call a copy of a package's sources by, behind its name.
_COPY = re.compile(r"\.|-v?\d|-(?:orig|old|new|main|fork|patched|src)$")


@dataclass(frozen=True)
class Place:
    """The path that a name means, and the part of the name that is of the path.

    `why` says why a release has no such place; None if it has, or may get it.
    """

    path: str
    tail: str
    why: str | None = None

    def is_named(self, name: str) -> bool:
        """Whether another name means it as well."""
        return name == self.tail or name.endswith(f"/{self.tail}")


@dataclass(frozen=True)
class TreePaths:
    """The files of a tree, to look names up in, and its packages at the root."""

    paths: frozenset[str]
    packages: frozenset[str]

    @classmethod
    def of(cls, tree: Tree) -> TreePaths:
        paths = frozenset(tree.paths())
        roots = {path.partition("/")[0] for path in tree.package_files}
        packages = {root for root in roots if f"{root}/__init__.py" in paths}
        return cls(paths, frozenset(packages - _ASIDE.keys() or {tree.pin.tree}))

    @cached_property
    def folders(self) -> frozenset[str]:
        parts = (path.split("/") for path in self.paths)
        return frozenset("/".join(each[:n]) for each in parts for n in range(1, len(each)))

    def places(self, diffs: Sequence[FileDiff], added: Collection[str] = ()) -> list[Place]:
        """What the diffs of one change mean: all names are read in the same way.

        Names of files that are there decide: they may have the prefix that git, a folder or a
        Python gave them, or lack the package. `added` are files that earlier changes added.
        """
        known = self.paths.union(added)
        places = self._existing_places(diffs, known, "")
        created = {diff.name for diff in diffs if diff.may_create}
        unknown = [
            number
            for number, diff in enumerate(diffs)
            if not (diff.refused or diff.name in created or any(map(aside, self._readings(diff))))
        ]
        if any(places[number] is None for number in unknown):
            for package in sorted(self.packages):
                inside = self._existing_places(diffs, known, f"{package}/")
                if all(inside[number] is not None for number in unknown):
                    places = inside
        prefixes = {
            (name.removesuffix(place.tail), place.path.removesuffix(place.tail))
            for diff, place in zip(diffs, places, strict=True)
            for name in (diff.old, diff.new)
            if place is not None and name is not None and place.is_named(name)
        }
        # A package beside vLLM may have a folder called as vLLM's: its names have more in front.
        removed = {each for each, _ in prefixes if each}
        deeper = {each for each in removed for other in removed - {each} if each.startswith(other)}
        longest_first = sorted(
            (prefix for prefix in prefixes if prefix[0] not in deeper),
            key=lambda prefix: (-len(prefix[0]), prefix),
        )
        return [
            place
            if place is not None and diff.name.removesuffix(place.tail) not in deeper
            else self._new_place(diff, longest_first, only_new=not unknown)
            for diff, place in zip(diffs, places, strict=True)
        ]

    def _existing_places(
        self, diffs: Sequence[FileDiff], known: Collection[str], prefix: str
    ) -> list[Place | None]:
        """The places of diffs of files that are there; `prefix` is what their names lack."""
        places: list[Place | None] = []
        for diff in diffs:
            readings = () if diff.old is None else self._readings(diff)
            tail = next((each for each in readings if prefix + each in known), None)
            places.append(None if tail is None else Place(prefix + tail, tail))
        return places

    def _new_place(
        self, diff: FileDiff, prefixes: Sequence[tuple[str, str]], *, only_new: bool
    ) -> Place:
        """The place of a file that the release does not have."""
        readings = list(self._readings(diff))
        for tail in readings:
            if aside(tail) is not None:
                return Place(tail, tail)
        for removed, lacking in prefixes:
            if diff.name.startswith(removed):
                tail = diff.name.removeprefix(removed)
                path = lacking + tail
                return Place(path, tail, None if "/" not in path else self._why_not(path))
        for tail in readings:
            if tail.partition("/")[0] in self.folders:
                return Place(tail, tail)
        inside = [(f"{package}/{tail}", tail) for tail in readings for package in self.packages]
        for path, tail in sorted(inside, key=lambda each: (len(each[1]), each[0])):
            if only_new and "/" in tail and path.rpartition("/")[0] in self.folders:
                return Place(path, tail)
        return Place(readings[-1], readings[-1], self._why_not(readings[-1]))

    def _why_not(self, path: str) -> str | None:
        folder, slash, _ = path.partition("/")
        if folder in self.folders or path in self.paths:
            return None
        packages = ", ".join(f"{package}/" for package in sorted(self.packages))
        return f"the release has no folder {folder}" if slash else f"it is outside {packages}"

    def _readings(self, diff: FileDiff) -> Iterator[str]:
        """The paths that a name may mean, with less and less of what is in front."""
        name = diff.name.removeprefix("./")
        if _INSTALLED.match(name):
            yield _INSTALLED.sub("", name, count=1)
            return
        parts = name.strip("/").split("/")
        yield "/".join(parts)
        if len(parts) > 1 and self._is_side(parts[0], diff):
            yield "/".join(parts[1:])
        # What lies in somebody's folder: the last folder of this name.
        for index in range(len(parts) - 1, 0, -1):
            if parts[index] in self.packages:
                yield "/".join(parts[index:])

    def _is_side(self, first: str, diff: FileDiff) -> bool:
        """Whether the first folder of a name is only there to tell the sides of a diff apart."""
        copies = [first.removeprefix(each) for each in self.packages if first.startswith(each)]
        if first in _SIDES or any(map(_COPY.match, copies)):
            return True
        return diff.old is not None and diff.old.partition("/")[0] != diff.name.partition("/")[0]


def aside(path: str) -> str | None:
    """Why a file is never in a patch, whatever a diff does with it; None if it may be."""
    if _REMAINS.search(path):
        return "it is what a tool or an editor leaves"
    return _ASIDE.get(path.partition("/")[0])


def glob_of(path: str, tree: Tree) -> str:
    """A glob for a file, which finds it in another folder too if no other file has its name."""
    name, same = _namesakes(path, tree)
    is_only_one = same == [path] and name.endswith(".py") and name not in {path, _ANY}
    return f"*/{name}" if is_only_one else path


def glob_of_texts(path: str, tree: Tree, texts: Sequence[str]) -> str:
    """A glob that finds a file in another folder too, unless other files share name and texts.

    Upstream may move the file, and have the change by then.
    """
    name, same = _namesakes(path, tree)
    is_code = name.endswith(_CODE) and name not in {path, _ANY}
    if not is_code or len(same) > _MOST_FILES or not texts:
        return glob_of(path, tree)
    others = [tree.read(each) for each in same if each != path]
    shared = any(text.encode() in content for content in others for text in texts)
    return glob_of(path, tree) if shared else f"*/{name}"


def _namesakes(path: str, tree: Tree) -> tuple[str, list[str]]:
    """The name of a file without its folders, and all files of the tree that have it."""
    name = path.rpartition("/")[2]
    return name, [each for each in tree.paths() if each.rpartition("/")[2] == name]
