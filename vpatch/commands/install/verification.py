"""What an installed vLLM is, compared file by file with its release, its RECORD and its lock."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from packaging.utils import canonicalize_name, canonicalize_version

from vpatch.checkout.lockfile import read_lock
from vpatch.commands.install.journal import is_interrupted
from vpatch.commands.install.layout import LOCK, patches_of
from vpatch.commands.install.replacement import KEPT
from vpatch.commands.install.wheels.names import is_patched, names_lock
from vpatch.engine.hidden import hidden_code
from vpatch.image.mode import is_laid_over
from vpatch.source.tree import BUILT
from vpatch.util.untrusted import LARGEST_FILE, digest_of_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from vpatch.checkout.lockfile import LockFile
    from vpatch.commands.install.environment import InstalledVllm

# What a build writes anew.
_GENERATED = "vllm/_version.py"
_CACHE = "__pycache__"
_PYTHON = ".py"
# Of an extension module: those for CUDA have more than a gigabyte.
_LARGEST = 64 * LARGEST_FILE
State = Literal[
    "release", "build", "unknown", "wheel", "installed", "unproven", "changed", "interrupted"
]


@dataclass(frozen=True)
class FileDifference:
    """A file that is not as it should be; `patches` are those of the lock that it concerns."""

    path: str
    what: str
    patches: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifiedVllm:
    """What an environment has.

    Attributes:
        found: the distribution.
        state: `release` where each source file is as in the release's archive; `build` where some
            are not, as RECORD has them; `unknown` where no release has the version; `wheel` and
            `installed` for a lock whose patches make these files;
            `unproven` for a lock whose patches do not, or are not known. It is `changed` where a
            file is different, and `interrupted` where a command was killed.
        lock: None where there is none.
        differences: the files that are not as they should be.
        patched: those that the lock names, and that the package has.
        as_released: those that are as in the release's archive.
        other_files: those that are not, and that RECORD has so. Anybody can write it.
        only_record: those that the archive lacks, or has of another build: only RECORD names them.
        doubts: why the lock is not proven, in sentences.
        digests: of all files that were looked at; None for what is missing, or no file.
        explained: the patches by the files that are not as in the release, and that these patches
            make of the release's.
        is_unknown: whether no release has the version, so that only RECORD was compared.
    """

    found: InstalledVllm
    state: State
    lock: LockFile | None
    differences: tuple[FileDifference, ...] = ()
    patched: tuple[str, ...] = ()
    as_released: tuple[str, ...] = ()
    other_files: tuple[str, ...] = ()
    only_record: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    digests: Mapping[str, str | None] = field(default_factory=dict, repr=False)
    explained: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    is_unknown: bool = False

    @property
    def is_pinned(self) -> bool:
        """Whether a lock pins these very files, and not those of a release."""
        return self.lock is not None and self.lock.source.kind in BUILT and not self.doubts

    @property
    def patches(self) -> tuple[str, ...]:
        """The ids of the lock's patches."""
        return () if self.lock is None else tuple(patch.id for patch in self.lock.patches)

    @property
    def is_fork(self) -> bool:
        """Whether it has the name of the release and other files: a build says so by its name.

        One whose lock pins these files says so too.
        """
        is_named = canonicalize_name(self.found.distribution) == "vllm"
        return bool(self.other_files) and is_named and not self.is_pinned

    @property
    def is_clean(self) -> bool:
        findings = {"changed", "interrupted", "unproven", "unknown"}
        return self.state not in findings and not self.is_fork


def verify(
    vllm: InstalledVllm,
    released: Mapping[str, str] | None,
    doubts_about: Callable[[LockFile], tuple[str, ...]],
) -> VerifiedVllm:
    """Compare an installed vLLM with its release.

    Args:
        vllm: the distribution.
        released: the digests of the files that the release's archive has in the package; None
            where no release has the version.
        doubts_about: says why a lock is not what the library's patches make of its source.

    Raises:
        LockError: its lock is damaged.
        HiddenCodeError: bytecode cannot be compared.
        OSError: a folder cannot be read.
    """
    lock = read_lock(vllm.info / LOCK) if os.path.lexists(vllm.info / LOCK) else None
    if is_interrupted(vllm.info):
        return VerifiedVllm(vllm, "interrupted", lock)
    hidden = hidden_code(vllm.asked, vllm.package)
    links = {path: f"is a link to {target}" for path, target in hidden.files.links.items()}
    pristine = released or {}
    comparison = _FileComparison(vllm, pristine, lock, {**links, **hidden.problems})
    # A wheel may leave out data.
    there = {p for p in pristine if p.endswith(_PYTHON) or os.path.lexists(vllm.site / p)}
    paths = {*comparison.listed, *there, *comparison.patched, *hidden.files.importable}
    problems = comparison.problems([*sorted(paths)])
    problems |= {path: what for path, what in comparison.odd.items() if path not in problems}
    problems |= {**dict(_metadata(vllm)), **dict(_remains(vllm, lock))}
    doubts: tuple[str, ...] = ()
    state: State = "build" if comparison.others else "release"
    state = "unknown" if released is None else state
    if lock is not None:
        doubts = (*doubts_about(lock), *_contradictions(vllm, lock))
        state = "wheel" if is_patched(vllm.version) else "installed"
        state = "unproven" if doubts else state
    differences = [
        FileDifference(path, what, () if lock is None else tuple(patches_of(lock, [path])))
        for path, what in sorted(problems.items())
    ]
    return VerifiedVllm(
        vllm,
        "changed" if differences else state,
        lock,
        tuple(differences),
        tuple(sorted(comparison.patched)),
        tuple(comparison.as_released),
        tuple(comparison.others),
        tuple(comparison.only_record),
        doubts,
        comparison.digests,
        is_unknown=released is None,
    )


class _FileComparison:
    """Files of a package against what is known of them. `odd` are problems known before."""

    def __init__(
        self,
        vllm: InstalledVllm,
        released: Mapping[str, str],
        lock: LockFile | None,
        odd: Mapping[str, str],
    ) -> None:
        self.site = vllm.site
        self.rows = vllm.rows
        self.released = released
        self.odd = odd
        laid = [] if lock is None else [file for file in lock.files if is_laid_over(file.path)]
        self.patched = {file.path: file for file in laid}
        self.listed = {
            path: row.sha256
            for path, row in vllm.rows.items()
            if path.startswith("vllm/") and _CACHE not in path.split("/")
        }
        self.as_released: list[str] = []
        self.others: list[str] = []
        self.only_record: list[str] = []
        self.digests: dict[str, str | None] = {}

    def problems(self, paths: list[str]) -> dict[str, str]:
        self.digests = dict.fromkeys(paths)
        problems = {path: self.odd.get(path) or self._problem(path) for path in paths}
        return {path: what for path, what in problems.items() if what}

    def _problem(self, path: str) -> str:
        try:
            digest = self._digest(path)
        except OSError as error:
            return error.strerror or "cannot be read"
        self.digests[path] = digest
        if path in self.patched:
            return _patch_problem(digest, self.patched[path].before, self.patched[path].after)
        wanted, pristine = self.listed.get(path), self.released.get(path)
        if wanted is not None:
            what = _record_problem(digest, wanted)
            if not what and (pristine is None or path == _GENERATED):
                self.only_record.append(path)
            elif not what:
                (self.as_released if digest == pristine else self.others).append(path)
            return what
        if pristine is not None:
            if digest == pristine:
                self.as_released.append(path)
            changed = "is missing" if digest is None else "was changed, and RECORD does not list it"
            return "" if digest == pristine else changed
        if path in self.listed:
            return "is missing" if digest is None else "is in RECORD without a digest"
        return "is neither in the release nor in RECORD"

    def _digest(self, path: str) -> str | None:
        """Return the digest of a file. One with another size than in RECORD is not read."""
        row, file = self.rows.get(path), self.site / path
        try:
            if row is not None and path not in self.patched and row.size.isdecimal():
                status = file.stat()
                if stat.S_ISREG(status.st_mode) and str(status.st_size) != row.size:
                    return f"{status.st_size} bytes"
            return digest_of_file(file, LARGEST_FILE if path.endswith(_PYTHON) else _LARGEST)
        except FileNotFoundError:
            return None


def _metadata(vllm: InstalledVllm) -> Iterator[tuple[str, str]]:
    """Say which files of the metadata are not as RECORD has them."""
    info = vllm.info.name
    name, _, version = vllm.info.stem.partition("-")
    same_name = canonicalize_name(name) == canonicalize_name(vllm.distribution)
    if not same_name or canonicalize_version(version) != canonicalize_version(vllm.version):
        yield f"{info}/METADATA", f"is of {vllm.distribution} {vllm.version}, unlike its folder"
    for path, row in vllm.rows.items():
        if path.startswith(f"{info}/") and row.sha256 is not None:
            try:
                digest = digest_of_file(vllm.site / path, LARGEST_FILE)
                what = _record_problem(digest, row.sha256)
            except FileNotFoundError:
                what = "is missing"
            except OSError as error:
                what = error.strerror or "cannot be read"
            if what:
                yield path, what


def _remains(vllm: InstalledVllm, lock: LockFile | None) -> Iterator[tuple[str, str]]:
    """Say what of an install is missing, or not as before it."""
    info, pristine = vllm.info.name, vllm.info / KEPT
    if lock is None:
        if os.path.lexists(pristine):
            yield f"{info}/{LOCK}", f"is missing, and vpatch install ran here: there is {KEPT}"
        return
    if is_patched(vllm.version):
        return
    if not pristine.is_dir():
        yield f"{info}/{KEPT}", "is missing: vpatch uninstall cannot restore the files"
        return
    for file in lock.files:
        if is_laid_over(file.path) and file.before is not None:
            try:
                digest = digest_of_file(pristine / file.path, LARGEST_FILE)
            except PermissionError:
                yield f"{info}/{KEPT}/{file.path}", "cannot be read: Permission denied"
                continue
            except OSError:
                digest = ""
            if digest != file.before:
                yield f"{info}/{KEPT}/{file.path}", "is not as before vpatch install"


def _contradictions(vllm: InstalledVllm, lock: LockFile) -> Iterator[str]:
    """Say what of an environment does not fit its lock."""
    if not is_patched(vllm.version):
        return
    if not names_lock(vllm.version, lock):
        yield f"the version {vllm.version} names another lock"
    if os.path.lexists(vllm.info / KEPT):
        yield f"its version is that of a wheel by vpatch, and no wheel has {KEPT}"


def _patch_problem(digest: str | None, before: str | None, after: str) -> str:
    if digest == after:
        return ""
    if digest is None:
        return "is missing"
    return "is as before the patch" if digest == before else "was changed after the patch"


def _record_problem(digest: str | None, wanted: str) -> str:
    if digest is None:
        return "is missing"
    return "" if digest == wanted else "was changed: RECORD has another digest"
