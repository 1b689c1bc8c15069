"""What kind of image can carry a lock: it depends on which files its patches touch."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.checkout.lockfile import ImageMode, LockFile

_PACKAGE = "vllm"
# Of a source tree, what no image of it has; vLLM's own has examples and benchmarks.
_NOT_SHIPPED = {".buildkite", ".github", "docs", "tests"}
_SHOWN = 10


class ModeError(UsageError):
    """The image mode cannot carry the patches."""

    code = "image.wrong-mode"


def is_shipped(path: str) -> bool:
    """Whether a file of the tree has an effect in an image: tests and documentation have none."""
    first = PurePosixPath(path).parts[0]
    return first not in _NOT_SHIPPED and PurePosixPath(path).suffix not in {".md", ".rst"}


def is_laid_over(path: str) -> bool:
    """Whether a file can take the place of an installed one: Python of the package vllm."""
    pure = PurePosixPath(path)
    return pure.parts[0] == _PACKAGE and pure.suffix == ".py"


def laid_over_digests(lock: LockFile) -> dict[str, str]:
    """Return the digests of the files that an import must find, by their paths in the tree."""
    return {file.path: file.after for file in lock.files if is_laid_over(file.path)}


def to_build(lock: LockFile) -> list[str]:
    """Return the files that a lock touches and that no overlay can carry."""
    return [f.path for f in lock.files if is_shipped(f.path) and not is_laid_over(f.path)]


def choose_mode(
    lock: LockFile, *, asked: ImageMode | None, has_base: bool, has_gpu: bool
) -> ImageMode:
    """Return the mode for a lock: that which was asked for, or the least that carries it.

    A base that was named is one with vLLM. Without one, a machine without a GPU gets a cpu image.

    Raises:
        ModeError: the mode that was asked for cannot carry the lock's patches.
    """
    built = to_build(lock)
    if asked in ("overlay", "cpu") and built:
        raise ModeError(
            f"an image in the mode {asked} cannot carry files that need a build: {_listed(built)}",
            where=", ".join(_patches_of(lock, built)),
            hint="use --mode source, or leave out these patches",
        )
    if asked:
        return asked
    if built:
        return "source"
    return "overlay" if has_base or has_gpu else "cpu"


def _patches_of(lock: LockFile, paths: Sequence[str]) -> list[str]:
    return [p.id for p in lock.patches if any(file.path in paths for file in p.files)]


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
