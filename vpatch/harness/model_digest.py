"""The digest of a checkpoint: of the files that vLLM may load. A large file is read once.

What a large file's bytes are is remembered in the cache by all that tells a file from another one:
its path, device, inode, size, and the times of its last change in nanoseconds.
"""

from __future__ import annotations

import hashlib
import json
import time
from typing import TYPE_CHECKING

from vpatch.checkpoint.folder import INDEX
from vpatch.util.record_store import RecordStore

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator
    from pathlib import Path

_LARGE = 2**20
# A file that was written just now may be written again within the same tick of the clock.
_SETTLED_SECONDS = 10.0
_DOCUMENTATION = (".md", "LICENSE", "NOTICE")
_WEIGHTS = ".safetensors"
# Mistral's own format has no index, and may lie beside a checkpoint that has one.
_WITHOUT_INDEX = "consolidated"


def digest_of_checkpoint(folder: Path, memory: Path | None) -> str:
    """Digest the names and bytes of the files that count; `memory` is a folder of the cache."""
    total = hashlib.sha256()
    for file in sorted(counted_files(folder)):
        digest = _digest_of(file, memory)
        total.update(f"{digest}  {file.relative_to(folder).as_posix()}\n".encode())
    return f"sha256:{total.hexdigest()}"


def counted_files(folder: Path) -> Iterator[Path]:
    """Yield the files that vLLM may load.

    Left out is what it never loads: hidden files and folders (as .cache/huggingface, which notes
    when a file was fetched), documentation, and shards that the index does not name.
    """
    named = _named_shards(folder)
    for file in folder.rglob("*"):
        relative = file.relative_to(folder)
        if any(part.startswith(".") for part in relative.parts) or not file.is_file():
            continue
        name = relative.name
        if name.endswith(_DOCUMENTATION[:1]) or name.startswith(_DOCUMENTATION[1:]):
            continue
        shard = name.endswith(_WEIGHTS) and not name.startswith(_WITHOUT_INDEX)
        if named is not None and shard and file.parent == folder and name not in named:
            continue
        yield file


def _named_shards(folder: Path) -> frozenset[str] | None:
    """The shards that the index names; None where no index tells."""
    try:
        weights = json.loads((folder / INDEX).read_bytes())["weight_map"]
        return frozenset(weights.values())
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None  # vLLM will say what is wrong with it


def _digest_of(file: Path, memory: Path | None) -> str:
    before = file.stat()
    if memory is None or before.st_size < _LARGE:
        return _read(file)
    store, key = RecordStore(memory, is_private=False), _key(file, before)
    known = store.get(key, str)
    if known is not None:
        return known
    begun = time.time()
    digest = _read(file)
    settled = begun - max(before.st_mtime, before.st_ctime) > _SETTLED_SECONDS
    if settled and _key(file, file.stat()) == key:
        store.put(key, digest)
    return digest


def _key(file: Path, stat: os.stat_result) -> str:
    facts = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns)
    return hashlib.sha256(f"{file.resolve()}\n{facts}".encode()).hexdigest()


def _read(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
