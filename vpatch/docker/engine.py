"""A Docker Engine, by its API (https://docs.docker.com/reference/api/engine/)."""

from __future__ import annotations

import logging
import os
import re
import uuid
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from docker import APIClient
from docker.errors import APIError, ImageNotFound
from docker.utils import kwargs_from_env, parse_repository_tag

from vpatch.docker import leftovers
from vpatch.docker.buildkit import started
from vpatch.docker.container import JOB_LABEL, Container, ContainerConfig
from vpatch.docker.errors import (
    ERRORS,
    NO_SPACE,
    BuildFailedError,
    DockerError,
    asking,
    gist_of,
    no_image,
)
from vpatch.docker.names import platform_of, repository_of
from vpatch.docker.transfer import counted
from vpatch.errors import VpatchError, collect
from vpatch.util.run_log import command_line, timed
from vpatch.util.visible import without_colours

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.docker.build import Build, BuildListener
    from vpatch.progress import Task

_log = logging.getLogger(__name__)
# To remove an image of gigabytes takes minutes where the disk is busy.
_ANSWER_SECONDS = 600
_ID = "sha256:"
_LOCAL = "vpatch-base"
_SHOWN = 15
# What the engine says around what a step says.
_MADE = re.compile(r"---> ([0-9a-f]+)")
_FRAME = ("Step ", " --->", "Removing intermediate container", "The command ")


@dataclass(frozen=True)
class DockerImage:
    """An image of this engine. `digests` are NAME@sha256:HEX of the registries that have it."""

    id: str
    digests: tuple[str, ...]
    platform: str
    user: str
    labels: Mapping[str, str]
    environment: Mapping[str, str]


class Docker:
    """A connection to an engine, the one that DOCKER_HOST names, or else that of the machine.

    Raises:
        DockerError: none answers there.
    """

    def __init__(self) -> None:
        self._image_ids: list[str] = []
        self.where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        try:
            settings = kwargs_from_env()
            self.api = APIClient(version="auto", timeout=_ANSWER_SECONDS, **settings)
            self.platform = platform_of(*(self.api.version()[key] for key in ("Os", "Arch")))
        except (*ERRORS, ValueError) as error:
            raise DockerError(
                f"no Docker Engine answers: {gist_of(error)}",
                where=self.where,
                hint="start it, or name another with DOCKER_HOST; check that you are in the group "
                "docker, and that ~/.docker/config.json is right",
                code="docker.unreachable",
            ) from error

        _log.info("the Docker Engine at %s, API %s", self.where, self.api.api_version)

    @property
    def is_local(self) -> bool:
        """Whether the engine sees this machine's files."""
        return self.where.startswith("unix://")

    def close(self) -> None:
        self.api.close()

    def image(self, name: str) -> DockerImage | None:
        """Look at an image of this engine; None where it has none of that name or id."""
        with asking(name):
            try:
                image = self.api.inspect_image(name)  # type: ignore[no-untyped-call]
            except ImageNotFound:
                return None
        settings = image.get("Config") or {}
        return DockerImage(
            image["Id"],
            tuple(image.get("RepoDigests") or ()),
            platform_of(image["Os"], image["Architecture"]),
            settings.get("User") or "",
            settings.get("Labels") or {},
            dict(one.split("=", 1) for one in settings.get("Env") or () if "=" in one),
        )

    def pull(self, name: str, platform: str | None, task: Task) -> None:
        """Fetch an image from its registry; `task` counts its bytes.

        Raises:
            NoSuchImageError: the registry does not have it.
            DockerError: the registry does not answer, or the engine cannot keep the image.
        """
        repository, tag = parse_repository_tag(name)
        with self._transfer("pulling", name) as api:
            try:
                events = api.pull(
                    repository, tag or "latest", platform=platform, stream=True, decode=True
                )
            except APIError as error:
                raise no_image(name, gist_of(error)) from error
            # An error does not end the answer: its socket is open until it is closed here.
            with closing(events):
                for event in counted(events, task):
                    if "error" in event:
                        raise no_image(name, event["error"])

    def registry_digest(self, name: str) -> str:
        """Ask a registry what a name means now, and return NAME@sha256:HEX.

        Raises:
            NoSuchImageError: the registry does not have it.
            DockerError: the registry does not answer.
        """
        try:
            with timed(_log, logging.INFO, f"asking the registry for the digest of {name}"):
                answer = self.api.inspect_distribution(name)  # type: ignore[no-untyped-call]
        except ERRORS as error:
            raise no_image(name, gist_of(error)) from error
        return f"{repository_of(name)}@{answer['Descriptor']['digest']}"

    def build(self, build: Build, log: BinaryIO, listener: BuildListener) -> str:
        """Build an image, and return its id; `log` gets all output, `listener` hears it.

        Raises:
            BuildFailedError: a step failed. No container is left.
            DockerError: the engine failed, its disk is full, or BuildKit is missing.
        """
        with timed(_log, logging.INFO, f"building {build.dockerfile} in {build.context}"):
            if build.secrets or build.target:
                return self._build_with_buildkit(build, log, listener)
            return self._build_with_api(build, log, listener)

    def _build_with_api(self, build: Build, log: BinaryIO, listener: BuildListener) -> str:
        with closing(self._dialogue()) as api, asking(build.dockerfile.name):
            image_id = None
            for event in api.build(
                path=str(build.context),
                dockerfile=str(build.dockerfile),
                buildargs=dict(build.arguments),
                labels=dict(build.labels),
                network_mode=build.network,
                platform=build.platform,
                nocache=build.no_cache,
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
                    listener.step(line.strip())
                else:
                    listener.line(line)
                if match := _MADE.fullmatch(line.strip()):
                    self._image_ids.append(match[1])
                image_id = event.get("aux", {}).get("ID") or image_id
        if image_id is None:
            raise self.failed("the engine named no image at the end", log)
        return str(image_id)

    def _build_with_buildkit(self, build: Build, log: BinaryIO, listener: BuildListener) -> str:
        result = build.context.parent / f"{build.context.name}.iid"
        with self._name_images(build) as named, started(named, result, self.where) as process:
            for line in process.stdout or ():
                log.write(line)
                step = line.decode(errors="replace").strip().partition(" ")[2]
                if step.startswith("["):
                    listener.step(step)
                else:
                    listener.line(line.decode(errors="replace"))
        if process.returncode != 0:
            raise self.failed(f"docker build ended with {process.returncode}", log)
        image_id = result.read_text(encoding="ascii").strip()
        result.unlink()
        self._image_ids.append(image_id)
        return image_id

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """If the block is interrupted, remove the images without a name that its builds made.

        What was there before stays. A build that fails leaves its images as well: they are the
        cache of the next one.
        """
        self._image_ids.clear()
        # An engine that ends a step, or removes gigabytes, does not answer for minutes.
        with closing(self._dialogue()) as api:
            before = leftovers.images(api)
            try:
                yield
            except KeyboardInterrupt:
                leftovers.remove(api, self._image_ids, before)
                raise

    @contextmanager
    def _name_images(self, build: Build) -> Iterator[Build]:
        """Give images that are named by their ids a tag meanwhile: BuildKit knows no ids."""
        arguments = dict(build.arguments)
        for key, value in build.arguments.items():
            if value.startswith(_ID):
                # Of this build alone: another one may use the same image.
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
        with asking(name):
            if len(self.api.inspect_image(name)["RepoTags"]) > 1:  # type: ignore[no-untyped-call]
                self.api.remove_image(name, noprune=True)

    def failed(self, what: str, log: BinaryIO) -> VpatchError:
        """Return an error for a build that left a log."""
        log.flush()
        text = Path(log.name).read_bytes().decode(errors="replace")
        ending = [
            line
            for line in without_colours(text).splitlines()
            if line.strip() and not line.startswith(_FRAME)
        ]
        if what.startswith("The command "):
            what = "a step of it failed"  # the log names it; what matters is what the step said
        shown = "".join(f"\n    {line}" for line in ending[-_SHOWN:])
        message = f"the build failed: {what.strip()}{shown}"
        lines = [what, *ending[-_SHOWN:]]
        if any(NO_SPACE in line for line in lines):
            hint = f"free space where the engine keeps its data ({self._data()}): docker system df"
            return DockerError(message, where=log.name, hint=hint, code="docker.disk-full")
        hint = f"see the whole log, {log.name}"
        if any("exec format error" in line for line in lines):
            hint = f"the base is for another architecture than {self.platform}; name another --base"
        elif any("buildx" in line or "BuildKit" in line for line in lines[1:]):
            hint = "install BuildKit: Docker's buildx plugin"
            return DockerError(message, where=log.name, hint=hint, code="docker.no-buildkit")
        return BuildFailedError(message, where=log.name, hint=hint)

    def tag(self, image: str, name: str) -> None:
        repository, tag = parse_repository_tag(name)
        with asking(name):
            self.api.tag(image, repository, tag or "latest")

    def push(self, name: str, task: Task) -> str:
        """Push a tag, and return NAME@sha256:HEX as the registry has it; `task` counts its bytes.

        Raises:
            DockerError: the registry refuses it, or cannot be asked.
        """
        repository, tag = parse_repository_tag(name)
        digest = None
        with (
            self._transfer("pushing", name) as api,
            closing(api.push(repository, tag or "latest", stream=True, decode=True)) as events,
        ):
            for event in counted(events, task):
                if "error" in event:
                    raise DockerError(
                        f"it cannot be pushed: {event['error']}",
                        where=name,
                        hint="check that the registry answers, and log in with docker login",
                        code="docker.push-failed",
                    )
                digest = event.get("aux", {}).get("Digest") or digest
        if digest is None:
            raise DockerError(
                "the registry returned no digest",
                where=name,
                hint="check in the registry whether the image is there, then push it again",
                code="docker.push-failed",
            )
        return f"{repository}@{digest}"

    @contextmanager
    def container(
        self, image: str, command: Sequence[str], config: ContainerConfig | None = None
    ) -> Iterator[Container]:
        """Create a container that runs a command, not the image's own, and remove it after."""
        container = Container(self.api, f"vpatch-{uuid.uuid4().hex}")
        _log.info("container %s of %s: %s", container.id, image, command_line(command))
        try:
            container.create(image, command, config or ContainerConfig())
            yield container
        except KeyboardInterrupt:
            container.await_creation()
            raise
        finally:
            container.remove()

    def remove_of_job(self, job: str) -> int:
        """Remove the containers that a job of a cluster created; return how many there were.

        Raises:
            DockerError: the engine does not answer, or cannot remove one. The others are removed.
        """
        with asking(self.where):
            of_job = {"label": [f"{JOB_LABEL}={job}"]}
            containers = self.api.containers(all=True, filters=of_job)
        return len(collect(lambda one: Container(self.api, one["Id"]).remove(), containers))

    @contextmanager
    def _transfer(self, verb: str, name: str) -> Iterator[APIClient]:
        what = f"{verb} {name}"
        with timed(_log, logging.INFO, what), closing(self._dialogue()) as api, asking(name):
            yield api

    def _dialogue(self) -> APIClient:
        """A connection of its own: to close it is to cancel what it was told to do.

        It waits as long as it takes: a registry may be silent for minutes.
        """
        forever: Any = None
        return APIClient(version=self.api.api_version, timeout=forever, **kwargs_from_env())

    def _data(self) -> str:
        with asking("info"):
            return str(self.api.info().get("DockerRootDir", "its data folder"))
