"""The base of an image: found, and pinned by digest."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import LockedImage
from vpatch.docker.errors import NoSuchImageError
from vpatch.docker.names import repository_of
from vpatch.errors import UsageError, VpatchError
from vpatch.image.context import release_of
from vpatch.image.mode import choose_mode, to_build
from vpatch.image.source import COMPILER, FINAL, bases, needed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.checkout.lockfile import ImageMode, LockFile
    from vpatch.docker.engine import Docker, DockerImage
    from vpatch.progress import Progress

# Debian's, as wheels for CPUs are for glibc, and a compiler comes from its packages.
_PYTHON = "python:3.12-slim-bookworm"


class BaseError(VpatchError):
    """A base is for another platform."""

    code = "image.wrong-platform"


@dataclass(frozen=True)
class Choice:
    """A mode and its base, as it was named; `known` is what was locked of it.

    `bases` are those of vLLM's own Dockerfile, for the mode source; with `repin` a registry is
    asked even for what is here.
    """

    mode: ImageMode
    base: str
    bases: Mapping[str, str] = field(default_factory=dict)
    known: LockedImage | None = None
    repin: bool = False

    @property
    def unpinned(self) -> LockedImage:
        """What can be said of it before a digest was asked for."""
        return LockedImage(
            mode=self.mode, base=self.base, pinned=self.base, compiler=self.bases.get(COMPILER)
        )


def choose(
    lock: LockFile,
    checkout: Path | None,
    *,
    mode: ImageMode | None,
    base: str | None,
    arguments: Mapping[str, str],
    repin: bool,
    has_gpu: bool,
) -> Choice:
    """Choose mode and base: as it was asked for, as it was locked, or else the default.

    `arguments` are those for vLLM's own Dockerfile, which may name its bases.

    Raises:
        ModeError: the mode that was asked for cannot carry the lock's patches.
        UsageError: the mode source, and there is no checkout.
    """
    known = lock.image
    if mode is None and base is None and known and (known.mode == "source" or not to_build(lock)):
        mode = known.mode
    mode = choose_mode(lock, asked=mode, has_base=base is not None, has_gpu=has_gpu)
    if known and (known.mode != mode or base not in (None, known.base) or COMPILER in arguments):
        known = None
    if mode != "source":
        default = known.base if known else default_base(mode, release_of(lock))
        return Choice(mode, base or default, known=None if repin else known, repin=repin)
    base_names = bases(needed(checkout), {**arguments, **({FINAL: base} if base else {})})
    if repin or (known and known.base != base_names[FINAL]):
        known = None
    return Choice(mode, base_names[FINAL], base_names, known, repin)


def refuse_network(choice: Choice) -> None:
    """Refuse what an image cannot be built for without a network.

    Raises:
        UsageError: the mode fetches packages or bases, or a registry is to be asked.
    """
    if choice.mode != "overlay":
        raise UsageError(
            f"a build in the mode {choice.mode} fetches packages, which --offline forbids",
            hint="leave out --offline, or use --mode overlay with a --base on this machine",
            code="image.offline",
        )
    if choice.repin:
        raise UsageError(
            "--repin asks a registry, which --offline forbids",
            where=choice.base,
            hint="leave out one of the two",
            code="image.offline",
        )


def default_base(mode: ImageMode, version: str) -> str:
    """Return what an image is laid over where nobody says: `version` is vLLM's."""
    return _PYTHON if mode == "cpu" else f"vllm/vllm-openai:v{version}"


def pin(
    docker: Docker,
    choice: Choice,
    platform: str | None,
    progress: Progress,
    *,
    offline: bool = False,
) -> LockedImage:
    """Find a base, pulled where it is not here, and the digest that its name means now.

    What is known of it is not asked again: a tag may have moved since. Of vLLM's own Dockerfile,
    registries are asked for the digests, and the build pulls. `offline` allows an overlay alone,
    on a base that is here.

    Raises:
        UsageError: `offline`, and the base is not here.
        NoSuchImageError: it is not there.
        BaseError: it is for another platform.
    """
    known, base = choice.known, choice.base
    if offline:
        refuse_network(choice)
    if choice.mode == "source":
        if known is not None:
            return known
        pins = {
            name: named if "@" in named else docker.registry_digest(named)
            for name, named in choice.bases.items()
        }
        return LockedImage(mode="source", base=base, pinned=pins[FINAL], compiler=pins[COMPILER])
    here = docker.image(base) if choice.repin else None
    if here is not None and here.digests:
        pull(docker, base, platform, progress)
    name = known.pinned if known else base
    image = _there(docker, name, platform, progress, offline=offline)
    if known is not None:
        return known
    names = [name for name in image.digests if repository_of(name) == repository_of(base)]
    pinned = base if "@" in base else next(iter(names), image.id)
    local = pinned == image.id
    return LockedImage(mode=choice.mode, base=base, pinned=pinned, local=local)


def _there(
    docker: Docker, name: str, platform: str | None, progress: Progress, *, offline: bool
) -> DockerImage:
    image = docker.image(name)
    # Without its variant, which images rarely name: linux/arm64/v8.
    wanted = "/".join((platform or docker.platform).split("/")[:2])
    if image is not None and image.platform != wanted and not name.startswith("sha256:"):
        image = None  # a name has one platform at a time here
    if image is None:
        if name.startswith("sha256:"):
            raise NoSuchImageError(
                "the locked base is not on this machine, and no registry has it",
                where=name,
                hint="build or load it again, or name another --base",
            )
        if offline:
            raise UsageError(
                f"this machine has no such image for {wanted}, and --offline forbids to pull it",
                where=name,
                hint="name a --base that `docker images` lists, or leave out --offline to pull it",
                code="image.offline",
            )
        image = pull(docker, name, platform, progress)
    if image.platform != wanted:
        raise BaseError(
            f"the image is for {image.platform}, and this build is for {wanted}",
            where=name,
            hint="name a base of that platform, or give --platform on an engine that can run it",
        )
    return image


def pull(docker: Docker, name: str, platform: str | None, progress: Progress) -> DockerImage:
    """Fetch an image from its registry, whatever is here.

    Raises:
        NoSuchImageError: it is not there.
    """
    task = progress.start(f"Pulling {name}")
    docker.pull(name, platform, task)
    task.done()
    image = docker.image(name)
    if image is None:
        raise gone_image(name, "pulled")
    return image


def gone_image(name: str, what: str) -> NoSuchImageError:
    """Return what to raise where an image is gone; `what` was done with it before."""
    return NoSuchImageError(
        f"the image is gone right after it was {what}",
        where=name,
        hint="find out what removes images, then run the command again",
    )
