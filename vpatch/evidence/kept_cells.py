"""Cells that a cluster ran, kept one by one: a run that was cut off goes on after them.

Each lies in a folder of its own, which is named after the digest of all that the cell is for. It
has the files that came of it, and their digests.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.util.directories import remove
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = ".cells"
_SUMS, _NODE, _FILES = "sums.json", "node", "files"
_LARGEST = 64 * MEGABYTE


@dataclass(frozen=True)
class KeptCell:
    """What came of a cell: its files by their paths. `node` is where it ran."""

    node: str
    files: Mapping[str, bytes]


def key_of(facts: Mapping[str, Any]) -> str:
    """Return a name for all that decides what a cell's result is for."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class KeptCells:
    """The cells that are kept below a folder of evidence."""

    root: Path

    def keep(self, key: str, cell: KeptCell) -> None:
        """Keep a cell: all of it, or nothing."""
        folder = self.root / FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as name:
            made = Path(name, "cell")
            sums = {}
            for path, content in _parts(cell).items():
                (made / path).parent.mkdir(parents=True, exist_ok=True)
                (made / path).write_bytes(content)
                sums[path] = hashlib.sha256(content).hexdigest()
            (made / _SUMS).write_text(json.dumps(sums), encoding="utf-8")
            remove(folder / key)
            made.rename(folder / key)

    def find(self, key: str) -> KeptCell | None:
        """Return a cell that is there and is as it was written."""
        folder = self.root / FOLDER / key
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            sums = parse_json(read_file(folder / _SUMS, MEGABYTE))
            # No name of a file leads out of the folder: what is listed must be what is there.
            there = [path for path in folder.rglob("*") if path.is_file()]
            names = {path.relative_to(folder).as_posix() for path in there} - {_SUMS}
            parts = {name: read_file(folder / name, _LARGEST) for name in names}
            if sums == {name: hashlib.sha256(text).hexdigest() for name, text in parts.items()}:
                node = parts.pop(_NODE).decode()
                files = {name.removeprefix(f"{_FILES}/"): text for name, text in parts.items()}
                return KeptCell(node, files)
        return None


def _parts(cell: KeptCell) -> dict[str, bytes]:
    files = {f"{_FILES}/{path}": content for path, content in cell.files.items()}
    return {_NODE: cell.node.encode(), **files}
