"""The results of `build-image` and `verify-image`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Self

from pydantic import BeforeValidator

from vpatch.checkout.lockfile import ImageMode
from vpatch.commands.build_image.log import verified_by_build
from vpatch.console.document import OutputModel, Sorted, read_from
from vpatch.image.context import digest_of_lock, version_of

if TYPE_CHECKING:
    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.build_image.verify import ForeignImage


class PlannedImageOutput(OutputModel):
    """What would be built, as far as that is known without Docker and a registry."""

    patches: dict[str, dict[str, str]]
    """The states of patches by tree and id: what is `needed` would be put in. Patches that find
    nothing there are left out."""
    mode: ImageMode
    base: str
    """The image to build on, as it was named."""
    pinned: str | None
    """The same as NAME@sha256:HEX; null if only the build asks for it."""
    files: list[str]
    """The files that the patches change."""
    to_compile: list[str]
    """The files among them that must be compiled."""
    trees: dict[str, list[str]]
    """The files that patches change in each tree beside vLLM."""
    build_arguments: dict[str, dict[str, str]]
    """Build arguments by their names, for each Dockerfile."""


class BuiltImageOutput(OutputModel):
    """What was built."""

    image: str = read_from("identity")
    """The id of the image."""
    version: Annotated[str, BeforeValidator(version_of)] = read_from("lock")
    """The version of the patched vLLM."""
    patches: dict[str, dict[str, str]]
    """The states of patches by tree and id: what was `needed` is in the image. Patches that find
    nothing there are left out."""
    advisories: dict[str, int]
    """How many advisories have each status in the VEX of the image."""
    mode: ImageMode = read_from("choice.mode")
    base: str = read_from("choice.base")
    """The image that it was built on, as it was named."""
    pinned: str = read_from("image.pinned")
    """The same as NAME@sha256:HEX, or an id that only this machine has."""
    tags: list[str]
    pushed: list[str]
    """The digests that registries gave, one for each tag."""
    lock: Path = read_from("lock_path")
    trees: dict[str, Path]
    """The locks of the trees beside vLLM."""
    log: Path
    verified: Annotated[list[str], BeforeValidator(verified_by_build)] = read_from("log")
    """What the last step of the build found: sentences for people."""
    labels: dict[str, str]


class BuildImageOutput(OutputModel):
    """The result of `vpatch build-image`."""

    built: BuiltImageOutput | None
    """Null with `--dry-run`."""
    planned: PlannedImageOutput | None
    """Null without `--dry-run`."""

    @classmethod
    def of(cls, image: BuiltImageOutput | PlannedImageOutput) -> Self:
        if isinstance(image, BuiltImageOutput):
            return cls(built=image, planned=None)
        return cls(built=None, planned=image)


class ImageDifferenceOutput(OutputModel):
    """Something in the image that is not as the lock says."""

    where: str
    what: str
    patches: list[str]
    """The patches that it concerns."""


def _digest_of(lock: LockFile | None) -> str | None:
    return None if lock is None else digest_of_lock(lock)


def _version_of(lock: LockFile | None) -> str | None:
    return None if lock is None else version_of(lock)


class BuildComparisonOutput(OutputModel):
    """The vLLM of an image that vpatch did not build, beside a release."""

    summary: str
    """What it is, in a sentence for people."""
    release: str | None
    """The release that its version names; null where there is none."""
    as_released: int
    """The number of sources that are as in the release's archive."""
    changed: list[str]
    """The sources that are not."""
    as_recorded: list[str]
    """Those of them that are as RECORD of the build names them."""
    by_patches: list[str] = read_from("explained")
    """Those of them that are exactly what `patches` make of the release's."""
    added: list[str]
    """Sources that the archive lacks."""
    missing: list[str]
    """Sources that only the archive has."""
    patches: list[str]
    """The patches of the library that the changed sources have."""


class VerifyImageOutput(OutputModel):
    """The result of `vpatch verify-image`."""

    image: str = read_from("name")
    """As the command line names it."""
    id: str = read_from("image")
    """The id of the image."""
    lock: Annotated[str | None, BeforeValidator(_digest_of)]
    """The digest of the lock that the image was compared with; null without one."""
    version: Annotated[str | None, BeforeValidator(_version_of)] = read_from("lock")
    """The version of vLLM by that lock, or as the image tells it."""
    own_lock: bool
    """Whether that lock is the one in the image."""
    package: str
    """The folder of the package vllm in the image."""
    trees: Sorted
    """The trees beside vLLM that were verified as well."""
    files: int
    """How many files of the packages are as locked."""
    differences: list[ImageDifferenceOutput] = read_from("problems")
    effects: dict[str, int]
    """How many names the image's own Python found to be the patched code, by patch."""
    unknown: list[str]
    """What could not be asked, and why: sentences for people."""
    comparison: BuildComparisonOutput | None = None
    """What the vLLM is, where vpatch did not build the image; null elsewhere."""

    @staticmethod
    def of_foreign(one: ForeignImage) -> VerifyImageOutput:
        """The result for an image without a lock: nothing is locked."""
        return VerifyImageOutput.model_construct(
            image=one.name,
            id=one.image,
            lock=None,
            version=one.comparison.version,
            own_lock=False,
            package="",
            trees=[],
            files=0,
            differences=[],
            effects={},
            unknown=[],
            comparison=BuildComparisonOutput.model_validate(one.comparison),
        )
