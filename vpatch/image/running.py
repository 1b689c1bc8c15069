"""An image as what a run is made in: what it is, and what of it is patched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import parse_lock
from vpatch.docker.container import ContainerConfig
from vpatch.engine.environment import PROBE, probed
from vpatch.errors import UsageError, VpatchError
from vpatch.image.context import LOCK, release_of
from vpatch.image.mode import laid_over_digests
from vpatch.image.tree_in_image import not_built_by_vpatch, trees_beside

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.checkout.lockfile import LockFile
    from vpatch.docker.container import Container
    from vpatch.docker.engine import Docker, DockerImage
    from vpatch.image.package import Problem

_SECONDS = 300.0
_SHOWN = 20


@dataclass(frozen=True)
class PatchedImage:
    """An image that vpatch built. `kind` is cpu, cuda, or what a plugin calls its device.

    `trees` are the locks of the trees beside vLLM.
    """

    name: str
    image: DockerImage
    lock: LockFile
    kind: str
    trees: tuple[LockFile, ...] = ()

    @property
    def version(self) -> str:
        return release_of(self.lock)

    @property
    def digests(self) -> dict[str, str]:
        """Those of the files that an import must find, by their paths in the tree."""
        digests = laid_over_digests(self.lock)
        locked = self.lock.image.trees if self.lock.image else {}
        for tree in self.trees:
            digests |= laid_over_digests(tree, locked[tree.source.tree].name)
        return digests

    @property
    def locks(self) -> tuple[LockFile, ...]:
        """Those of all patched trees."""
        return (self.lock, *self.trees)


def look_at(docker: Docker, name: str, *, gpus: bool) -> PatchedImage:
    """Ask an image for its lock, and its vLLM for what it runs on.

    Raises:
        UsageError: vpatch did not build it, or the engine is on another machine.
        VpatchError: its vLLM does not start.
    """
    if not docker.is_local:
        raise UsageError(
            "a run shares folders with its containers, but the engine is on another machine",
            where=docker.where,
            hint="run it on the engine's machine",
            code="docker.not-local",
        )
    image = docker.image(name)
    if image is None:
        raise UsageError(
            "this engine has no such image",
            where=name,
            hint="choose one that `docker images` lists, or run docker pull",
            code="image.not-here",
        )
    with docker.container(
        image.id, ["python3", "-c", PROBE], ContainerConfig(gpus=gpus)
    ) as container:
        carried = container.read(LOCK)
        if carried is None:
            raise not_built_by_vpatch(name, hint="build one with vpatch build-image")
        lock = parse_lock(carried, f"{name}:{LOCK}")
        trees = tuple(_trees(container, lock, name))
        container.start()
        container.wait(_SECONDS)
        text = container.logs().decode(errors="replace")
    probe = probed(text)
    if probe is None or not probe.package:
        lines = "\n".join(text.splitlines()[-_SHOWN:])
        raise VpatchError(
            f"its vLLM does not start:\n{lines}",
            where=name,
            hint="correct what the lines above name, then build the image anew",
            code="image.vllm-does-not-start",
        )
    return PatchedImage(name, image, lock, probe.kind, trees)


def _trees(container: Container, lock: LockFile, name: str) -> Iterator[LockFile]:
    """The locks of the trees beside vLLM: evidence names all of them."""
    problems: list[Problem] = []
    for tree in trees_beside(container, lock, problems):
        yield tree.lock
    for problem in problems:
        raise VpatchError(
            problem.what,
            where=f"{name}:{problem.where}",
            hint="see what differs: vpatch verify-image, then build the image anew",
            code="image.tree-changed",
        )
