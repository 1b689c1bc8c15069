"""The edits of a patch and the files beside it, out of what was derived for each of its files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.importing.merge import merged
from vpatch.deriving.derive import BY_TEXT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.changes.change import FileChange
    from vpatch.deriving.candidate import Candidate, Declared
    from vpatch.deriving.derive import DerivedEdit
    from vpatch.source.tree import Tree

_RESERVED = frozenset({"patch.yaml", "shapes.json", "NOTES.md", "conftest.py"})


@dataclass(frozen=True)
class AssembledPatch:
    """Edits as patch.yaml has them, and the files beside it."""

    edits: tuple[Declared, ...]
    files: Mapping[str, bytes]

    def notes(self, derived: Sequence[DerivedEdit]) -> dict[int, str]:
        """Comments for edits by text, by their number: why no edit says it by meaning.

        A diff may have got another name beside the patch.
        """
        numbers = [n for n, edit in enumerate(self.edits) if BY_TEXT & edit.keys()]
        reasons = [each.why for each in derived if each.why is not None]
        if len(numbers) != len(reasons):
            return {}
        return {n: f"{why}." for n, why in zip(numbers, reasons, strict=True)}


def assemble(
    added: Sequence[FileChange],
    derived: Sequence[DerivedEdit],
    tree: Tree,
    *,
    merge: bool,
    taken: Mapping[str, bytes] | None = None,
) -> AssembledPatch:
    """Put the edits in order, new files first, and give each file beside the patch its own name.

    With `merge`, edits that are the same in several places of the tree become one. `taken` are
    files that are beside the patch already.
    """
    edits: list[Declared] = []
    there = dict(taken or {})
    files = dict(there)
    for file in added:
        name = _free(file.path.rpartition("/")[2], file.after, files)
        files[name] = file.after
        edits.append({"add-file": file.path, "from": name})
    placed = [(one.path, edit) for one in derived for edit in _rename_files(one.candidate, files)]
    edits += merged(placed, tree) if merge else [edit for _, edit in placed]
    new = {name: content for name, content in files.items() if there.get(name) != content}
    # Two places may need the same import. Any other edit has a place of its own: once the first of
    # two is done, the same text is there once more.
    distinct = {_identity(number, edit): edit for number, edit in enumerate(edits)}.values()
    return AssembledPatch(tuple(distinct), new)


def _identity(number: int, edit: Declared) -> str:
    return json.dumps(edit, sort_keys=True) if "add-import" in edit else str(number)


def _rename_files(candidate: Candidate, files: dict[str, bytes]) -> list[Declared]:
    """The edits of a candidate, with the names that its files get beside the patch."""
    names = {}
    for name, content in candidate.files.items():
        names[name] = _free(name, content, files)
        files[names[name]] = content
    return [_with_names(edit, names) for edit in candidate.edits]


def _with_names(edit: Declared, names: Mapping[str, str]) -> Declared:
    renamed: Declared = {}
    for key, value in edit.items():
        if isinstance(value, dict) and "from" in value:
            renamed[key] = {**value, "from": names[str(value["from"])]}
        elif key == "diff":
            renamed[key] = names[str(value)]
        else:
            renamed[key] = value
    return renamed


def _free(name: str, content: bytes, files: Mapping[str, bytes]) -> str:
    """A name that no other content has."""
    stem, dot, suffix = name.rpartition(".")
    number = 2
    free = name
    while free in _RESERVED or files.get(free, content) != content:
        free = f"{stem}_{number}{dot}{suffix}" if dot else f"{name}_{number}"
        number += 1
    return free
