"""What leads to code: its users, its class, its subclasses, and code that is about the same."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from typing import TYPE_CHECKING

from vpatch.planning.around.code_entries import READERS
from vpatch.planning.around.name_patterns import DEFINED, NameUse
from vpatch.planning.around.parts import (
    CONSTRUCTORS,
    FILES_OF_FIELDS,
    HOPS,
    IS_THERE,
    RARE_DEFINITIONS,
    RARE_FILES,
    SHORTEST,
    Place,
)
from vpatch.planning.names import ORDER

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from vpatch.planning.around.code_entries import CodeEntry
    from vpatch.planning.around.code_index import PlaceKind
    from vpatch.planning.around.parts import Parts

# Code that has so many of the rarest names of other code is about the same.
_RAREST = 8
_SHARED = 3
# So much of the names of other code, if these are not too few, is a copy of it.
_SAME = 0.8
_FEWEST_NAMES = 5
# What more files use is of everything.
_MOST_USERS = 96
# Methods that decide what an attribute or a call of a class is.
_HOOKS = frozenset(["__getattribute__", "__getattr__", "__new__", "__init_subclass__", "__call__"])


class CodeUsers:
    """Adds what leads to definitions."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def add_users(self, path: str, entry: CodeEntry, depth: int, *, is_direct: bool = True) -> None:
        """Add what leads to a definition: the code that names it, and what leads to this code.

        Of code that is not `is_direct`, only the conditions count under which it leads on.
        """
        name = entry.name.rpartition(".")[2]
        is_constructor = name in CONSTRUCTORS
        if is_constructor:
            name = entry.owner.rpartition(".")[2]
        if entry.is_statement or name.startswith("__") or len(name) < SHORTEST:
            return
        files = self._parts.index.files_with(name)
        is_common = len(files) > 3 * RARE_FILES or self._is_of_many(name)
        if is_common:
            files = self._files_near(path, entry, name)
        kind: PlaceKind = "calls" if is_constructor else "uses" if is_direct else "ways"
        for file in files:
            own = entry.key if file == path else None
            self._parts.add_places(file, name, kind, but=own)
            # A name that more files have leads everywhere.
            leads_on = depth > 1 and len(files) <= RARE_FILES and not is_common
            for user in self._parts.index.entries(file) if leads_on else ():
                if user.key != own and user.has_name(name) and user.kind == "function":
                    self.add_users(file, user, depth - 1, is_direct=False)

    def _is_of_many(self, name: str) -> bool:
        """Whether so many definitions have a name that a use of it may mean any of them."""
        named = (
            entry
            for file in self._parts.index.files_with_use(name, NameUse.CALLABLE)
            for entry in self._parts.index.entries(file)
            if entry.kind == "function" and entry.name.rpartition(".")[2] == name
        )
        return len(list(islice(named, RARE_DEFINITIONS + 1))) > RARE_DEFINITIONS

    def _files_near(self, path: str, entry: CodeEntry, name: str) -> Sequence[str]:
        """Of the many files with a name, those that have its module or its class, or import it.

        Where these are too many, the name is one of everything, and only its own file counts.
        """
        near: set[str] = set()
        for file in self._naming(path, entry, name):
            near.add(file)
            if len(near) > _MOST_USERS:
                return [path]
        return [path, *sorted(near - {path})]

    def _naming(self, path: str, entry: CodeEntry, name: str) -> Iterator[str]:
        stem = path.rpartition("/")[2].removesuffix(".py")
        owner = entry.owner.rpartition(".")[2]
        yield from self._parts.index.files_with(name, stem)
        if owner:
            yield from self._parts.index.files_with(name, owner)
            return
        for file in self._parts.index.files_with_use(name, NameUse.IMPORTED):
            if any(other.taken == name for other in self._parts.index.entries(file)):
                yield file

    def add_fields(self, entry: CodeEntry) -> None:
        """Add which classes have the attributes that new code reads."""
        for name in sorted(entry.attributes):
            if len(name) < SHORTEST or name.startswith("__"):
                continue
            if len(self._parts.index.files_with(name)) > FILES_OF_FIELDS:
                continue
            files = self._parts.index.files_with_use(name, *DEFINED, NameUse.OWN_ATTRIBUTE)
            owners = {
                other.owner
                for file in files
                for other in self._parts.index.entries(file)
                if other.owner and (name in other.stored or other.name == f"{other.owner}.{name}")
            }
            if owners and len(owners) <= RARE_FILES:
                self._parts.add("", f"owners of {name}", " ".join(sorted(owners)))

    def add_who_asks_for(self, entry: CodeEntry) -> None:
        """Add the code that asks whether something has what new code gives to it by a text."""
        for name in sorted(entry.texts):
            for word in READERS:
                files = self._parts.index.files_with(name, word)
                for file in self._parts.index.with_use(files, name, NameUse.TEXT):
                    for other in self._parts.index.entries(file):
                        if name in other.asked:
                            self._parts.add(file, other.name, f"asks for {name}")

    def add_users_of_word(self, word: str) -> None:
        """Add which code has a name that few files have."""
        files = self._parts.index.files_with(word)
        for file in files if len(files) <= RARE_FILES else ():
            for entry in self._parts.index.entries(file):
                if entry.has_name(word):
                    self._parts.add(file, entry.name, IS_THERE)

    def add_who_else_uses(self, entry: CodeEntry) -> None:
        """Add the definitions that use the rarest names of one too: a second way may be new."""
        names = (
            name
            for name in entry.attributes | entry.names
            if len(name) >= SHORTEST and not name.startswith("__")
        )
        by_name = {name: frozenset(self._parts.index.files_with(name)) for name in names}
        rarest = sorted(by_name, key=lambda name: (len(by_name[name]), name))[:_RAREST]
        telling = [name for name in rarest if len(by_name[name]) <= FILES_OF_FIELDS]
        shared: dict[Place, set[str]] = {}
        for file in _in_so_many(_SHARED, [by_name[name] for name in telling]):
            for other in self._parts.index.entries(file):
                if not other.is_statement:
                    common = {n for n in telling if file in by_name[n] and other.has_name(n)}
                    shared.setdefault((file, other.name), set()).update(common)
        for (file, other_name), common in shared.items():
            # Names that are all of many files are of everything, such as those of a library.
            is_rare = any(len(by_name[name]) <= RARE_FILES for name in common)
            if len(common) >= _SHARED and is_rare:
                self._parts.add(file, other_name, IS_THERE)
        self._add_copies(by_name, rarest)

    def _add_copies(self, by_name: Mapping[str, Container[str]], rarest: Sequence[str]) -> None:
        """Add the definitions that have nearly all names of one, however common these are."""
        if len(by_name) < _FEWEST_NAMES:
            return
        enough = _SAME * len(by_name)
        for file in self._parts.index.files_with(*rarest[:_SHARED]):
            if sum(file in files for files in by_name.values()) < enough:
                continue
            for other in self._parts.index.entries(file):
                common = sum(map(other.has_name, by_name))
                if common >= enough and not other.is_statement:
                    self._parts.add(file, other.name, IS_THERE)

    def add_class(self, path: str, entry: CodeEntry) -> None:
        """Add the class of a method with its bases, and what overrides the method."""
        if not entry.owner:
            return
        for other in self._parts.index.entries(path):
            if other.owner == entry.owner and other.name.rpartition(".")[2] in _HOOKS:
                self._parts.add_whole(path, other)
            if other.name == entry.owner:
                self._parts.add_whole(path, other)
                for base in other.bases:
                    for file, real in self._parts.classes(path, base, set()):
                        self._add_head(file, real)
        owner, name = entry.owner.rpartition(".")[2], entry.name.rpartition(".")[2]
        self._parts.add_assignments(owner, name)
        self._add_overrides(owner, name, set())

    def _add_head(self, path: str, name: str) -> None:
        for entry in self._parts.index.entries(path):
            if entry.name == name:
                self._parts.add_whole(path, entry)

    def _add_overrides(self, owner: str, method: str, seen: set[str]) -> None:
        if owner in seen or len(seen) > HOPS * HOPS:
            return
        seen.add(owner)
        for file in self._parts.index.files_with(owner):
            entries = self._parts.index.entries(file)
            names = {owner, *(entry.name for entry in entries if entry.taken == owner)}
            for entry in entries:
                if entry.kind != "class" or names.isdisjoint(entry.bases):
                    continue
                for other in entries:
                    if other.name == f"{entry.name}.{method}":
                        self._parts.add_whole(file, other)
                self._add_overrides(entry.name.rpartition(".")[2], method, seen)

    def add_order(self, path: str, own: Sequence[CodeEntry]) -> None:
        """Add the order of the statements of a module that a patch reads, and what these name."""
        run = [e for e in own if e.kind not in {"function", "class"} and not e.name.count(".")]
        if not run:
            return
        names = frozenset[str]().union(*(entry.names | entry.binds for entry in run))
        order = [
            " ".join(sorted(entry.binds & names)) or entry.key
            for entry in self._parts.index.entries(path)
            if entry in run or (not entry.owner and entry.binds & names)
        ]
        self._parts.add(path, ORDER, "\n".join(order))


def _in_so_many(fewest: int, groups: Iterable[Iterable[str]]) -> Iterator[str]:
    """The files that are in so many of some groups."""
    counts = Counter(file for group in groups for file in group)
    return (file for file, count in counts.items() if count >= fewest)
