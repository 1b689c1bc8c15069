"""Whether an image has what its lock says."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import read_lock
from vpatch.docker.engine import Docker
from vpatch.errors import UsageError
from vpatch.image.verify import verify_image
from vpatch.source.spec import ImageSpec
from vpatch.workspace.build_comparison import compare_with_release

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.image.verify import Verified
    from vpatch.workspace.build_comparison import BuildComparison
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class ForeignImage:
    """An image that vpatch did not build: what its vLLM is. `image` is its id."""

    name: str
    image: str
    comparison: BuildComparison


def verify(context: Context, image: str, lock: Path | None) -> Verified:
    """Compare an image with a lock, by default with the one in it; see `verify_image`.

    Raises:
        UnavailableError: there is no Docker Engine.
        VpatchError: there is no such image, or the lock cannot be read.
    """
    expected = None if lock is None else read_lock(lock)
    with closing(Docker()) as docker:
        return verify_image(docker, image, expected, context.progress)


def verify_or_compare(context: Context, image: str, lock: Path | None) -> Verified | ForeignImage:
    """Do the same, or without any lock compare it with the release that its version names.

    Raises:
        UnavailableError: there is no Docker Engine.
        VpatchError: there is no such image, the lock cannot be read, or it has no vLLM.
    """
    try:
        return verify(context, image, lock)
    except UsageError as error:
        if error.code != "image.not-built-by-vpatch":
            raise
    with context.tree(ImageSpec("vllm", image)) as tree:
        return ForeignImage(image, tree.pin.digest, compare_with_release(context, tree))
