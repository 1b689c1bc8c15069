"""Cells that a cluster ran, kept one by one: a run that was cut off goes on after them.

Each lies in a folder of its own, which is named after the digest of all that the cell is for. It
has the result, the log, and the digests of both.
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
_SUMS, _RESULT, _LOG = "sums.json", "result.json", "log"
_LARGEST = 64 * MEGABYTE


@dataclass(frozen=True)
class KeptCell:
    """What came of a cell: `node` is where it ran."""

    node: str
    result: Mapping[str, Any]
    log: bytes


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
            files = {
                _RESULT: json.dumps({"node": cell.node, "result": cell.result}).encode(),
                _LOG: cell.log,
            }
            sums = {file: hashlib.sha256(content).hexdigest() for file, content in files.items()}
            made = Path(name, "cell")
            made.mkdir()
            for file, content in {**files, _SUMS: json.dumps(sums).encode()}.items():
                (made / file).write_bytes(content)
            remove(folder / key)
            made.rename(folder / key)

    def find(self, key: str) -> KeptCell | None:
        """Return a cell that is there and is as it was written."""
        folder = self.root / FOLDER / key
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            sums = parse_json(read_file(folder / _SUMS, MEGABYTE))
            files = {name: read_file(folder / name, _LARGEST) for name in (_RESULT, _LOG)}
            if sums == {name: hashlib.sha256(text).hexdigest() for name, text in files.items()}:
                found = parse_json(files[_RESULT])
                return KeptCell(str(found["node"]), dict(found["result"]), files[_LOG])
        return None
