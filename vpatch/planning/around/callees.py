"""What code names: what it calls and reads, wherever that is defined."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from vpatch.planning.around.name_patterns import DEFINED, NameUse
from vpatch.planning.around.parts import (
    CONSTRUCTORS,
    FILES_OF_FIELDS,
    HOPS,
    RARE_DEFINITIONS,
    RARE_FILES,
    SHORTEST,
    Place,
    files_of,
)

if TYPE_CHECKING:
    from vpatch.planning.around.code_entries import CodeEntry
    from vpatch.planning.around.parts import Parts


class NamedCode:
    """Adds what definitions name."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def add_what_it_names(self, path: str, entry: CodeEntry) -> None:
        """Add what a definition calls and reads."""
        for name in entry.names:
            self._add_binding(path, name, set())
        for name in entry.own if entry.owner else ():
            self._add_member(path, entry.owner, name, set())
        for dotted in entry.dotted:
            owner, _, name = dotted.partition(".")
            self._add_attribute(path, owner, name)
        for name in entry.attributes - entry.own:
            self._add_named(path, name)

    def _add_binding(self, path: str, name: str, seen: set[Place]) -> None:
        """Add what a name of a module is, through its imports, and who else gives it a value."""
        if (path, name) in seen or len(seen) > HOPS:
            return
        seen.add((path, name))
        for entry in self._parts.index.entries(path):
            if name not in entry.binds or (entry.owner and not entry.is_statement):
                continue
            if entry.kind != "import":
                self._parts.add_whole(path, entry)
                if entry.kind == "class":
                    self._add_constructors(path, entry.name, set())
                self._add_assignments_elsewhere(path, name)
            elif not self._add_imported(entry, seen):
                self._parts.add_whole(path, entry)

    def _add_imported(self, entry: CodeEntry, seen: set[Place]) -> bool:
        """Add what an import takes; False where the tree does not have it."""
        files = files_of(entry.module) if entry.taken else ()
        there = [
            file
            for file in files
            if any(entry.taken in other.binds for other in self._parts.index.entries(file))
        ]
        for file in there:
            self._add_binding(file, entry.taken, seen)
        return bool(there) or any(
            self._parts.index.entries(file) for file in files_of(f"{entry.module}/{entry.taken}")
        )

    def _add_constructors(self, path: str, owner: str, seen: set[Place]) -> None:
        """Add the constructors of a class and of its bases."""
        if (path, owner) in seen or len(seen) > HOPS:
            return
        seen.add((path, owner))
        names = {f"{owner}.{name}" for name in CONSTRUCTORS}
        for entry in self._parts.index.entries(path):
            if entry.name in names:
                self._parts.add_whole(path, entry)
            if entry.name == owner:
                for base in entry.bases:
                    for file, real in self._parts.classes(path, base, set()):
                        self._add_constructors(file, real, seen)

    def _add_assignments_elsewhere(self, path: str, name: str) -> None:
        """Add where another module gives a name of this one another value."""
        stem = path.rpartition("/")[2].removesuffix(".py")
        files = self._parts.index.files_with(name, stem)
        if len(files) > 3 * RARE_FILES:
            return
        for file in self._parts.index.with_use(files, name, NameUse.ATTRIBUTE, NameUse.TEXT):
            if file == path:
                continue
            for entry in self._parts.index.entries(file):
                if any(dotted.endswith(f".{name}") for dotted in entry.assigned):
                    self._parts.add_whole(file, entry)

    def _add_attribute(self, path: str, owner: str, name: str) -> None:
        """Add what `OWNER.NAME` is, where the module imports `OWNER`, or has such a class."""
        for entry in self._parts.index.entries(path):
            if entry.name != owner:
                continue
            if entry.kind == "import":
                module = f"{entry.module}/{entry.taken}" if entry.taken else entry.module
                for file in files_of(module):
                    self._add_binding(file, name, set())
                    self._add_item_of_table(file, name)
                for file, real in self._parts.classes(path, owner, set()):
                    self._add_member(file, real, name, set())
            elif entry.kind == "class":
                self._add_member(path, owner, name, set())

    def _add_item_of_table(self, path: str, name: str) -> None:
        """Add what a module without a definition of a name has of it, for `__getattr__`."""
        if not any(name in entry.binds for entry in self._parts.index.entries(path)):
            self._parts.add_places(path, name)

    def _add_member(self, path: str, owner: str, name: str, seen: set[Place]) -> None:
        """Add an attribute of a class: its own, one that a method assigns, or that of a base."""
        if (path, owner) in seen or len(seen) > HOPS:
            return
        seen.add((path, owner))
        self._parts.add_assignments(owner.rpartition(".")[2], name)
        entries = self._parts.index.entries(path)
        if any(entry.owner == owner and name in entry.stored for entry in entries):
            self._parts.add_stores(path, owner, name)
        for entry in entries:
            if entry.name == f"{owner}.{name}":
                self._parts.add_whole(path, entry)
            if entry.name == owner:
                for base in entry.bases:
                    for file, real in self._parts.classes(path, base, set()):
                        self._add_member(file, real, name, seen)

    def _add_named(self, path: str, name: str) -> None:
        """Add the definitions of a name that few have, wherever they are.

        Of several, those count whose class the module names.
        """
        if len(name) < SHORTEST or name.startswith("__"):
            return
        files = self._parts.index.files_with(name)
        if len(files) > FILES_OF_FIELDS:
            return
        definitions = (
            (file, entry)
            for file in self._parts.index.files_with_use(name, *DEFINED)
            for entry in self._parts.index.entries(file)
            if entry.name.rpartition(".")[2] == name
        )
        named = list(islice(definitions, RARE_DEFINITIONS + 1))
        if len(named) > RARE_DEFINITIONS:
            return
        for file, entry in named:
            owner = entry.owner.rpartition(".")[2]
            # What only new code names is not in the module yet.
            if len(named) == 1 or path in self._parts.index.files_with(owner or name):
                self._parts.add_whole(file, entry)
