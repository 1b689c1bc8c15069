"""Shards of tensors, copied, converted or quantised: written, and read back."""

from __future__ import annotations

import hashlib
import os
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from vpatch.checkpoint.errors import CheckpointUnavailableError
from vpatch.checkpoint.files import FolderFiles
from vpatch.checkpoint.header import BITS, Tensor, read_shard, write_header
from vpatch.checkpoint.writing import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.checkpoint.graft_plan import Taken
    from vpatch.checkpoint.header import Shard
    from vpatch.checkpoint.quantiser import Job, Quantiser
    from vpatch.progress import Progress, Task

# A multiple of every dtype's size. Memory is a few of these, whatever a tensor has.
_PIECE = 8 * 2**20


def write_shard(
    path: Path,
    taken: Sequence[Taken],
    progress: Progress,
    jobs: Sequence[Job] = (),
    quantiser: Quantiser | None = None,
) -> Shard:
    """Write a file of tensors, those that are taken and those that jobs make; read it back.

    Raises:
        CheckpointUnavailableError: the disk is full, or does not give back what was written.
        CheckpointError: a value has no equal in its new format.
    """
    kinds = {one.name: (one.dtype, one.tensor.shape, one.size) for one in taken}
    for job in jobs:
        kinds |= {output.name: (output.dtype, output.shape, output.size) for output in job.outputs}
    tensors: dict[str, Tensor] = {}
    end = 0
    # As the format's own library has it: the widest values first, so that all are aligned.
    for name, (dtype, shape, size) in sorted(
        kinds.items(), key=lambda item: (-BITS[item[1][0]], item[0])
    ):
        tensors[name] = Tensor(dtype, shape, end, end + size)
        end += size
    header = write_header(tensors, {"format": "pt"})
    _check_space(path.parent, len(header) + end)
    reading = sum(one.tensor.size for one in taken) + sum(job.tensor.size for job in jobs)
    task = progress.start(f"Writing {path.name}", total=reading)
    digests = {}
    with replacing(path) as file:
        file.write(header)
        # Names in the order of the file: the others are holes until a job fills them.
        for one in sorted(taken, key=lambda one: tensors[one.name].begin):
            file.seek(len(header) + tensors[one.name].begin)
            total = hashlib.sha256()
            for piece in pieces(one):
                file.write(piece)
                total.update(piece)
                task.advance(len(piece))
            digests[one.name] = total.digest()
        file.flush()
        os.truncate(file.name, len(header) + end)
        for job in jobs:
            if quantiser is None:
                raise AssertionError("a job needs a quantiser")
            at = {output.name: len(header) + tensors[output.name].begin for output in job.outputs}
            digests |= quantiser.quantise(job, file.name, at, task)
        os.fsync(file.fileno())
        with suppress(OSError):
            # What is compared then comes from the disk, and not from memory.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        _verify(path, file.name, digests, progress)
    task.done()
    return read_shard(FolderFiles(path.parent), path.name)


def pieces(one: Taken) -> Iterator[bytes]:
    """Yield the bytes that a tensor is to have."""
    for piece in read(one.shard, one.tensor):
        if one.dtype == one.tensor.dtype:
            yield piece
        else:
            # numpy takes a tenth of a second, and most grafts convert nothing.
            from vpatch.checkpoint.convert import converted  # noqa: PLC0415

            yield converted(piece, one.tensor.dtype, one.dtype, one.name)


def read(shard: Shard, tensor: Tensor) -> Iterator[bytes]:
    """Yield a tensor's bytes from the disk."""
    where = str(shard.path)
    try:
        with shard.path.open("rb", buffering=0) as file:
            file.seek(shard.data + tensor.begin)
            remaining = tensor.size
            while remaining:
                piece = _exactly(file, min(remaining, _PIECE))
                if not piece:
                    raise CheckpointUnavailableError(
                        "it became shorter meanwhile",
                        where=where,
                        hint="find out who writes to it",
                        code="checkpoint.in-use",
                    )
                remaining -= len(piece)
                yield piece
    except OSError as error:
        raise CheckpointUnavailableError(
            f"it cannot be read: {error.strerror or error}", where=where, hint="check the disk"
        ) from error


def digest(parts: Iterator[bytes], task: Task | None = None) -> bytes:
    total = hashlib.sha256()
    for part in parts:
        total.update(part)
        if task is not None:
            task.advance(len(part))
    return total.digest()


def _exactly(file: Any, count: int) -> bytes:
    content = bytearray()
    while len(content) < count and (piece := file.read(count - len(content))):
        content += piece
    # A value that is cut in two could not be converted.
    return bytes(content) if len(content) == count else b""


def _check_space(folder: Path, needed: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise CheckpointUnavailableError(
            f"the new shard needs {needed / 1e9:.1f} GB, and {free / 1e9:.1f} GB are free",
            where=str(folder),
            hint="free space there",
            code="checkpoint.unwritable",
        )


def _verify(path: Path, written: str, digests: dict[str, bytes], progress: Progress) -> None:
    shard = read_shard(FolderFiles(path.parent), os.path.basename(written))  # noqa: PTH119
    task = progress.start("Reading it back", total=sum(t.size for t in shard.tensors.values()))
    for name, tensor in shard.tensors.items():
        if digest(read(shard, tensor), task) != digests[name]:
            raise CheckpointUnavailableError(
                f"{name} does not read back as it was written",
                where=str(path),
                hint="check the disk; the checkpoint is as it was",
                code="checkpoint.written-wrong",
            )
    task.done()
