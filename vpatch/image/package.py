"""A package of an image, read from outside: no program of the image has a say in it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.image.mode import laid_over_digests, patches_of
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vpatch.checkout.lockfile import LockedFile, LockFile

_CACHE = "__pycache__"
_EMPTY = digest_of(b"")
_SHOWN = len("sha256:") + 16


@dataclass(frozen=True)
class Problem:
    """Something in an image that is not as the lock says; `patches` are those that it concerns."""

    where: str
    what: str
    patches: tuple[str, ...] = ()


def list_text(digests: Mapping[str, str]) -> str:
    """Return the list of a package's files as an image carries it, and as a lock digests it."""
    return json.dumps(digests, indent=0, sort_keys=True) + "\n"


def parse_list(text: bytes | None, contents: str) -> dict[str, str] | None:
    """Return the list that an image carries; None where it is not the list that was locked."""
    if text is None or digest_of(text) != contents:
        return None
    digests: dict[str, str] = parse_json(text)
    return digests


def problems_of(
    lock: LockFile,
    name: str,
    package: str,
    digests: Mapping[str, str] | None,
    known: Mapping[str, str] | None,
) -> Iterator[Problem]:
    """Compare the files of a package with the lock.

    `name` is that of the package, and `package` its folder. `digests` are those of all its
    files; `known` are those without the patches, if the image still has that list. A file that no
    patch touches must be as in `known`.
    """
    if digests is None:
        yield Problem(package, "the package is missing")
        return
    laid = laid_over_digests(lock, name)
    patched = {inside(file.path): file for file in lock.files if file.path in laid}
    for path, file in sorted(patched.items()):
        what = _patched_problem(file, digests.get(path), lock) or _bytecode_problem(path, digests)
        if what:
            yield Problem(f"{package}/{path}", what, tuple(patches_of(lock, [file.path])))
    if known is None:
        return
    of_patches = {one for path in patched for one in bytecode_of(path, {*digests, *known})}
    for path in sorted((digests.keys() | known.keys()) - patched.keys() - of_patches):
        if digests.get(path) != known.get(path):
            what = _unpatched_problem(digests.get(path), known.get(path))
            yield Problem(f"{package}/{path}", what)


def inside(path: str) -> str:
    """Return the path in the package of a file of the tree: config/model.py."""
    return str(PurePosixPath(*PurePosixPath(path).parts[1:]))


def bytecode_of(path: str, files: set[str]) -> list[str]:
    """Return the compiled files that an import of a module might take, of any Python."""
    pure = PurePosixPath(path)
    beside = str(pure.with_suffix(".pyc"))
    start = str(pure.parent / _CACHE / pure.stem) + "."
    return sorted(name for name in files if name == beside or name.startswith(start))


def _patched_problem(file: LockedFile, digest: str | None, lock: LockFile) -> str | None:
    if digest == file.after:
        return None
    if digest is None:
        return "it is missing"
    if digest == file.before:
        name = "vLLM" if lock.source.tree == "vllm" else lock.source.tree
        return f"it is as before the patch: {name} was installed over it"
    return f"it was changed: it is {digest[:_SHOWN]}, and the lock has {file.after[:_SHOWN]}"


def _bytecode_problem(path: str, digests: Mapping[str, str]) -> str | None:
    # A build empties it: only the image's own Python could tell whether it is of this source.
    stale = [name for name in bytecode_of(path, set(digests)) if digests[name] != _EMPTY]
    names = [PurePosixPath(name).name for name in stale]
    return f"stale bytecode lies beside it: {', '.join(names)}" if names else None


def _unpatched_problem(digest: str | None, known: str | None) -> str:
    if digest is None:
        return "it is missing, and no patch removes it"
    if known is None:
        return "it is neither of the base nor of a patch"
    return f"it was changed, and no patch touches it: it is {digest[:_SHOWN]}, not {known[:_SHOWN]}"
