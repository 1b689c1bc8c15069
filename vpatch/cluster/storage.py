"""Storage that the nodes of a cluster and the driver share: a folder, or what fsspec can open.

A node leaves large files there, and the driver takes them. What comes back through Ray names their
digests, so a file that is incomplete never counts.
"""

from __future__ import annotations

import json
import threading
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

from pydantic import AfterValidator, BaseModel, TypeAdapter

from vpatch.cluster.errors import ClusterError
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import MEGABYTE, parse_json, plain_path
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

# A job writes this file in place of the files that it left in the storage.
STORED = "stored.json"
# Ray keeps a result above 100 kB in the object store of its node until the driver has it. Thousands
# of them may wait.
STORED_BYTES = 2**20
_PROBE = "probe"
# Of the files of a job together.
_LARGEST = 2000 * MEGABYTE
_MOST_FILES = 10_000
# A server may never answer, and a mount may wait for one: 2 GB in 10 minutes is a slow line.
_LONGEST = 600.0
# These have no folders: makedirs would create a bucket.
_WITHOUT_FOLDERS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"}

T = TypeVar("T")

_Path = Annotated[str, AfterValidator(plain_path)]


class _Stored(BaseModel):
    """Where a file of a job is, below the folder of the run."""

    place: _Path
    digest: str


_STORED = TypeAdapter(dict[_Path, _Stored])


class Storage:
    """A folder of the storage that belongs to one run of a command."""

    def __init__(self, url: str) -> None:
        """Open a folder by its URL; nothing is written.

        Raises:
            ClusterError: fsspec does not know the kind of storage, or lacks a package for it.
        """
        import fsspec  # noqa: PLC0415 - of the extra `ray`

        self.url = url.rstrip("/")
        # Each kind of storage raises errors of its own packages, here and below.
        self._system, self._root = self._ask(
            "cannot be opened", lambda: fsspec.core.url_to_fs(self.url)
        )

    @classmethod
    def of_a_run(cls, url: str) -> Storage:
        """Open a new folder in a storage."""
        base = url if "://" in url else str(Path(url).absolute())
        return cls(f"{base.rstrip('/')}/vpatch-{uuid.uuid4().hex}")

    def write(self, name: str, content: bytes) -> None:
        """Write a file.

        Raises:
            ClusterError: the storage does not take it.
        """
        path = f"{self._root}/{name}"

        def write() -> None:
            if self.url.partition("://")[0] not in _WITHOUT_FOLDERS:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, content)

        self._ask("does not take files", write)

    def read(self, name: str, limit: int | None = None) -> bytes:
        """Read a file of at most `limit` bytes, by default 2 GB.

        Raises:
            ClusterError: it is not there, is larger, or the storage does not give it.
        """
        path = f"{self._root}/{name}"
        most = _LARGEST if limit is None else limit

        def read() -> bytes:
            facts = self._system.info(path)
            # In a folder, others may have put a pipe or a link there.
            if facts.get("type") != "file" or facts.get("islink"):
                raise ValueError("it is not a regular file")
            with self._system.open(path, "rb") as file:
                content = bytes(file.read(most + 1))
            if len(content) > most:
                raise ValueError(f"it is larger than {most // MEGABYTE} MB")
            return content

        return self._ask(f"does not give {name}", read)

    def remove(self) -> None:
        """Remove the folder, if it is there.

        Raises:
            ClusterError: the storage does not remove it.
        """

        def remove() -> None:
            # Others may have written since it was listed.
            self._system.invalidate_cache()
            with suppress(FileNotFoundError):
                self._system.rm(self._root, recursive=True)

        self._ask("does not remove files", remove)

    def _ask(self, what: str, ask: Callable[[], T]) -> T:
        """Return what the storage answers, within a limit of time."""
        answers: list[T] = []
        errors: list[Exception] = []

        def run() -> None:
            try:
                answers.append(ask())
            except Exception as error:  # noqa: BLE001 - of the packages of the storage
                errors.append(error)

        # A daemon, so that one that hangs does not keep the process.
        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join(_LONGEST)
        if not (answers or errors):
            errors.append(TimeoutError(f"it did not answer within {_LONGEST:g} s"))
        if errors:
            raise _failure(self.url, what, errors[0]) from errors[0]
        return answers[0]

    def leave(self, out: Path, name: str, exempt: Collection[str]) -> None:
        """Move the files of a job there, if they are large together; `exempt` are never moved.

        Raises:
            ClusterError: the storage does not take them.
        """
        files = {path.relative_to(out).as_posix(): path for path in out.rglob("*")}
        files = {one: path for one, path in files.items() if path.is_file()}
        if sum(path.stat().st_size for path in files.values()) <= STORED_BYTES:
            return
        stored = {}
        for number, (one, path) in enumerate(sorted(files.items())):
            if one not in exempt:
                content, place = path.read_bytes(), f"{name}/{number}"
                self.write(place, content)
                stored[one] = {"place": place, "digest": digest_of(content)}
        (out / STORED).write_text(json.dumps(stored), encoding="utf-8")
        for one in stored:
            files[one].unlink()

    def take(self, files: Mapping[str, bytes]) -> dict[str, bytes]:
        """Return the files of a job, with those that it left in the storage.

        Raises:
            ClusterError: one is not there, or is not what the job wrote.
        """
        whole, remaining = dict(files), _LARGEST
        stored = self._stored_places(whole.pop(STORED, b"{}"))
        if len(stored) > _MOST_FILES:
            many = ValueError(f"there are more than {_MOST_FILES}")
            raise _failure(self.url, "is not asked for the files of a job", many)
        for name, entry in stored.items():
            content = self.read(entry.place, remaining)
            remaining -= len(content)
            if digest_of(content) != entry.digest:
                raise ClusterError(
                    f"{name} in the storage is not what the node wrote",
                    where=redact(self.url),
                    hint="see whether something else writes there",
                    code="cluster.storage-failed",
                )
            whole[name] = content
        return whole

    def _stored_places(self, text: bytes) -> dict[str, _Stored]:
        try:
            return _STORED.validate_python(parse_json(text))
        except ValueError as error:
            raise ClusterError(
                f"what a node says of its files is not understood: {error}",
                where=f"{redact(self.url)}: {STORED}",
                hint="see whether all nodes have the same vpatch",
                code="cluster.storage-failed",
            ) from error

    def probe(self) -> None:
        """Write what nodes are asked to read.

        Raises:
            ClusterError: the storage does not take it.
        """
        self.write(_PROBE, b"")

    def answer_probe(self) -> str:
        """Read what the driver wrote, and write an answer; return its name.

        Raises:
            ClusterError: this node and the driver do not share the storage.
        """
        self.read(_PROBE)
        name = f"{_PROBE}-{uuid.uuid4().hex}"
        self.write(name, b"")
        return name


def _failure(url: str, what: str, error: Exception) -> ClusterError:
    message = " ".join(str(error).split()) or type(error).__name__
    return ClusterError(
        f"the storage {what}: {redact(message)}",
        where=redact(url),
        hint="give --storage a folder or a URL that this machine and all nodes can write to; "
        "fsspec's package for its kind (s3fs for s3://) must be installed on each",
        code="cluster.storage-failed",
    )
