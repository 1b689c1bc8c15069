"""The results of `build-image` and `verify-image`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Self

from vpatch.checkout.lockfile import ImageMode
from vpatch.commands.build_image.log import verified_by_build
from vpatch.console.document import OutputModel
from vpatch.image.context import digest_of_lock, version_of

if TYPE_CHECKING:
    from vpatch.commands.build_image.usecase import BuiltImage
    from vpatch.image.verify import Verified


class PlannedImageOutput(OutputModel):
    """What would be built, as far as that is known without Docker and a registry."""

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

    image: str
    """The id of the image."""
    version: str
    """The version of the patched vLLM."""
    mode: ImageMode
    base: str
    """The image that it was built on, as it was named."""
    pinned: str
    """The same as NAME@sha256:HEX, or an id that only this machine has."""
    tags: list[str]
    pushed: list[str]
    """The digests that registries gave, one for each tag."""
    lock: Path
    trees: dict[str, Path]
    """The locks of the trees beside vLLM."""
    log: Path
    verified: list[str]
    """What the last step of the build found: sentences for people."""
    labels: dict[str, str]

    @classmethod
    def of(cls, built: BuiltImage) -> Self:
        return cls(
            image=built.identity,
            version=version_of(built.lock),
            mode=built.choice.mode,
            base=built.choice.base,
            pinned=built.image.pinned,
            tags=list(built.tags),
            pushed=built.pushed,
            lock=built.lock_path,
            trees=built.trees,
            log=built.log,
            verified=verified_by_build(built.log),
            labels=built.labels,
        )


class BuildImageOutput(OutputModel):
    """The result of `vpatch build-image`."""

    built: BuiltImageOutput | None
    """Null with `--dry-run`."""
    planned: PlannedImageOutput | None
    """Null without `--dry-run`."""

    @classmethod
    def of(cls, found: BuiltImageOutput | PlannedImageOutput) -> Self:
        if isinstance(found, BuiltImageOutput):
            return cls(built=found, planned=None)
        return cls(built=None, planned=found)


class ImageDifferenceOutput(OutputModel):
    """Something in the image that is not as the lock says."""

    where: str
    what: str
    patches: list[str]
    """The patches that it concerns."""


class VerifyImageOutput(OutputModel):
    """The result of `vpatch verify-image`."""

    image: str
    """As the command line names it."""
    id: str
    """The id of the image."""
    lock: str
    """The digest of the lock that the image was compared with."""
    version: str
    """The version of vLLM by that lock."""
    own_lock: bool
    """Whether that lock is the one in the image."""
    package: str
    """The folder of the package vllm in the image."""
    trees: list[str]
    """The trees beside vLLM that were verified as well."""
    files: int
    """How many files of the packages are as locked."""
    differences: list[ImageDifferenceOutput]
    effects: dict[str, int]
    """How many names the image's own Python found to be the patched code, by patch."""
    unknown: list[str]
    """What could not be asked, and why: sentences for people."""

    @classmethod
    def of(cls, image: str, found: Verified) -> Self:
        return cls(
            image=image,
            id=found.image,
            lock=digest_of_lock(found.lock),
            version=version_of(found.lock),
            own_lock=found.own_lock,
            package=found.package,
            trees=sorted(found.trees),
            files=found.files,
            differences=[ImageDifferenceOutput.model_validate(one) for one in found.problems],
            effects=dict(found.effects),
            unknown=list(found.unknown),
        )
