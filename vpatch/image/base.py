"""The base of an image: found, and pinned by digest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.docker import NoSuchImageError, repository_of
from vpatch.errors import VpatchError
from vpatch.image.source import COMPILER, FINAL
from vpatch.lock import LockedImage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.docker import Docker, Image
    from vpatch.lock import ImageMode
    from vpatch.progress import Progress

# Debian's, as vLLM's CPU wheels are for glibc, and a compiler comes from its packages.
_PYTHON = "python:3.12-slim-bookworm"


class BaseError(VpatchError):
    """A base that cannot be built on."""


def default_base(mode: ImageMode, version: str) -> str:
    """Return what an image is laid over where nobody says: `version` is vLLM's."""
    return _PYTHON if mode == "cpu" else f"vllm/vllm-openai:v{version}"


def pinned_base(
    docker: Docker,
    base: str,
    mode: ImageMode,
    platform: str | None,
    progress: Progress,
    known: LockedImage | None = None,
) -> LockedImage:
    """Find a base, pulled where it is not here, and the digest that its name means now.

    What is `known` of the same base and mode is not asked again: a tag may have moved since.

    Raises:
        NoSuchImageError: it is not there.
        BaseError: it is for another platform.
    """
    if known is not None and (known.base, known.mode) == (base, mode):
        _there(docker, known.pinned, platform, progress)
        return known
    image = _there(docker, base, platform, progress)
    names = [name for name in image.digests if repository_of(name) == repository_of(base)]
    pinned = base if "@" in base else next(iter(names or image.digests), image.id)
    return LockedImage(mode=mode, base=base, pinned=pinned)


def pinned_bases(
    docker: Docker, named: Mapping[str, str], known: LockedImage | None = None
) -> LockedImage:
    """Ask the registries what the bases of vLLM's own Dockerfile mean now; nothing is pulled.

    Raises:
        NoSuchImageError: one is not there.
    """
    if known is not None and (known.base, known.mode) == (named[FINAL], "source"):
        return known
    pins = {
        name: base if "@" in base else docker.registry_digest(base) for name, base in named.items()
    }
    return LockedImage(
        mode="source", base=named[FINAL], pinned=pins[FINAL], compiler=pins[COMPILER]
    )


def _there(docker: Docker, name: str, platform: str | None, progress: Progress) -> Image:
    image = docker.image(name)
    wanted = _two_parts(platform or docker.platform)
    if image is not None and image.platform != wanted and "sha256:" not in name:
        image = None  # a tag has one platform at a time here
    if image is None:
        if name.startswith("sha256:"):
            raise NoSuchImageError(
                "the base that was locked is not on this machine, and no registry has it",
                where=name,
                todo="make or load it again, or name another --base",
            )
        task = progress.start(f"Pulling {name}")
        docker.pull(name, platform, lambda _: None)
        task.done()
        image = docker.image(name)
    if image is None:
        raise NoSuchImageError("it was pulled, and is not there", where=name)
    if image.platform != wanted:
        raise BaseError(
            f"the image is for {image.platform}, and this build is for {wanted}",
            where=name,
            todo="name a base of that platform, or give --platform on an engine that can run it",
        )
    return image


def _two_parts(platform: str) -> str:
    """A platform without its variant, which images rarely name: linux/arm64/v8."""
    return "/".join(platform.split("/")[:2])
