"""Storage that the nodes of a cluster and the driver share: a folder, or what fsspec can open.

A node leaves large files there, and the driver takes them. What comes back through Ray names their
digests, so a file that is incomplete never counts.
"""

from __future__ import annotations

import json
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, TypeAdapter

from vpatch.cluster.errors import ClusterError
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import MEGABYTE, parse_json, plain_path
from vpatch.util.urls import redact

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

# A job writes this file in place of the files that it left in the storage.
STORED = "stored.json"
# Ray keeps a result above 100 kB in the object store of its node until the driver has it. Thousands
# of them may wait.
STORED_BYTES = 2**20
_PROBE = "probe"
# Of one file of a job, such as a log.
_LARGEST = 2000 * MEGABYTE
# These have no folders: makedirs would create a bucket.
_WITHOUT_FOLDERS = {"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl"}


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
        try:
            self._system, self._root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise _failed(self.url, "cannot be opened", error) from error

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
        try:
            if self.url.partition("://")[0] not in _WITHOUT_FOLDERS:
                self._system.makedirs(path.rpartition("/")[0], exist_ok=True)
            self._system.pipe_file(path, content)
        except Exception as error:
            # Each kind of storage raises errors of its own packages.
            raise _failed(self.url, "does not take files", error) from error

    def read(self, name: str) -> bytes:
        """Read a file.

        Raises:
            ClusterError: it is not there, or the storage does not give it.
        """
        try:
            with self._system.open(f"{self._root}/{name}", "rb") as file:
                content = bytes(file.read(_LARGEST + 1))
        except Exception as error:
            # As above.
            raise _failed(self.url, f"does not give {name}", error) from error
        if len(content) > _LARGEST:
            large = ValueError(f"it is larger than {_LARGEST // MEGABYTE} MB")
            raise _failed(self.url, f"does not give {name}", large)
        return content

    def remove(self) -> None:
        """Remove the folder, if it is there.

        Raises:
            ClusterError: the storage does not remove it.
        """
        try:
            # Others may have written since it was listed.
            self._system.invalidate_cache()
            with suppress(FileNotFoundError):
                self._system.rm(self._root, recursive=True)
        except Exception as error:
            # As above.
            raise _failed(self.url, "does not remove files", error) from error

    def leave(self, out: Path, name: str, kept: Collection[str]) -> None:
        """Move the files of a job there, if they are large together; `kept` are never moved.

        Raises:
            ClusterError: the storage does not take them.
        """
        files = {path.relative_to(out).as_posix(): path for path in out.rglob("*")}
        files = {one: path for one, path in files.items() if path.is_file()}
        if sum(path.stat().st_size for path in files.values()) <= STORED_BYTES:
            return
        stored = {}
        for number, (one, path) in enumerate(sorted(files.items())):
            if one not in kept:
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
        whole = dict(files)
        for name, entry in self._stored(whole.pop(STORED, b"{}")).items():
            content = self.read(entry.place)
            if digest_of(content) != entry.digest:
                raise ClusterError(
                    f"{name} in the storage is not what the node wrote",
                    where=redact(self.url),
                    hint="see whether something else writes there",
                    code="cluster.storage-failed",
                )
            whole[name] = content
        return whole

    def _stored(self, text: bytes) -> dict[str, _Stored]:
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


def _failed(url: str, what: str, error: Exception) -> ClusterError:
    said = " ".join(str(error).split()) or type(error).__name__
    return ClusterError(
        f"the storage {what}: {redact(said)}",
        where=redact(url),
        hint="give --storage a folder or a URL that this machine and all nodes can write to; "
        "fsspec's package for its kind (s3fs for s3://) must be installed on each",
        code="cluster.storage-failed",
    )
