"""Lock -> image: the builds, in their order, and what each is given."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from vpatch.docker.build import Build
from vpatch.docker.buildkit import sent_files
from vpatch.errors import ConflictingOptionsError, UnavailableError, UnusedOptionError
from vpatch.git import checkout as git
from vpatch.git.found import opened_checkout
from vpatch.image.base import gone_image
from vpatch.image.context import labels_of, version_of, write_context
from vpatch.image.cpu import cpu_build
from vpatch.image.inventory import inventory_of
from vpatch.image.record import recorded
from vpatch.image.source import needed, source_build
from vpatch.library.catalog import installed
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vpatch.checkout.lockfile import ImageMode
    from vpatch.docker.build import BuildListener
    from vpatch.docker.engine import Docker
    from vpatch.image.context import Payload
    from vpatch.image.inventory import Inventory
    from vpatch.image.settings import BuildSettings

_VERSION_FILE = "vllm/_version.py"
_OVERLAY = "overlay.Dockerfile"
# What the lock says, and no argument may say otherwise.
_FIXED = {"BASE", "VLLM", "BESIDE"}


@dataclass(frozen=True)
class Built:
    """An image by its id, and what it has: the lock knows by now what lies below the patches."""

    identity: str
    payload: Payload


def build_image(
    docker: Docker,
    payload: Payload,
    settings: BuildSettings,
    checkout: Path | None,
    log: BinaryIO,
    listener: BuildListener,
    documents: Callable[[Inventory], Mapping[str, str]],
) -> Built:
    """Build what a lock says on the base that it names, verified from inside.

    `checkout` is that of the lock, which only the mode source needs. `log` gets all that the
    builds say, and `listener` hears of each step. `documents` makes `Payload.documents`.

    Raises:
        BuildFailedError: a build failed, or its result is not what the lock says.
        DockerError: the engine does not answer, or its disk is full.
    """
    with contexts(payload, settings) as workdir, docker.interruptible():
        below = payload.image.pinned
        for build in builds_below(payload, settings, checkout, workdir):
            below = docker.build(build, log, listener)
        base = docker.image(below)
        if base is None:
            raise gone_image(below, "built or pulled")
        listener.step("Reading what is below the patches")
        payload = recorded(docker, base.id, payload)
        listener.step("Listing the packages below the patches")
        texts = documents(inventory_of(docker, base.id, payload.image.base))
        payload = replace(payload, documents=texts)
        last = overlay_build(payload, settings, below, workdir)
        # The image runs as the same user as its base.
        arguments = {**last.arguments, "BASE_USER": base.user or "0"}
        return Built(docker.build(replace(last, arguments=arguments), log, listener), payload)


@contextmanager
def contexts(payload: Payload, settings: BuildSettings) -> Iterator[Path]:
    """Make a folder for the context of each build, and remove it afterwards.

    Raises:
        UsageError: a setting has no use in this mode.
    """
    _refuse_idle(payload.image.mode, settings)
    with scratch_folder() as name:
        yield Path(name)


@contextmanager
def _writing() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UnavailableError(
            f"the build could not be prepared: {error}",
            hint="free space in the folder for temporary files, or name another with TMPDIR",
            code="image.not-prepared",
        ) from error


def builds_below(
    payload: Payload, settings: BuildSettings, checkout: Path | None, workdir: Path
) -> list[Build]:
    """Return the builds that make what the patches are laid over; none for the mode overlay."""
    image = payload.image
    with _writing():
        if image.mode == "cpu":
            return [cpu_build(payload, settings, _folder(workdir, "cpu"))]
        if image.mode == "source":
            context = _clone(payload, checkout, workdir / "source")
            return [source_build(context, image, settings)]
    return []


def overlay_build(payload: Payload, settings: BuildSettings, below: str, workdir: Path) -> Build:
    """Return the build that lays the patched files over an image."""
    with _writing():
        context = _folder(workdir, "overlay")
        write_context(payload, installed("docker") / _OVERLAY, context, settings.epoch)
    return Build(
        context,
        context / _OVERLAY,
        {"BASE": below},
        {**settings.labels, **labels_of(payload.lock, payload.manifest)},
        network="none",
        platform=settings.platform,
        no_cache=settings.no_cache,
    )


def _refuse_idle(mode: ImageMode, settings: BuildSettings) -> None:
    """Refuse what would be without effect: somebody relies on it."""
    if mode == "overlay":
        options = {
            "--network": settings.network,
            "--secret": settings.secrets,
            "--certificate": settings.certificates,
            "--build-arg": settings.arguments,
        }
        idle = [option for option, value in options.items() if value]
        if idle:
            raise UnusedOptionError(
                f"an overlay fetches nothing and takes no arguments, so {', '.join(idle)} would "
                "have no effect",
                hint="leave it out, or choose another --mode",
            )
    fixed = sorted(settings.arguments.keys() & _FIXED) if mode == "cpu" else []
    if fixed:
        raise ConflictingOptionsError(
            f"the lock fixes {fixed[0]}, so --build-arg cannot change it",
            hint="name the base with --base, and releases with --vllm and --tree",
        )
    if mode == "source" and settings.certificates:
        raise UnusedOptionError(
            "vLLM's Dockerfile takes no certificates",
            hint="name bases that contain them: --base, and --build-arg BUILD_BASE_IMAGE=NAME",
        )


def _clone(payload: Payload, checkout: Path | None, context: Path) -> Path:
    """The patched checkout with its .git, which vLLM's Dockerfile asks for the version: a tag.

    The tree is that of the source archive, which has what .dockerignore keeps out of a build, and
    the file that a build writes its version to: neither may make it a changed one.
    """
    with opened_checkout(needed(checkout)) as repo:
        git.clone(repo, context, tag=f"v{version_of(payload.lock)}")
    tracked = git.tracked_files(context)
    git.overlook(context, (tracked & {_VERSION_FILE}) | (tracked - sent_files(context)))
    return context


def _folder(workdir: Path, name: str) -> Path:
    folder = workdir / name
    folder.mkdir()
    return folder
