"""What counts of each definition around others, and the names that lead from one to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from vpatch.planning.around.name_patterns import NameUse
from vpatch.planning.around.semantics import digest_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.planning.around.code_entries import CodeEntry
    from vpatch.planning.around.code_index import CodeIndex, PlaceKind

# Shorter names are of everything.
SHORTEST = 4
CONSTRUCTORS = ("__init__", "__new__", "__post_init__")
# A name that more files have is too common to say what code is about.
RARE_FILES = 8
# More files have a word than have a field of that name.
FILES_OF_FIELDS = 60
# With more definitions of one name, nobody knows which one code means.
RARE_DEFINITIONS = 3
# How many modules a name is followed through.
HOPS = 4
# What counts of a definition that only has names in common with other code, and its digest.
IS_THERE = "is there"
ONLY_THERE = digest_of_text(IS_THERE)
# A file, and the name of a class or a function in it.
Place = tuple[str, str]


@dataclass(frozen=True)
class _Question:
    """What is to be read of a file: see `meaning`, `places` and `stores` of `CodeIndex`."""

    kind: Literal["meaning", "stores"] | PlaceKind
    name: str
    owner: str | None = None
    but: str | None = None


class Parts:
    """What counts of each definition around others, by `PATH::NAME`.

    What needs the syntax of a file is read at the end, file by file: to parse is what takes time.
    """

    def __init__(self, index: CodeIndex) -> None:
        self.index = index
        self._by_name: dict[str, set[str]] = {}
        self._questions: dict[str, set[_Question]] = {}

    def add(self, path: str, name: str, part: str) -> None:
        self._by_name.setdefault(f"{path}::{name}", set()).add(part)

    def add_whole(self, path: str, entry: CodeEntry) -> None:
        self._ask(path, _Question("meaning", entry.key))

    def add_places(
        self, path: str, name: str, kind: PlaceKind = "uses", *, but: str | None = None
    ) -> None:
        """Add what leads to places with a name in a file, without those in one definition."""
        self._ask(path, _Question(kind, name, but=but))

    def add_stores(self, path: str, owner: str, name: str) -> None:
        """Add what leads to where methods of a class give `self.NAME` a value."""
        self._ask(path, _Question("stores", name, owner=owner))

    def _ask(self, path: str, question: _Question) -> None:
        self._questions.setdefault(path, set()).add(question)

    def digests(self) -> dict[str, str]:
        """A digest of all that counts of each definition, by `PATH::NAME`."""
        for path, questions in self._questions.items():
            names = {entry.key: entry.name for entry in self.index.entries(path)}
            for question in questions:
                for key, part in self._answers(path, question).items():
                    self.add(path, names[key], part)
        return {
            key: digest_of_text("\n".join(sorted(parts)))
            for key, parts in sorted(self._by_name.items())
        }

    def _answers(self, path: str, question: _Question) -> dict[str, str]:
        """Digests by the keys of definitions."""
        match question.kind:
            case "meaning":
                return {question.name: self.index.meaning(path, question.name)}
            case "stores":
                return self.index.stores(question.owner or "", question.name, path)
            case kind:
                digests = self.index.places(kind, question.name, path)
                return {key: digest for key, digest in digests.items() if key != question.but}

    def add_assignments(self, owner: str, name: str) -> None:
        """Add the code that gives `OWNER.NAME` another value, in whatever module."""
        files = self.index.files_with(owner, name)
        for file in self.index.with_use(files, name, NameUse.ATTRIBUTE, NameUse.TEXT):
            entries = self.index.entries(file)
            aliases = (b for e in entries if e.taken == owner for b in e.binds)
            dotted = {f"{one}.{name}" for one in (owner, *aliases)}
            for entry in entries:
                if not dotted.isdisjoint(entry.assigned):
                    self.add_whole(file, entry)

    def classes(self, path: str, name: str, seen: set[Place]) -> Iterator[Place]:
        """The file and the name of the class that a name of a module is."""
        if (path, name) in seen or len(seen) > HOPS:
            return
        seen.add((path, name))
        for entry in self.index.entries(path):
            if entry.name != name:
                continue
            if entry.kind == "class":
                yield path, name
            elif entry.kind == "import":
                for file in files_of(entry.module):
                    yield from self.classes(file, entry.taken, seen)


def files_of(module: str) -> tuple[str, str]:
    return f"{module}.py", f"{module}/__init__.py"
