"""The only module that speaks to Docker: its engine's API, and its command line for BuildKit.

The Engine API (https://docs.docker.com/reference/api/engine/) builds without BuildKit. What needs
BuildKit, vLLM's own Dockerfile and build secrets, goes through `docker build`.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import requests
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.types import DeviceRequest
from docker.utils import kwargs_from_env, parse_repository_tag

from docker import APIClient
from vpatch.errors import UsageError, VpatchError
from vpatch.source.urls import redact
from vpatch.vllm_log import without_colours

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

# A step of a build may be silent for long: compiling vLLM is one.
_ANSWER_SECONDS = 60
_NO_SPACE = "no space left on device"
_ID = "sha256:"
_LOCAL = "vpatch-base"
# Of whatever vpatch starts: by it what was left can be found.
LABEL = "vpatch.run"


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

    `folder` is the one to work in; `shared_memory` is in bytes. By `mark` the container is found.
    """

    environment: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    network: str = "none"
    user: str | None = None
    gpus: bool = False
    shared_memory: int | None = None
    mark: str = ""


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
        except (DockerException, requests.RequestException) as error:
            raise DockerError(
                f"no Docker Engine answers: {_gist(error)}",
                where=self.where,
                todo="start it, or name another with DOCKER_HOST; you may have to be in the "
                "group docker",
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

    def pull(self, name: str, platform: str | None, tell: Callable[[str], None]) -> None:
        """Fetch an image from its registry.

        Raises:
            NoSuchImageError: it is not there, or the registry cannot be asked.
        """
        repository, tag = parse_repository_tag(name)
        try:
            for event in self.api.pull(
                repository, tag or "latest", platform=platform, stream=True, decode=True
            ):
                if "error" in event:
                    raise _no_image(name, event["error"])
                tell(" ".join(str(event[key]) for key in ("id", "status") if event.get(key)))
        except (DockerException, requests.RequestException) as error:
            raise _no_image(name, _gist(error)) from error

    def registry_digest(self, name: str) -> str:
        """Ask a registry what a name means now, and return NAME@sha256:HEX.

        Raises:
            NoSuchImageError: it is not there, or the registry cannot be asked.
        """
        try:
            answer = self.api.inspect_distribution(name)  # type: ignore[no-untyped-call]
        except (DockerException, requests.RequestException) as error:
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
        with (
            self._named(build) as named,
            subprocess.Popen(
                buildkit_command(named, result),
                env=os.environ | {"DOCKER_BUILDKIT": "1"},
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
                arguments[key] = f"{_LOCAL}:{value.removeprefix(_ID)[:12]}"
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

    def push(self, name: str, tell: Callable[[str], None]) -> str:
        """Push a tag, and return NAME@sha256:HEX as the registry has it.

        Raises:
            DockerError: the registry refuses it, or cannot be asked.
        """
        repository, tag = parse_repository_tag(name)
        digest = None
        with self.asking(name):
            for event in self.api.push(repository, tag or "latest", stream=True, decode=True):
                if "error" in event:
                    raise DockerError(
                        f"it cannot be pushed: {event['error']}",
                        where=name,
                        todo="see that the registry is there, and log in with docker login",
                    )
                digest = event.get("aux", {}).get("Digest") or digest
                tell(" ".join(str(event[key]) for key in ("id", "status") if event.get(key)))
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
        with self.asking(image):
            binds = [f"{path}:{path}:{mode}" for path, mode in room.folders.items()]
            settings = self.api.create_host_config(
                binds=binds,
                network_mode=room.network,
                device_requests=[_ALL_GPUS] if room.gpus else None,
                shm_size=room.shared_memory,
                init=True,
            )
            made = self.api.create_container(
                image,
                list(command[1:]),
                entrypoint=[command[0]],
                environment=dict(room.environment),
                working_dir=room.folder,
                user=room.user,
                labels={LABEL: room.mark},
                host_config=settings,
            )
        found = Container(self, made["Id"])
        try:
            yield found
        finally:
            found.remove()

    def _dialogue(self) -> APIClient:
        """A connection of its own: to close it is to cancel what it was told to do."""
        return APIClient(version=self.api.api_version, **kwargs_from_env())

    def _data(self) -> str:
        with self.asking("info"):
            return str(self.api.info().get("DockerRootDir", "its data folder"))

    @contextmanager
    def asking(self, what: str) -> Iterator[None]:
        """Turn what the engine answers into one clear error."""
        try:
            yield
        except (DockerException, requests.RequestException) as error:
            gist = _gist(error)
            todo = "see the message of the engine"
            if _NO_SPACE in gist:
                todo = "free space where the engine keeps its data: docker system df"
            raise DockerError(gist, where=what, todo=todo) from error


_SHOWN = 15


@dataclass(frozen=True)
class Container:
    """A container that was created, and which somebody has to remove."""

    docker: Docker
    id: str

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
        """Return a file of it, also where it was not started; None for none."""
        with self.docker.asking(path):
            try:
                chunks, _ = self.docker.api.get_archive(self.id, path)
            except NotFound:
                return None
            with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as archive:
                content = archive.extractfile(archive.getmembers()[0])
                return content.read() if content else None

    def start(self) -> None:
        with self.docker.asking(self.id[:12]):
            self.docker.api.start(self.id)

    def state(self) -> int | None:
        """Return its exit status; None while it runs."""
        with self.docker.asking(self.id[:12]):
            found = self.docker.api.inspect_container(self.id)["State"]
        return None if found["Running"] else int(found["ExitCode"])

    def wait(self, seconds: float) -> int | None:
        """Return its exit status; None where it still runs after that time."""
        try:
            return int(self.docker.api.wait(self.id, timeout=max(1, round(seconds)))["StatusCode"])
        except (requests.ReadTimeout, requests.ConnectionError):
            return self.state()

    def output(self) -> Iterator[bytes]:
        """Follow what it says, to its end."""
        yield from self.docker.api.logs(self.id, stream=True, follow=True)

    def logs(self) -> bytes:
        """Return all that it said so far."""
        with self.docker.asking(self.id[:12]):
            return bytes(self.docker.api.logs(self.id))

    def signal(self, number: int) -> None:
        with self.docker.asking(self.id[:12]):
            self.docker.api.kill(self.id, number)

    def end(self) -> None:
        """Kill it, if it still runs."""
        if self.state() is None:
            with suppress(APIError):  # it ended meanwhile
                self.docker.api.kill(self.id)

    def memory(self) -> int:
        """Return the bytes that its processes hold, without files that may be dropped again."""
        with suppress(DockerException, requests.RequestException):
            found = self.docker.api.stats(self.id, stream=False, one_shot=True)["memory_stats"]
            caches = found.get("stats", {})
            cached = caches.get("inactive_file", caches.get("total_inactive_file", 0))
            return max(0, int(found.get("usage", 0)) - int(cached))
        return 0

    def remove(self) -> None:
        """Kill it if it runs, and remove it with its volumes."""
        with self.docker.asking(self.id[:12]), suppress(NotFound):
            self.docker.api.remove_container(self.id, v=True, force=True)


def repository_of(name: str) -> str:
    """Return an image's name without its tag or digest."""
    found: str = parse_repository_tag(name)[0]
    return found


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


def _no_image(name: str, why: str) -> NoSuchImageError:
    return NoSuchImageError(
        f"there is no such image here, and it cannot be pulled: {why.strip()}",
        where=name,
        todo="check the name, log in to its registry with docker login, or name another --base",
    )


def _gist(error: Exception) -> str:
    """What an error says, without the layers of those who passed it on, and without passwords."""
    text = error.explanation if isinstance(error, APIError) else None
    return redact(str(text or error).strip())
