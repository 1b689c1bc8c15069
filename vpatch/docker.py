"""The only module that speaks to Docker: its engine's API, and its command line for BuildKit.

The Engine API (https://docs.docker.com/reference/api/engine/) builds without BuildKit. What needs
BuildKit, vLLM's own Dockerfile and build secrets, goes through `docker build`.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import tarfile
import time
import uuid
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import requests
import urllib3
from docker import APIClient
from docker.credentials.errors import StoreError
from docker.errors import APIError, DockerException, ImageNotFound, NotFound, StreamParseError
from docker.types import DeviceRequest
from docker.utils import exclude_paths, kwargs_from_env, parse_repository_tag

from vpatch import __version__
from vpatch.errors import UsageError, VpatchError
from vpatch.source.urls import redact
from vpatch.vllm_log import without_colours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# A step of a build may be silent for long: compiling vLLM is one.
_ANSWER_SECONDS = 60
_NO_SPACE = "no space left on device"
# Streams are read past requests, and credentials come from helpers.
_ERRORS = (
    DockerException,
    requests.RequestException,
    urllib3.exceptions.HTTPError,
    StreamParseError,
    StoreError,
)
# A reference as https://github.com/distribution/reference has it, without a digest.
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_TAG = re.compile(
    rf"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?(?::\d+)?/)?{_PART}(?:/{_PART})*"
    r"(?::\w[\w.-]{0,127})?"
)
_LARGEST = 2**24
_CREATION_SECONDS = 10.0
_ID = "sha256:"
_CLIENTS_OWN = {"DOCKER_CONTEXT", "BUILDX_BUILDER"}
_LOCAL = "vpatch-base"
# Of every container, for those who find one: docker ps --filter label=vpatch
LABEL = "vpatch"


class DockerError(VpatchError):
    """Docker cannot do what it is asked for."""


class NoSuchImageError(DockerError):
    """There is no image of that name, here or in its registry."""


@dataclass(frozen=True)
class Image:
    """An image of this engine. `digests` are NAME@sha256:HEX of the registries that have it."""

    id: str
    digests: tuple[str, ...]
    system: str
    architecture: str
    user: str
    labels: Mapping[str, str]

    @property
    def platform(self) -> str:
        return f"{self.system}/{self.architecture}"


@dataclass(frozen=True)
class Build:
    """What to build. `network` is as `docker build --network` takes it; None is the engine's own.

    `secrets` are as `docker build --secret` takes them, and need BuildKit.
    """

    context: Path
    dockerfile: Path
    arguments: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    network: str | None = None
    platform: str | None = None
    secrets: Sequence[str] = ()
    target: str | None = None


@dataclass(frozen=True)
class Room:
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


_ALL_GPUS = DeviceRequest(count=-1, capabilities=[["gpu"]])


class Docker:
    """A connection to an engine, the one that DOCKER_HOST names, or else that of the machine.

    Raises:
        DockerError: none answers there.
    """

    def __init__(self) -> None:
        self.where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        try:
            settings = kwargs_from_env()
            self.api = APIClient(version="auto", timeout=_ANSWER_SECONDS, **settings)
            self.platform = _normal(*(self.api.version()[key] for key in ("Os", "Arch")))
        except (*_ERRORS, ValueError) as error:
            raise DockerError(
                f"no Docker Engine answers: {_gist(error)}",
                where=self.where,
                todo="start it, or name another with DOCKER_HOST; you may have to be in the "
                "group docker, and ~/.docker/config.json may be wrong",
            ) from error

    @property
    def is_local(self) -> bool:
        """Whether the engine sees this machine's files."""
        return self.where.startswith("unix://")

    def close(self) -> None:
        self.api.close()

    def image(self, name: str) -> Image | None:
        """Look at an image of this engine; None where it has none of that name or id."""
        with self.asking(name):
            try:
                found = self.api.inspect_image(name)  # type: ignore[no-untyped-call]
            except ImageNotFound:
                return None
        settings = found.get("Config") or {}
        return Image(
            found["Id"],
            tuple(found.get("RepoDigests") or ()),
            found["Os"],
            _normal(found["Os"], found["Architecture"]).partition("/")[2],
            settings.get("User") or "",
            settings.get("Labels") or {},
        )

    def pull(self, name: str, platform: str | None) -> None:
        """Fetch an image from its registry.

        Raises:
            NoSuchImageError: it is not there, or the registry cannot be asked.
            DockerError: it cannot be kept here.
        """
        repository, tag = parse_repository_tag(name)
        with closing(self._dialogue()) as api, self.asking(name):
            try:
                events = api.pull(
                    repository, tag or "latest", platform=platform, stream=True, decode=True
                )
            except APIError as error:
                raise _no_image(name, _gist(error)) from error
            for event in events:
                if "error" in event:
                    raise _no_image(name, event["error"])

    def registry_digest(self, name: str) -> str:
        """Ask a registry what a name means now, and return NAME@sha256:HEX.

        Raises:
            NoSuchImageError: it is not there, or the registry cannot be asked.
        """
        try:
            answer = self.api.inspect_distribution(name)  # type: ignore[no-untyped-call]
        except _ERRORS as error:
            raise _no_image(name, _gist(error)) from error
        return f"{repository_of(name)}@{answer['Descriptor']['digest']}"

    def build(self, build: Build, log: BinaryIO, tell: Callable[[str], None]) -> str:
        """Build an image, and return its id; `log` gets all that is said, `tell` each step.

        Raises:
            DockerError: a step failed, or the engine did. No container is left.
        """
        if build.secrets or build.target:
            return self._build_with_buildkit(build, log, tell)
        with closing(self._dialogue()) as api, self.asking(build.dockerfile.name):
            found = None
            for event in api.build(
                path=str(build.context),
                dockerfile=str(build.dockerfile),
                buildargs=dict(build.arguments),
                labels=dict(build.labels),
                network_mode=build.network,
                platform=build.platform,
                rm=True,
                forcerm=True,
                decode=True,
                timeout=None,
            ):
                line = event.get("stream") or event.get("status") or event.get("error") or ""
                log.write(line.encode() if line.endswith("\n") else f"{line}\n".encode())
                if "error" in event:
                    raise self.failed(event["error"], log)
                if line.startswith("Step "):
                    tell(line.strip())
                found = event.get("aux", {}).get("ID") or found
        if found is None:
            raise self.failed("the engine named no image at the end", log)
        return str(found)

    def _build_with_buildkit(self, build: Build, log: BinaryIO, tell: Callable[[str], None]) -> str:
        if shutil.which("docker") is None:
            raise UsageError(
                "this build needs BuildKit, and so Docker's command line, which is not on the PATH",
                todo="install docker and its buildx plugin",
            )
        result = build.context.parent / f"{build.context.name}.iid"
        # On this engine, whatever the command line would choose by its own settings.
        inherited = {k: v for k, v in os.environ.items() if k not in _CLIENTS_OWN}
        with (
            self._named(build) as named,
            subprocess.Popen(
                buildkit_command(named, result),
                env=inherited | {"DOCKER_BUILDKIT": "1", "DOCKER_HOST": self.where},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            ) as process,
        ):
            try:
                for line in process.stdout or ():
                    log.write(line)
                    step = line.decode(errors="replace").strip().partition(" ")[2]
                    if step.startswith("["):
                        tell(step)
            except BaseException:
                process.terminate()
                raise
        if process.returncode != 0:
            raise self.failed(f"docker build ended with {process.returncode}", log)
        found = result.read_text(encoding="ascii").strip()
        result.unlink()
        return found

    @contextmanager
    def _named(self, build: Build) -> Iterator[Build]:
        """Give images that are named by their ids a tag meanwhile: BuildKit knows no ids."""
        arguments = dict(build.arguments)
        for key, value in build.arguments.items():
            if value.startswith(_ID):
                # Of this build alone: another one may stand on the same image.
                arguments[key] = f"{_LOCAL}:{uuid.uuid4().hex}"
                self.tag(value, arguments[key])
        try:
            yield replace(build, arguments=arguments)
        finally:
            for key, value in arguments.items():
                if value != build.arguments[key]:
                    self._untag(value)

    def _untag(self, name: str) -> None:
        """Take a tag away, unless it is the image's last: without it the image would go."""
        with self.asking(name):
            if len(self.api.inspect_image(name)["RepoTags"]) > 1:  # type: ignore[no-untyped-call]
                self.api.remove_image(name, noprune=True)

    def failed(self, what: str, log: BinaryIO) -> DockerError:
        """Return an error for a build of which a log was kept."""
        log.flush()
        text = Path(log.name).read_bytes().decode(errors="replace")
        ending = [line for line in without_colours(text).splitlines() if line.strip()]
        shown = "".join(f"\n    {line}" for line in ending[-_SHOWN:])
        if _NO_SPACE in what or any(_NO_SPACE in line for line in ending[-_SHOWN:]):
            todo = f"free space where the engine keeps its data ({self._data()}): docker system df"
        elif any("exec format error" in line for line in [what, *ending[-_SHOWN:]]):
            todo = f"the base is for another architecture than {self.platform}; name another --base"
        elif any("buildx" in line or "BuildKit" in line for line in ending[-_SHOWN:]):
            todo = "install BuildKit: Docker's buildx plugin"
        else:
            todo = f"see the whole log, {log.name}"
        return DockerError(f"the build failed: {what.strip()}{shown}", where=log.name, todo=todo)

    def tag(self, image: str, name: str) -> None:
        repository, tag = parse_repository_tag(name)
        with self.asking(name):
            self.api.tag(image, repository, tag or "latest")

    def push(self, name: str) -> str:
        """Push a tag, and return NAME@sha256:HEX as the registry has it.

        Raises:
            DockerError: the registry refuses it, or cannot be asked.
        """
        repository, tag = parse_repository_tag(name)
        digest = None
        with closing(self._dialogue()) as api, self.asking(name):
            for event in api.push(repository, tag or "latest", stream=True, decode=True):
                if "error" in event:
                    raise DockerError(
                        f"it cannot be pushed: {event['error']}",
                        where=name,
                        todo="see that the registry is there, and log in with docker login",
                    )
                digest = event.get("aux", {}).get("Digest") or digest
        if digest is None:
            raise DockerError("the registry named no digest", where=name)
        return f"{repository}@{digest}"

    @contextmanager
    def container(
        self, image: str, command: Sequence[str], room: Room | None = None
    ) -> Iterator[Container]:
        """Create a container that runs a command instead of the image's own, and remove it after.

        Ctrl-C and SIGTERM reach the command through an init process.
        """
        room = room or Room()
        found = Container(self, f"vpatch-{uuid.uuid4().hex}")
        try:
            self._create(found.id, image, command, room)
            yield found
        except KeyboardInterrupt:
            found.await_creation()
            raise
        finally:
            found.remove()

    def _create(self, name: str, image: str, command: Sequence[str], room: Room) -> None:
        with self.asking(image):
            binds = [f"{path}:{path}:{mode}" for path, mode in room.folders.items()]
            settings = self.api.create_host_config(
                binds=binds,
                network_mode=room.network,
                device_requests=[_ALL_GPUS] if room.gpus else None,
                shm_size=room.shared_memory,
                init=True,
            )
            self.api.create_container(
                image,
                list(command[1:]),
                name=name,
                entrypoint=[command[0]],
                environment=dict(room.environment),
                working_dir=room.folder,
                user=room.user,
                labels={LABEL: __version__},
                host_config=settings,
            )

    def _dialogue(self) -> APIClient:
        """A connection of its own: to close it is to cancel what it was told to do.

        It waits as long as it takes: a registry may be silent for minutes.
        """
        forever: Any = None
        return APIClient(version=self.api.api_version, timeout=forever, **kwargs_from_env())

    def _data(self) -> str:
        with self.asking("info"):
            return str(self.api.info().get("DockerRootDir", "its data folder"))

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Turn what the engine answers into one clear error."""
        try:
            yield
        except _ERRORS as error:
            gist = _gist(error) or type(error).__name__
            todo = "see the message of the engine, and whether it still runs"
            if _NO_SPACE in gist:
                todo = _FREE
            raise DockerError(gist, where=what, todo=todo) from error


_SHOWN = 15
_FREE = "free space where the engine keeps its data: docker system df"


@dataclass(frozen=True)
class Container:
    """A container that was created, by its name, and which somebody has to remove."""

    docker: Docker
    id: str

    def await_creation(self) -> None:
        """Wait until it is there: an engine that was told to create it does so all the same."""
        deadline = time.monotonic() + _CREATION_SECONDS
        while time.monotonic() < deadline:
            with self.docker.asking(self.id):
                try:
                    self.docker.api.inspect_container(self.id)
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
        with self.docker.asking(folder):
            self.docker.api.put_archive(self.id, folder, content.getvalue())

    def read(self, path: str) -> bytes | None:
        """Return a file of it, also where it was not started; None where there is no such file."""
        with self.docker.asking(path):
            try:
                chunks, _ = self.docker.api.get_archive(self.id, path)
            except NotFound:
                return None
            whole = b""
            for chunk in chunks:
                whole += chunk
                if len(whole) > _LARGEST:
                    raise DockerError("the file is too large to be vpatch's", where=path)
            with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
                entry = archive.getmembers()[0]
                content = archive.extractfile(entry) if entry.isfile() else None
                return content.read() if content else None

    def start(self) -> None:
        with self.docker.asking(self.id):
            self.docker.api.start(self.id)

    def state(self) -> int | None:
        """Return its exit status; None while it runs."""
        with self.docker.asking(self.id):
            found = self.docker.api.inspect_container(self.id)["State"]
        return None if found["Running"] else int(found["ExitCode"])

    def wait(self, seconds: float) -> int | None:
        """Return its exit status; None where it still runs after that time."""
        with self.docker.asking(self.id):
            try:
                answer = self.docker.api.wait(self.id, timeout=max(1, round(seconds)))
            except (requests.ReadTimeout, requests.ConnectionError):
                return self.state()
            return int(answer["StatusCode"])

    def output(self) -> Iterator[bytes]:
        """Follow what it says, to its end."""
        with self.docker.asking(self.id):
            yield from self.docker.api.logs(self.id, stream=True, follow=True)

    def logs(self) -> bytes:
        """Return all that it said so far."""
        with self.docker.asking(self.id):
            return bytes(self.docker.api.logs(self.id))

    def signal(self, number: int) -> None:
        with self.docker.asking(self.id):
            self.docker.api.kill(self.id, number)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.state() is None:
            with suppress(APIError):  # it ended meanwhile
                self.docker.api.kill(self.id)

    def memory(self) -> int:
        """Return the bytes that its processes hold, without files that may be dropped again."""
        with suppress(*_ERRORS):
            found = self.docker.api.stats(self.id, stream=False, one_shot=True)["memory_stats"]
            caches = found.get("stats", {})
            cached = caches.get("inactive_file", caches.get("total_inactive_file", 0))
            return max(0, int(found.get("usage", 0)) - int(cached))
        return 0

    def remove(self) -> None:
        """Kill it if it runs, and remove it with its volumes."""
        with self.docker.asking(self.id), suppress(NotFound):
            self.docker.api.remove_container(self.id, v=True, force=True)


def repository_of(name: str) -> str:
    """Return an image's name without its tag or digest, as an engine has it."""
    found: str = parse_repository_tag(name)[0]
    return found.removeprefix("docker.io/").removeprefix("library/")


def is_tag(name: str) -> bool:
    """Whether an image can be called this."""
    return _TAG.fullmatch(name) is not None


def sent_files(context: Path) -> set[str]:
    """Return the files of a context that its .dockerignore lets an engine have."""
    file = context / ".dockerignore"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    patterns = [line.strip() for line in lines if line.strip() and not line.startswith("#")]
    return set(exclude_paths(str(context), patterns))


def buildkit_command(build: Build, result: Path) -> list[str]:
    """Return the command line that builds with BuildKit, and writes the image's id to a file."""
    words = ["docker", "build", "--progress", "plain", "--iidfile", str(result)]
    words += ["--file", str(build.dockerfile)]
    for name, value in (
        ("target", build.target),
        ("network", build.network),
        ("platform", build.platform),
    ):
        words += [f"--{name}", value] if value else []
    for secret in build.secrets:
        words += ["--secret", secret]
    for kind, values in (("build-arg", build.arguments), ("label", build.labels)):
        for name, value in values.items():
            words += [f"--{kind}", f"{name}={value}"]
    return [*words, str(build.context)]


def _normal(system: str, architecture: str) -> str:
    """A platform as images name it: engines say x86_64 and aarch64 as well."""
    known = {"x86_64": "amd64", "aarch64": "arm64"}
    return f"{system}/{known.get(architecture, architecture)}"


def _no_image(name: str, why: str) -> DockerError:
    if _NO_SPACE in why:
        return DockerError(f"it cannot be pulled: {why.strip()}", where=name, todo=_FREE)
    return NoSuchImageError(
        f"there is no such image here, and it cannot be pulled: {why.strip()}",
        where=name,
        todo="check the name, log in to its registry with docker login, or name another --base",
    )


def _gist(error: Exception) -> str:
    """What an error says, without the layers of those who passed it on, and without passwords."""
    text = error.explanation if isinstance(error, APIError) else None
    return redact(str(text or error).strip())
