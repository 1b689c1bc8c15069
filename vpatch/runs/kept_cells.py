"""Cells that a cluster ran, kept one by one: a run that was cut off goes on after them.

Each lies in a folder of its own, which is named after the digest of all that the cell is for. It
has the files that came of it, and their digests with a mark that only this user can make: a folder
of evidence may come from somebody else, and nothing that they say of a cell was run here.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import tempfile
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.directories import remove
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import JsonValue

FOLDER = ".cells"
_SUMS, _NODE, _FILES, _MARK = "sums.json", "node", "files", "mark"
_SECRET_BYTES = 32
_LARGEST = 64 * MEGABYTE


@dataclass(frozen=True)
class KeptCell:
    """What came of a cell: its files by their paths. `node` is where it ran."""

    node: str
    files: Mapping[str, bytes]


def key_of(facts: Mapping[str, JsonValue]) -> str:
    """Return a name for all that decides what a cell's result is for."""
    text = json.dumps(facts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def own_secret(folder: Path) -> bytes:
    """Return what only this user knows, from a folder of theirs; it is made on first use.

    Where it cannot be kept, it holds for this process.
    """
    file, fresh = folder / "kept-cells.secret", secrets.token_bytes(_SECRET_BYTES)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            with os.fdopen(os.open(file, flags, 0o600), "wb") as new:
                new.write(fresh)
        known = read_file(file, _SECRET_BYTES)
    except OSError:
        return fresh
    return known if len(known) == _SECRET_BYTES else fresh


@dataclass(frozen=True)
class KeptCells:
    """The cells that are kept below a folder of evidence; `secret` is this user's."""

    root: Path
    secret: bytes = field(repr=False)

    def keep(self, key: str, cell: KeptCell) -> None:
        """Keep a cell: all of it, or nothing.

        Raises:
            UsageError: a link leads to another folder.
        """
        folder = self.root / FOLDER
        if folder.is_symlink():
            raise UsageError(
                "it is a symbolic link, and vpatch writes through none of a project",
                where=str(folder),
                hint="remove it",
                code="evidence.linked-folder",
            )
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".new-") as name:
            draft = Path(name, "cell")
            sums = {}
            parts = {f"{_FILES}/{path}": content for path, content in cell.files.items()}
            for path, content in {_NODE: cell.node.encode(), **parts}.items():
                (draft / path).parent.mkdir(parents=True, exist_ok=True)
                (draft / path).write_bytes(content)
                sums[path] = hashlib.sha256(content).hexdigest()
            text = json.dumps({_FILES: sums, _MARK: self._mark(key, sums)})
            (draft / _SUMS).write_text(text, encoding="utf-8")
            remove(folder / key)
            draft.rename(folder / key)

    def find(self, key: str) -> KeptCell | None:
        """Return a cell that is there and is as it was written."""
        folder = self.root / FOLDER / key
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            content = parse_json(read_file(folder / _SUMS, MEGABYTE))
            sums = content[_FILES]
            if not hmac.compare_digest(content[_MARK], self._mark(key, sums)):
                return None
            # No name of a file leads out of the folder: what is listed must be what is there.
            there = [path for path in folder.rglob("*") if path.is_file()]
            names = {path.relative_to(folder).as_posix() for path in there} - {_SUMS}
            parts = {name: read_file(folder / name, _LARGEST) for name in names}
            if sums == {name: hashlib.sha256(text).hexdigest() for name, text in parts.items()}:
                node = parts.pop(_NODE).decode()
                files = {name.removeprefix(f"{_FILES}/"): text for name, text in parts.items()}
                return KeptCell(node, files)
        return None

    def _mark(self, key: str, sums: Mapping[str, str]) -> str:
        text = json.dumps([key, sums], sort_keys=True)
        return hmac.new(self.secret, text.encode(), hashlib.sha256).hexdigest()
