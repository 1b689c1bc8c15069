"""A patched image on a node of a cluster: each job runs in containers of it."""

from __future__ import annotations

import json
import os
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UnavailableError, VpatchError
from vpatch.harness.machine import this_machine
from vpatch.progress import Silent
from vpatch.util.extras import require

if TYPE_CHECKING:
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.docker.engine import Docker
    from vpatch.harness.target import ImageFacts
    from vpatch.image.running import PatchedImage

# The guard of a job runs what this file says, if it is still there at the end.
_IF_KILLED = "if-killed.json"


@dataclass(frozen=True)
class ImageName:
    """How nodes find an image: by its id if they have it, or else by the digest of a registry.

    `name` is that digest, or the id again if no registry has the image.
    """

    name: str
    id: str


def name_for_nodes(about: ImageFacts) -> ImageName:
    """Return how nodes find an image; `about` is what evidence says of it.

    An image may be in several registries: the digest is that of the repository that the user named,
    if there is one.
    """
    # Only a run in an image needs it.
    from vpatch.docker.names import repository_of  # noqa: PLC0415

    named = repository_of(about["name"])
    own = [digest for digest in about["digests"] if repository_of(digest) == named]
    return ImageName([*own, *about["digests"], about["id"]][0], about["id"])


def open_docker(stack: ExitStack) -> Docker:
    """Open the connection to this machine's engine, for as long as the stack."""
    require("image", "a run in an image")
    # Only a run in an image needs it.
    from vpatch.docker.engine import Docker  # noqa: PLC0415

    return stack.enter_context(closing(Docker()))


def image_on_node(
    image: ImageName, folder: Path, stack: ExitStack
) -> tuple[PatchedImage, Docker, bool]:
    """Return an image, the connection to this node's engine, and whether the node has GPUs.

    An image that a registry has is pulled. `folder` is that of the job: its guard removes the
    containers if the job is killed before the end of `stack`.

    Raises:
        UnavailableError: the image has no registry, and is not here.
        VpatchError: there is no Docker Engine, or it cannot get the image, or vpatch did not build
            it.
    """
    docker = open_docker(stack)
    # Only a run in an image needs it.
    from vpatch.image.running import look_at  # noqa: PLC0415

    names = (image.id, image.name)
    name = next((one for one in names if docker.image(one) is not None), None)
    if name is None:
        name = image.name
        if name == image.id:
            raise UnavailableError(
                "the image is not on this node, and no registry has it",
                where=name,
                hint="push it to a registry, or run docker save and docker load on the node",
                code="cluster.no-image",
            )
        docker.pull(name, None, Silent())
    _clean_up_at_the_end(folder, docker, stack)
    gpus = bool(this_machine().gpus)
    return look_at(docker, name, gpus=gpus), docker, gpus


def _clean_up_at_the_end(folder: Path, docker: Docker, stack: ExitStack) -> None:
    """Leave a file for the guard. It stays there if a container could not be removed."""
    job, file = os.environ["VPATCH_JOB"], folder / _IF_KILLED
    file.write_text(json.dumps(["vpatch.docker.job_containers", job]), encoding="utf-8")

    def at_the_end() -> None:
        with suppress(VpatchError):
            docker.remove_of_job(job)
            file.unlink()

    stack.callback(at_the_end)
