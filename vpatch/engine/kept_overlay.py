"""Overlays in the cache: a whole package of vllm each, with patched files in it, for PYTHONPATH.

- overlays/NAME/packages/vllm/: the package; this folder of packages comes first on PYTHONPATH
- overlays/NAME/packages/vllm-VERSION.dist-info/: where the installed vLLM has another name
- overlays/NAME/overlay.json: what it is made of; NAME has its digest
- overlays/NAME/kept: somebody has its path in a file of their own, such as a unit file
- staging/NAME/: an overlay in the making, by the holder of its exclusive lock
- locks/NAME: shared by those who use the overlay, exclusive to make or remove it
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.engine.file_state import BYTECODE, files_below
from vpatch.errors import UnavailableError, VpatchError
from vpatch.util.digest import digest_of
from vpatch.util.filelock import note_of_wait, wait_for_lock, wait_to_make

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.progress import Progress
    from vpatch.util.filelock import FileLock

PACKAGE = "vllm"
KEPT = "kept"
_PACKAGES, _MANIFEST = "packages", "overlay.json"
# Compiled, and large: the dynamic linker takes a link as well.
_LINKED = (".so", ".dylib", ".pyd")
_ATTEMPTS = 3


@dataclass(frozen=True)
class Composition:
    """What an overlay is made of.

    Attributes:
        package: the folder of the installed package.
        about: what it is, for people and programs: the release, the patches and their files.
        contents: each file of the package, by its path in it: `sha256:HEX`, or `link` and a path.
        patched: the files that are not those of the installed package, with their bytes.
        beside: files beside the package, by their paths in the folder of packages.
    """

    package: Path
    about: Mapping[str, Any]
    contents: Mapping[str, str]
    patched: Mapping[str, bytes]
    beside: Mapping[str, bytes]

    @property
    def manifest(self) -> str:
        what: dict[str, Any] = {**self.about, "contents": self.contents}
        if self.beside:
            what["beside"] = {path: digest_of(content) for path, content in self.beside.items()}
        return json.dumps(what, indent=1, sort_keys=True)

    @property
    def name(self) -> str:
        digest = hashlib.sha256(self.manifest.encode()).hexdigest()
        return f"overlay-{self.about['vllm']}-{digest[:16]}"


def compose(
    package: Path,
    about: Mapping[str, Any],
    patched: Mapping[str, bytes],
    beside: Mapping[str, bytes],
) -> Composition:
    """Read an installed package. `patched` are the files to replace, by their paths in it."""
    contents = {name: digest_of(content) for name, content in patched.items()}
    for name, path in files_below(package):
        if name not in contents:
            is_linked = name.endswith(_LINKED) or ".so." in name
            contents[name] = f"link {path}" if is_linked else digest_of(Path(path).read_bytes())
    return Composition(package, about, contents, patched, beside)


@dataclass(frozen=True)
class KeptOverlay:
    """An overlay that is complete. `lock` is held until it is released, also over an exec."""

    folder: Path
    lock: FileLock

    @property
    def packages(self) -> Path:
        """What comes first on PYTHONPATH."""
        return packages_of(self.folder)

    def keep(self) -> None:
        """Note that its path is in somebody's file: `vpatch cache clear` must be told its name."""
        # One that is in a read-only image was kept when the image was built.
        if not (self.folder / KEPT).exists():
            (self.folder / KEPT).touch()


def packages_of(folder: Path) -> Path:
    return folder / _PACKAGES


def overlay_folder(cache: Path, name: str) -> Path:
    return cache / "overlays" / name


def is_overlay(entry: str) -> bool:
    """Whether an entry of PYTHONPATH is an overlay, of this cache or of another."""
    place = Path(entry)
    return place.name == _PACKAGES and (place.parent / _MANIFEST).is_file()


def open_overlay(cache: Path, name: str, progress: Progress) -> KeptOverlay | None:
    """Open an overlay that is there; nobody removes it while its lock is held."""
    on_wait = note_of_wait(name, progress)
    lock = wait_for_lock(cache / "locks" / name, exclusive=False, on_wait=on_wait)
    folder = overlay_folder(cache, name)
    if folder.is_dir():
        return KeptOverlay(folder, lock)
    lock.release()
    return None


def make_kept(cache: Path, made_of: Composition, progress: Progress) -> KeptOverlay:
    """Open the overlay of a composition, made where it is not there yet.

    Raises:
        UnavailableError: the cache cannot be written.
        VpatchError: somebody changed the overlay, or the package while it was read.
    """
    try:
        return _opened_or_made(cache, made_of, progress)
    except OSError as error:
        raise UnavailableError(
            f"the overlay cannot be written: {error.strerror}",
            where=str(overlay_folder(cache, made_of.name)),
            hint="free space there or correct its permissions, or name another folder with "
            "VPATCH_CACHE_DIR",
            code="engine.overlay-not-written",
        ) from error


def _opened_or_made(cache: Path, made_of: Composition, progress: Progress) -> KeptOverlay:
    name = made_of.name
    for _ in range(_ATTEMPTS):
        overlay = open_overlay(cache, name, progress)
        if overlay is not None:
            _verify(overlay, made_of)
            return overlay
        folder = overlay_folder(cache, name)
        on_wait = note_of_wait(name, progress)
        lock = wait_to_make(cache / "locks" / name, on_wait=on_wait, exists=folder.is_dir)
        if lock is not None:
            with lock:
                if not folder.is_dir():
                    task = progress.start(f"Laying patches over {made_of.package}")
                    _make(cache, made_of, folder)
                    task.done()
    raise UnavailableError(
        "it was removed as soon as it was made",
        where=str(overlay_folder(cache, name)),
        hint="wait for vpatch cache clear to end, then run the command again",
        code="engine.overlay-removed",
    )


def patched_as_made(folder: Path, patched: Mapping[str, str]) -> bool:
    """Whether the patched files of an overlay, by their paths, have these digests."""
    package = packages_of(folder) / PACKAGE
    try:
        return all(
            digest_of((package / path).read_bytes()) == wanted for path, wanted in patched.items()
        )
    except OSError:
        return False


def _make(cache: Path, made_of: Composition, folder: Path) -> None:
    staging = cache / "staging" / made_of.name
    shutil.rmtree(staging, ignore_errors=True)  # what a killed process left
    package = packages_of(staging) / PACKAGE
    try:
        for name, content in made_of.contents.items():
            target = package / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if name in made_of.patched:
                target.write_bytes(made_of.patched[name])
            elif content.startswith("link "):
                target.symlink_to(content.removeprefix("link "))
            else:
                _copy(made_of.package / name, target, content)
        for name, content_beside in made_of.beside.items():
            target = packages_of(staging) / name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(content_beside)
        (staging / _MANIFEST).write_text(made_of.manifest, encoding="utf-8")
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging.rename(folder)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _copy(source: Path, target: Path, digest: str) -> None:
    """Copy a file with its times, and the bytecode that was made of it."""
    content = source.read_bytes()
    if digest_of(content) != digest:
        raise VpatchError(
            "it changed while it was copied",
            where=str(source),
            hint="run the command again when nothing writes there",
            code="engine.files-changed",
        )
    target.write_bytes(content)
    status = source.stat()
    target.chmod(status.st_mode & 0o777 | 0o200)
    # Python compares the time of a source with that in its bytecode.
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))
    if source.suffix != ".py":
        return
    for compiled in (source.parent / BYTECODE).glob(f"{source.stem}.*.pyc"):
        cached = target.parent / BYTECODE / compiled.name
        cached.parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):  # its Python is writing it anew
            shutil.copyfile(compiled, cached)


def _verify(overlay: KeptOverlay, made_of: Composition) -> None:
    """Refuse an overlay that is not what it was when it was made."""
    there = dict(files_below(overlay.packages))
    contents = {f"{PACKAGE}/{name}": content for name, content in made_of.contents.items()}
    contents |= {name: digest_of(content) for name, content in made_of.beside.items()}
    for name, content in contents.items():
        path = Path(there.pop(name, overlay.packages / name))
        if content.startswith("link "):
            is_same = path.is_symlink() and str(path.readlink()) == content.removeprefix("link ")
        else:
            is_same = path.is_file() and digest_of(path.read_bytes()) == content
        if not is_same:
            break
    else:
        if not there:
            return
        path = Path(min(there.values()))
    overlay.lock.release()
    raise VpatchError(
        "somebody changed this file of an overlay",
        where=str(path),
        hint=f"end what runs with it, then run vpatch cache clear {made_of.name}, and the command "
        "again",
        code="engine.overlay-changed",
    )
