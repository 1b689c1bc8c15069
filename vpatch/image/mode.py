"""What kind of image can carry a lock: it depends on which files its patches touch."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.util.plural import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vpatch.checkout.lockfile import ImageMode, LockFile

_VLLM = "vllm"
# Of a source tree, what no image of it has; vLLM's own has examples and benchmarks.
_NOT_SHIPPED = {".buildkite", ".github", "docs", "tests"}
# Packages at the root of a source tree that its distribution rarely has.
_NEVER_INSTALLED = _NOT_SHIPPED | {"benchmarks", "examples", "scripts", "test", "tools"}
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


def laid_over_digests(lock: LockFile, package: str = _VLLM) -> dict[str, str]:
    """Return the digests of the files that an import must find, by their paths in the tree."""
    return {file.path: file.after for file in lock.files if is_laid_over(file.path, package)}


def to_build(lock: LockFile, package: str = _VLLM) -> list[str]:
    """Return the files that a lock touches and that no overlay can carry."""
    laid = laid_over_digests(lock, package)
    return [f.path for f in lock.files if is_shipped(f.path) and f.path not in laid]


def package_in(lock: LockFile, paths: Iterable[str]) -> str:
    """Return the package of a tree beside vLLM, as it is imported; `paths` are the tree's files.

    A distribution may have a package of another name: flashinfer-python has flashinfer.

    Raises:
        ModeError: the tree has no package at its root, or several.
    """
    tree = lock.source.tree
    inits = (PurePosixPath(path).parts for path in paths if path.endswith("/__init__.py"))
    packages = {parts[0] for parts in inits if len(parts) == 2} - _NEVER_INSTALLED  # noqa: PLR2004
    named = tree.replace("-", "_")
    if named in packages:
        return named
    if len(packages) == 1:
        return packages.pop()
    what = f"several packages ({', '.join(sorted(packages))})" if packages else "no package"
    raise ModeError(
        f"the tree has {what} at its root, so it is not known what to put files over",
        where=tree,
        hint="leave out the tree; a package below src cannot be patched in an image",
    )


def refuse_built(lock: LockFile, package: str) -> None:
    """Refuse a tree beside vLLM whose patches change more than Python.

    Raises:
        ModeError: an image cannot carry the lock's patches.
    """
    built = to_build(lock, package)
    if built:
        raise ModeError(
            f"an image takes only Python files of the package {package} from the tree "
            f"{lock.source.tree}, but the patches change {listed(built, _SHOWN)}",
            where=", ".join(patches_of(lock, built)),
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
            f"an image in the mode {asked} cannot carry files that need a build: "
            f"{listed(built, _SHOWN)}",
            where=", ".join(patches_of(lock, built)),
            hint="use --mode source, or leave out these patches",
        )
    if asked:
        return asked
    if built:
        return "source"
    return "overlay" if has_base or has_gpu else "cpu"


def patches_of(lock: LockFile, paths: Sequence[str]) -> list[str]:
    """Return the ids of a lock's patches that touch one of some files."""
    return [p.id for p in lock.patches if any(file.path in paths for file in p.files)]
