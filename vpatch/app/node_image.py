"""A patched image on a node of a cluster, by its digest: each cell is a container of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from vpatch.cluster.payload.guard import living
from vpatch.harness.machine import this_machine
from vpatch.progress import Silent
from vpatch.util.extras import require

if TYPE_CHECKING:
    from contextlib import ExitStack

    from vpatch.docker.engine import Docker
    from vpatch.image.running import PatchedImage

# What a job is told in place of an engine, before the digest.
IMAGE = "image:"


def image_on_node(engine: str, stack: ExitStack) -> tuple[PatchedImage, Docker, bool]:
    """Return the image of a job, the connection to this node's engine, and whether it has GPUs.

    An image that a registry has is pulled. One without a registry must be here.

    Raises:
        VpatchError: there is no Docker Engine, or it cannot get the image, or nobody patched it.
    """
    require("image", "a run in an image")
    # Only a run in an image needs it.
    from vpatch.docker.engine import Docker  # noqa: PLC0415
    from vpatch.image.running import look_at  # noqa: PLC0415

    name = engine.removeprefix(IMAGE)
    docker = stack.enter_context(closing(Docker()))
    docker.remove_ended(lambda job: not living(f"VPATCH_JOB={job}".encode()))
    if "@" in name and docker.image(name) is None:
        docker.pull(name, None, Silent())
    gpus = bool(this_machine().gpus)
    return look_at(docker, name, gpus=gpus), docker, gpus
