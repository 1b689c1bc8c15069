"""A container that runs a command instead of its image's own."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import time
from collections import deque
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, cast

import requests
from docker.errors import APIError, NotFound, create_api_error_from_http_exception
from docker.types import DeviceRequest

from vpatch import __version__
from vpatch.docker.errors import ERRORS, asking
from vpatch.errors import VpatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence

    from docker import APIClient

_ALL_GPUS = DeviceRequest(count=-1, capabilities=[["gpu"]])
_LARGEST = 2**24
_AT_ONCE = 2**20
_LAST_LINES = 10_000
_CREATION_SECONDS = 10.0
# For those who find a container: docker ps --filter label=vpatch
_LABEL = "vpatch"
# A job of a cluster puts it on each of its containers: the guard of a killed job removes them.
JOB_LABEL = "vpatch-job"
_ALREADY_REMOVING = 409


@dataclass(frozen=True)
class ContainerConfig:
    """What a container is given. `folders` are this machine's, `ro` or `rw`, at the same path.

    `folder` is the one to work in; `shared_memory` is in bytes.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    network: str = "none"
    user: str | None = None
    gpus: bool = False
    shared_memory: int | None = None


@dataclass(frozen=True)
class PackedFile:
    """A file or a link of an image. `content` is None where it was not asked for."""

    path: str
    mode: int
    content: bytes | None
    is_link: bool


@dataclass(frozen=True)
class Container:
    """A container that was created, by its name, and which somebody has to remove."""

    api: APIClient
    id: str

    def create(self, image: str, command: Sequence[str], config: ContainerConfig) -> None:
        """Create it. Ctrl-C and SIGTERM reach the command through an init process."""
        job = os.environ.get("VPATCH_JOB")
        with asking(image):
            binds = [f"{path}:{path}:{mode}" for path, mode in config.folders.items()]
            settings = self.api.create_host_config(
                binds=binds,
                network_mode=config.network,
                device_requests=[_ALL_GPUS] if config.gpus else None,
                shm_size=config.shared_memory,
                init=True,
            )
            self.api.create_container(
                image,
                list(command[1:]),
                name=self.id,
                entrypoint=[command[0]],
                environment=dict(config.environment),
                working_dir=config.folder,
                user=config.user,
                labels={_LABEL: __version__} | ({JOB_LABEL: job} if job else {}),
                # The image's own health check is for its own command, and takes time of a CPU.
                healthcheck={"test": ["NONE"]},
                host_config=settings,
            )

    def await_creation(self) -> None:
        """Wait until it is there: an engine that was told to create it still does so."""
        deadline = time.monotonic() + _CREATION_SECONDS
        while time.monotonic() < deadline:
            with asking(self.id):
                try:
                    self.api.inspect_container(self.id)
                except NotFound:
                    time.sleep(0.2)
                else:
                    return

    def put(self, files: Mapping[str, bytes], folder: str) -> None:
        """Write files into a folder of it, which is there."""
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for name, text in files.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(text), 0o644
                archive.addfile(entry, io.BytesIO(text))
        with asking(folder):
            self.api.put_archive(self.id, folder, content.getvalue())

    def read(self, path: str) -> bytes | None:
        """Return a file of it, also where it was not started; None where there is no such file."""
        with asking(path):
            try:
                chunks, _ = self.api.get_archive(self.id, path)
            except NotFound:
                return None
            whole = b""
            for chunk in chunks:
                whole += chunk
                if len(whole) > _LARGEST:
                    raise VpatchError(
                        "vpatch does not write files as large as this one",
                        hint="build the image anew with vpatch build-image",
                        where=path,
                        code="docker.file-too-large",
                    )
            with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
                entry = archive.getmembers()[0]
                content = archive.extractfile(entry) if entry.isfile() else None
                return content.read() if content else None

    def digests(self, folder: str) -> dict[str, str] | None:
        """Return what lies below a folder, by paths in it; None where there is no such folder.

        A file is given by its sha256:HEX, a link by where it leads. The engine reads the layers:
        no program of the image runs.
        """
        with self._archive(folder) as archive:
            return None if archive is None else _digests(archive)

    def files(self, folder: str, suffix: str) -> dict[str, bytes] | None:
        """Return the files below a folder whose names end in `suffix`, by paths in it.

        None where there is no such folder. Links are left out. The engine reads the layers: no
        program of the image runs.
        """
        with self._archive(folder) as archive:
            if archive is None:
                return None
            return {
                entry.name.partition("/")[2]: content.read()
                for entry in archive
                if entry.isfile() and entry.name.endswith(suffix)
                if (content := archive.extractfile(entry)) is not None
            }

    def packed_files(
        self, folder: str, is_left_out: Callable[[str], bool], limit: int
    ) -> Generator[PackedFile]:
        """Yield the files and links below a folder, by paths that begin with its name.

        Contents are read one at a time; those that are left out come without. The engine reads the
        layers: no program of the image runs. Close it, or read it to its end, before the container
        is removed.

        Raises:
            VpatchError: there is no such folder, a file has more than `limit` bytes, or an entry is
                a device, a pipe, or one file under two names.
        """
        with self._archive(folder) as archive:
            for entry in archive or ():
                if entry.isdir():
                    continue
                content = None
                if entry.issym():
                    content = os.fsencode(entry.linkname)
                elif not entry.isreg() or entry.size > limit:
                    reason = "larger than vpatch reads" if entry.isreg() else "not a plain file"
                    raise VpatchError(
                        f"the image has an entry that is {reason}",
                        where=f"{folder}: {entry.name}",
                        hint="build the image again without it",
                        code="docker.unusable-file",
                    )
                elif not is_left_out(entry.name):
                    stream = archive.extractfile(entry) if archive else None
                    content = stream.read() if stream else b""
                yield PackedFile(entry.name, entry.mode, content, is_link=entry.issym())

    @contextmanager
    def _archive(self, folder: str) -> Iterator[tarfile.TarFile | None]:
        """What lies below a folder, to be read once from its start; None for no such folder.

        The answer is closed even if nobody reads it to its end: an engine does not remove a
        container while it sends files of it. docker-py hands out nothing that could be closed.
        """
        url = f"{self.api.base_url}/v{self.api.api_version}/containers/{self.id}/archive"
        with (
            asking(folder),
            self.api.get(
                url,
                params={"path": folder},
                # To compress and unpack it takes more time than to send it.
                headers={"Accept-Encoding": "identity"},
                timeout=self.api.timeout,
                stream=True,
            ) as answer,
        ):
            if answer.status_code == requests.codes.not_found:
                yield None
                return
            try:
                answer.raise_for_status()
            except requests.HTTPError as error:
                create_api_error_from_http_exception(error)
            chunks = answer.iter_content(_AT_ONCE)
            with tarfile.open(fileobj=_Stream(chunks), mode="r|", bufsize=_AT_ONCE) as archive:
                yield archive

    def start(self) -> None:
        with asking(self.id):
            self.api.start(self.id)

    def state(self) -> int | None:
        """Return its exit status; None while it runs."""
        with asking(self.id):
            state = self.api.inspect_container(self.id)["State"]
        return None if state["Running"] else int(state["ExitCode"])

    def wait(self, seconds: float) -> int | None:
        """Return its exit status; None where it still runs after that time."""
        with asking(self.id):
            try:
                answer = self.api.wait(self.id, timeout=max(1, round(seconds)))
            except (requests.ReadTimeout, requests.ConnectionError):
                return self.state()
            return int(answer["StatusCode"])

    def output(self) -> Iterator[bytes]:
        """Follow what it says, to its end."""
        # However long it is silent: docker takes the limit away from streams of this kind.
        with asking(self.id):
            yield from self.api.logs(self.id, stream=True, follow=True)

    def logs(self) -> bytes:
        """Return what it said so far, or the end of it."""
        pieces: deque[bytes] = deque()
        size = 0
        with asking(self.id):
            for piece in self.api.logs(self.id, stream=True, follow=False, tail=_LAST_LINES):
                pieces.append(piece)
                size += len(piece)
                while size > _LARGEST:
                    size -= len(pieces.popleft())
        return b"".join(pieces)

    def signal(self, number: int) -> None:
        with asking(self.id):
            self.api.kill(self.id, number)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.state() is None:
            with suppress(APIError):  # it ended meanwhile
                self.api.kill(self.id)

    def memory(self) -> int:
        """Return the bytes that its processes hold, without files that may be dropped again."""
        with suppress(*ERRORS):
            stats = self.api.stats(self.id, stream=False, one_shot=True)["memory_stats"]
            caches = stats.get("stats", {})
            cached = caches.get("inactive_file", caches.get("total_inactive_file", 0))
            return max(0, int(stats.get("usage", 0)) - int(cached))
        return 0

    def remove(self) -> None:
        """Kill it if it runs, and remove it with its volumes."""
        with asking(self.id), suppress(NotFound):
            try:
                self.api.remove_container(self.id, v=True, force=True)
            except APIError as error:
                if error.status_code != _ALREADY_REMOVING:
                    raise


class _Stream(io.RawIOBase):
    """A file of chunks as they come: a package with its libraries may have gigabytes."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self.chunks = iter(chunks)
        self.rest = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        pieces, wanted = [], size
        while wanted > 0 and (piece := self.rest or memoryview(next(self.chunks, b""))):
            pieces.append(piece[:wanted])
            self.rest = piece[wanted:]
            wanted -= len(pieces[-1])
        return b"".join(pieces)


def _digests(archive: tarfile.TarFile) -> dict[str, str]:
    digests: dict[str, str] = {}
    for entry in archive:
        # The first part is the folder itself.
        path = entry.name.partition("/")[2]
        if entry.isfile() and (content := archive.extractfile(entry)) is not None:
            digest = hashlib.file_digest(cast("io.BufferedReader", content), "sha256")
            digests[path] = f"sha256:{digest.hexdigest()}"
        elif entry.islnk():
            digests[path] = digests[entry.linkname.partition("/")[2]]
        elif entry.issym():
            digests[path] = f"link:{entry.linkname}"
        elif not entry.isdir():
            digests[path] = "neither a file nor a link"
    return digests
