"""A patched image on a node of a cluster: each job runs in containers of it."""

from __future__ import annotations

import json
import os
from contextlib import closing
from typing import TYPE_CHECKING, Any

from vpatch.errors import UnavailableError
from vpatch.harness.machine import this_machine
from vpatch.progress import Silent
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.docker.engine import Docker
    from vpatch.image.running import PatchedImage

# The guard of a job runs what this file says, if the job is killed.
_IF_KILLED = "if-killed.json"


def name_for_nodes(about: Mapping[str, Any]) -> str:
    """Return the name by which nodes run an image: a digest of a registry, or else its id.

    `about` is what evidence says of the image. An image may be in several registries: the digest is
    that of the repository that the user named, if there is one.
    """
    # Only a run in an image needs it.
    from vpatch.docker.names import repository_of  # noqa: PLC0415

    named = repository_of(about["name"])
    own = [digest for digest in about["digests"] if repository_of(digest) == named]
    return str([*own, *about["digests"], about["id"]][0])


def image_on_node(name: str, folder: Path, stack: ExitStack) -> tuple[PatchedImage, Docker, bool]:
    """Return an image, the connection to this node's engine, and whether the node has GPUs.

    An image that a registry has is pulled. `folder` is that of the job: its guard removes the
    containers if the job is killed before the end of `stack`.

    Raises:
        UnavailableError: the image has no registry, and is not here.
        VpatchError: there is no Docker Engine, or it cannot get the image, or vpatch did not build
            it.
    """
    require("image", "a run in an image")
    # Only a run in an image needs it.
    from vpatch.docker.engine import Docker  # noqa: PLC0415
    from vpatch.image.running import look_at  # noqa: PLC0415

    docker = stack.enter_context(closing(Docker()))
    if docker.image(name) is None:
        if "@" not in name:
            raise UnavailableError(
                "the image is not on this node, and no registry has it",
                where=name,
                hint="push it to a registry, or run docker save and docker load on the node",
                code="cluster.no-image",
            )
        docker.pull(name, None, Silent())
    _clean_up_if_killed(folder, stack)
    gpus = bool(this_machine().gpus)
    return look_at(docker, name, gpus=gpus), docker, gpus


def _clean_up_if_killed(folder: Path, stack: ExitStack) -> None:
    file = folder / _IF_KILLED
    command = ["vpatch.docker.job_containers", os.environ["VPATCH_JOB"]]
    file.write_text(json.dumps(command), encoding="utf-8")
    stack.callback(file.unlink)
