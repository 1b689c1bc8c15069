"""A record in the cache that cannot be taken for another: its file begins with its digest."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vpatch.util.files import replace_file
from vpatch.util.untrusted import LARGEST_BESIDE, parse_json, read_file

if TYPE_CHECKING:
    from pathlib import Path


def read_record(file: Path) -> Any:
    """Return what `write_record` was given.

    Raises:
        OSError: there is no such file, or it cannot be read.
        ValueError: it is damaged.
    """
    digest, _, text = read_file(file, LARGEST_BESIDE).partition(b"\n")
    if hashlib.sha256(text).hexdigest() != digest.decode():
        raise ValueError("what was kept is damaged")
    return parse_json(text)


def write_record(file: Path, record: Any) -> None:
    """Keep a record; where nothing can be written, the next run takes as long."""
    text = json.dumps(record)
    with suppress(OSError):
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(file, f"{hashlib.sha256(text.encode()).hexdigest()}\n{text}")
