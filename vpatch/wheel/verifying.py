"""What an installed vLLM is, compared file by file with its release, its RECORD and its lock."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.lockfile import read_lock
from vpatch.image.mode import is_laid_over
from vpatch.wheel.installing import KEPT, bytecode_at
from vpatch.wheel.journal import is_interrupted
from vpatch.wheel.laid import LOCK, patches_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from vpatch.checkout.lockfile import LockFile
    from vpatch.wheel.environment import InstalledVllm

# What a build writes anew.
_GENERATED = "vllm/_version.py"
_CACHE = "__pycache__"
_PYTHON = ".py"
# Of the 16 bytes before the code: PEP 552.
_HEADER = 16
_UNCHECKED = 1
State = Literal["release", "build", "wheel", "installed", "changed", "interrupted"]


@dataclass(frozen=True)
class FileDifference:
    """A file that is not as it should be; `patches` are those of the lock that it concerns."""

    path: str
    what: str
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifiedVllm:
    """What was found.

    `state` is `release` for exactly the release; `build` for one with other Python files, as its
    RECORD has them; `wheel` and `installed` for a lock of vpatch's. `other_files` are these other
    files. It is `changed` where a file is neither of these, and `interrupted` where a command was
    killed.
    """

    found: InstalledVllm
    state: State
    lock: LockFile | None
    differences: tuple[FileDifference, ...] = ()
    other_files: tuple[str, ...] = ()
    # The digests of all files that were looked at.
    digests: Mapping[str, str | None] = field(default_factory=dict, repr=False)

    @property
    def is_fork(self) -> bool:
        """Whether it has the name of the release and other files: a build says so by its name."""
        return bool(self.other_files) and self.found.distribution == "vllm"

    @property
    def is_clean(self) -> bool:
        return self.state not in {"changed", "interrupted"} and not self.is_fork


def verify(found: InstalledVllm, released: Mapping[str, str]) -> VerifiedVllm:
    """Compare an installed vLLM with its release; `released` are the digests of its Python files.

    Raises:
        LockError: its lock is damaged.
        OSError: a file cannot be read.
    """
    lock = read_lock(found.info / LOCK) if (found.info / LOCK).is_file() else None
    if is_interrupted(found.info):
        return VerifiedVllm(found, "interrupted", lock)
    patched = {} if lock is None else {f.path: f for f in lock.files if is_laid_over(f.path)}
    listed = {
        path: row.sha256
        for path, row in found.rows.items()
        if path.startswith("vllm/") and row.sha256 is not None
    }
    on_disk = set(_python_files(found.package))
    looked_at = sorted({*listed, *released, *patched, *on_disk})
    digests = {path: _digest(found.site / path) for path in looked_at}
    differences: list[FileDifference] = []
    others: list[str] = []
    for path, digest in digests.items():
        if path in patched:
            what = _patched(digest, patched[path].before, patched[path].after)
            what = what or _bytecode(found.site, path)
        elif path in listed:
            what = _listed(digest, listed[path])
            if not what and digest != released.get(path, digest) and path != _GENERATED:
                others.append(path)
        elif path in released:
            what = _released(digest, released[path])
        else:
            what = "is neither in the release nor in RECORD"
        if what:
            concerned = tuple(patches_of(lock, [path])) if lock is not None else ()
            differences.append(FileDifference(path, what, concerned))
    state: State = "build" if others else "release"
    if lock is not None:
        state = "installed" if (found.info / KEPT).is_dir() else "wheel"
    if differences:
        state = "changed"
    return VerifiedVllm(found, state, lock, tuple(differences), tuple(others), digests)


def _python_files(package: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(package):
        folders[:] = [name for name in folders if name != _CACHE]
        for name in names:
            if name.endswith(_PYTHON):
                yield os.path.relpath(os.path.join(parent, name), package.parent)  # noqa: PTH118


def _digest(path: Path) -> str | None:
    try:
        with path.open("rb") as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
    except FileNotFoundError:
        return None


def _patched(found: str | None, before: str | None, after: str) -> str:
    if found == after:
        return ""
    if found is None:
        return "is missing"
    return "is as before the patch" if found == before else "was changed after the patch"


def _listed(found: str | None, wanted: str | None) -> str:
    if found == wanted:
        return ""
    return "is missing" if found is None else "was changed: RECORD has another digest"


def _released(found: str | None, wanted: str) -> str:
    if found == wanted:
        return ""
    return "is missing" if found is None else "was changed, and RECORD does not list it"


def _bytecode(site: Path, path: str) -> str:
    """Bytecode that Python takes without a look at its source; nothing where there is none."""
    for name in bytecode_at(site, path):
        with (site / name).open("rb") as file:
            header = file.read(_HEADER)
        if int.from_bytes(header[4:8], "little") == _UNCHECKED:
            return f"has bytecode that hides it: {name}"
    return ""
