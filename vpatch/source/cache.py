"""The cache of trees: safe for several processes at once, and after a kill at any moment.

- trees/NAME/: an entry, complete: it gets there by one rename
- staging/NAME/: an entry in the making, by the holder of its exclusive lock
- locks/NAME: shared by readers, exclusive to make or remove the entry
- KINDS: folders of what can be had again; see there
- overlays/: see vpatch.engine.kept_overlay
- checkpoints/: digests of large files of checkpoints
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from stat import S_ISDIR
from typing import TYPE_CHECKING

import platformdirs
from packaging.version import Version

from vpatch.errors import UnavailableError, UsageError
from vpatch.source import entry
from vpatch.source.entry import CachedTree, DamagedEntry
from vpatch.source.manifest import FileRecord
from vpatch.util.disk_size import disk_size
from vpatch.util.filelock import FileLock, note_of_wait, try_lock, wait_for_lock, wait_to_make
from vpatch.util.home import in_home
from vpatch.util.os_errors import is_wrong_path
from vpatch.util.run_log import timed

if TYPE_CHECKING:
    from vpatch.progress import Progress
    from vpatch.source.tree import Pin

_log = logging.getLogger(__name__)
# Writes a tree's files into `FILES` below the folder it is given, and says what it wrote.
Populate = Callable[[Path], list[FileRecord]]

# Between making an entry and opening it, a `cache clear` may take it away again.
_ATTEMPTS = 3


class CacheError(UnavailableError):
    """The cache cannot be read or written, or --offline needs something that is not in it."""

    code = "source.unwritable-cache"


KINDS = {
    "index": "answers of package indexes, for --offline",
    "refs": "answers of git remotes, for --offline",
    "contents": "what is known of the contents of files",
    "github": "answers of GitHub, for --offline",
    "plans": "what patches were found to mean for a tree, and to make of it",
    "compat": "which of what plugins take from vLLM holds in which release",
    "patches": "what was read of patches' declarations",
    "bytecode": "bytecode of what the commands of vpatch run import",
    "runs": "which vLLM an environment has, and which overlay belongs on it",
    "checkpoints": "digests of checkpoints' large files",
    "pre-commit": "what upstream's hooks run in",
    "wheels": "wheels that were downloaded",
    "proposals": "clones of the repositories that patches are proposed to",
}


@dataclass(frozen=True)
class CacheEntry:
    label: str
    digest: str
    size: int


def default_cache_folder() -> Path:
    """Return the folder of the cache, which may not exist yet.

    Raises:
        UsageError: no folder can have this path, for instance as a file has it.
    """
    named = os.environ.get("VPATCH_CACHE_DIR")
    folder = (
        Path(named).absolute()
        if named
        else in_home(lambda: platformdirs.user_cache_path("vpatch"), "the cache")
    )
    try:
        reason = None if S_ISDIR(folder.stat().st_mode) else "Not a directory"
    except OSError as error:
        reason = error.strerror if is_wrong_path(error) else None
    if reason is None:
        return folder
    raise UsageError(
        f"the cache cannot be here: {reason}",
        where=str(folder),
        hint=f"correct {folder}, or name another folder with VPATCH_CACHE_DIR",
        code="source.bad-cache-path",
    )


@dataclass(frozen=True)
class Cache:
    folder: Path

    def open(self, pin: Pin, populate: Populate | None, progress: Progress) -> CachedTree:
        """Open the pin's tree, made by `populate` where it is missing or damaged.

        Without `populate`, a missing tree raises CacheError and a damaged one DamagedEntry.
        """
        name = _entry_name(pin)
        try:
            for _ in range(_ATTEMPTS):
                damaged = False
                try:
                    tree = self._load(name, progress)
                except DamagedEntry as damage:
                    if populate is None:
                        raise
                    progress.note(f"{damage.what}; it is fetched again")
                    tree, damaged = None, True
                if tree is not None:
                    _log.info("%s is in the cache: %s", pin.label, tree.folder)
                    return tree
                if populate is None:
                    break
                lock = wait_to_make(
                    self._lock_file(name),
                    on_wait=note_of_wait(name, progress),
                    exists=(self._trees / name).exists if not damaged else lambda: False,
                )
                if lock is not None:
                    with lock, timed(_log, logging.INFO, f"putting {pin.label} into the cache"):
                        self._populate(name, pin, populate, lock)
        except OSError as error:
            raise CacheError(
                f"the cache cannot be used: {error}",
                where=str(self.folder),
                hint="free space or correct its permissions, or set VPATCH_CACHE_DIR",
            ) from error
        raise CacheError(
            f"{pin.label} is not in the cache",
            where=str(self.folder),
            hint="run the command once without --offline",
            code="source.not-in-cache",
        )

    def find(self, tree: str, version: str) -> tuple[Pin, ...]:
        """Return the pins of the cached archives of that exact version."""
        folders = self._trees.glob(f"{tree}-{version}-*")
        pins = (entry.read_pin(folder) for folder in sorted(folders))
        wanted = (tree, version, "pypi")
        return tuple(pin for pin in pins if pin and (pin.tree, pin.version, pin.kind) == wanted)

    def list(self) -> tuple[CacheEntry, ...]:
        """List the complete entries and what each takes on disk."""
        entries = []
        for folder in self._entries():
            pin = entry.read_pin(folder)
            if pin is not None:
                entries.append(CacheEntry(pin.label, pin.digest, disk_size(folder)))
        return tuple(entries)

    def versions(self, tree: str) -> tuple[str, ...]:
        """Return the releases of a tree whose archives are here, the oldest first."""
        pins = filter(None, map(entry.read_pin, self._entries()))
        versions = {pin.version for pin in pins if pin.tree == tree and pin.kind == "pypi"}
        return tuple(sorted(filter(None, versions), key=Version))

    def clear(self, labels: Iterable[str] | None, progress: Progress) -> int:
        """Remove these entries, or everything; return the bytes freed. Entries in use stay."""
        entries = {folder.name: entry.read_pin(folder) for folder in self._entries()}
        if labels is None:
            staged = {folder.name for folder in self._staging.glob("*")}
            names = sorted(entries.keys() | staged)
        else:
            names = _names_of(set(labels), entries, self.folder)
        freed = sum(self._remove(name, progress) for name in names)
        if labels is None:
            freed += sum(self.clear_kind(kind) for kind in KINDS)
        return freed

    def kinds(self) -> dict[str, int]:
        """Return what else is kept, by its kind, and the bytes that it takes."""
        there = [kind for kind in KINDS if self.answers(kind).exists()]
        return {kind: disk_size(self.answers(kind)) for kind in there}

    def clear_kind(self, kind: str) -> int:
        """Remove all of a kind; return the bytes freed."""
        return _remove_tree(self.answers(kind))

    def answers(self, kind: str) -> Path:
        """The folder of a kind, which must be known: or nobody would ever list and clear it."""
        if kind not in KINDS:
            raise KeyError(kind)
        return self.folder / kind

    @property
    def _trees(self) -> Path:
        return self.folder / "trees"

    @property
    def _staging(self) -> Path:
        return self.folder / "staging"

    def _entries(self) -> tuple[Path, ...]:
        return tuple(sorted(self._trees.glob("*")))

    def _lock_file(self, name: str) -> Path:
        return self.folder / "locks" / name

    def _load(self, name: str, progress: Progress) -> CachedTree | None:
        folder = self._trees / name
        on_wait = note_of_wait(name, progress)
        lock = wait_for_lock(self._lock_file(name), exclusive=False, on_wait=on_wait)
        try:
            tree = entry.load(folder, lock) if folder.exists() else None
        except BaseException:
            lock.release()
            raise
        if tree is None:
            lock.release()
        return tree

    def _populate(self, name: str, pin: Pin, populate: Populate, lock: FileLock) -> None:
        folder, staging = self._trees / name, self._staging / name
        # A process that was killed here may have left something, whatever it was doing.
        _remove_tree(staging)
        if folder.exists():
            # Another process may have been faster.
            with suppress(DamagedEntry):
                entry.load(folder, lock)
                return
            folder.rename(staging)
            _remove_tree(staging)
        try:
            (staging / entry.FILES).mkdir(parents=True)
            entry.seal(staging, pin, populate(staging))
            self._trees.mkdir(exist_ok=True)
            staging.rename(folder)
        finally:
            _remove_tree(staging)

    def _remove(self, name: str, progress: Progress) -> int:
        try:
            lock = try_lock(self._lock_file(name), exclusive=True)
        except OSError as error:
            raise _not_removed(self._trees / name, error) from error
        if lock is None:
            progress.note(f"{name} is in use by another vpatch process and stays")
            return 0
        with lock:
            freed = _remove_tree(self._staging / name)
            if (self._trees / name).exists():
                # Out of sight first, so that a kill half-way leaves no half entry there.
                self._staging.mkdir(exist_ok=True)
                (self._trees / name).rename(self._staging / name)
                freed += _remove_tree(self._staging / name)
        return freed


def _entry_name(pin: Pin) -> str:
    """Name the folder by what is known before the tree is there, and tells the bytes apart."""
    kind = pin.version if pin.kind == "pypi" else pin.kind
    return f"{pin.tree}-{kind}-{pin.digest.partition(':')[2][:12]}"


def _names_of(labels: set[str], entries: dict[str, Pin | None], cache: Path) -> list[str]:
    known = {name: {name, pin.label if pin else name} for name, pin in entries.items()}
    unknown = sorted(labels - set().union(*known.values()))
    if unknown:
        candidates = sorted(set().union(*known.values()))
        near = get_close_matches(unknown[0], candidates, n=3, cutoff=0.0)
        raise UsageError(
            f"not in the cache: {', '.join(unknown)}",
            where=str(cache),
            hint=f"the nearest that are: {', '.join(near)}" if near else "the cache is empty",
            code="source.unknown-cache-entry",
        )
    return [name for name, names in known.items() if names & labels]


def _remove_tree(folder: Path) -> int:
    if not folder.exists():
        return 0
    size = disk_size(folder)
    try:
        shutil.rmtree(folder)
    except OSError as error:
        raise _not_removed(folder, error) from error
    return size


def _not_removed(folder: Path, error: OSError) -> CacheError:
    return CacheError(
        f"it cannot be removed: {error}",
        where=str(folder),
        hint="correct its permissions, or wait for other vpatch processes and run it again",
    )
