"""What kind of image can carry a lock: it depends on which files its patches touch."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.checkout.lockfile import ImageMode, LockFile

_VLLM = "vllm"
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


def is_laid_over(path: str, package: str = _VLLM) -> bool:
    """Whether a file can take the place of an installed one: Python of the package."""
    pure = PurePosixPath(path)
    return pure.parts[0] == package and pure.suffix == ".py"


def package_of(lock: LockFile) -> str:
    """Return the package of a lock's tree, as it is imported.

    A distribution may have a package of another name: flashinfer-python has flashinfer. The files
    that the patches touch tell it then.
    """
    named = lock.source.tree.replace("-", "_")
    paths = [PurePosixPath(file.path) for file in lock.files if is_shipped(file.path)]
    # What lies below src is installed under another path, which no overlay knows.
    folders = {p.parts[0] for p in paths if p.suffix == ".py" and len(p.parts) > 1} - {"src"}
    return next(iter(folders)) if len(folders) == 1 and named != _VLLM else named


def laid_over_digests(lock: LockFile) -> dict[str, str]:
    """Return the digests of the files that an import must find, by their paths in the tree."""
    package = package_of(lock)
    return {file.path: file.after for file in lock.files if is_laid_over(file.path, package)}


def to_build(lock: LockFile) -> list[str]:
    """Return the files that a lock touches and that no overlay can carry."""
    laid = laid_over_digests(lock)
    return [f.path for f in lock.files if is_shipped(f.path) and f.path not in laid]


def refuse_built(lock: LockFile) -> None:
    """Refuse a tree beside vLLM whose patches change more than Python.

    Raises:
        ModeError: an image cannot carry the lock's patches.
    """
    built = to_build(lock)
    if built:
        raise ModeError(
            f"an image takes only Python files of the package {package_of(lock)} from the tree "
            f"{lock.source.tree}, but the patches change {_listed(built)}",
            where=", ".join(_patches_of(lock, built)),
            hint="leave out these patches, or build that package yourself and name an image that "
            "has it as --base",
        )


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
