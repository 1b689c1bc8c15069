"""What somebody changed of an install besides the patched files: RECORD, folders, kept files."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from vpatch.commands.install.layout import LOCK, NOTICE
from vpatch.engine.distributions import RECORD
from vpatch.source.wheel.record import parse_record
from vpatch.util.digest import digest_of
from vpatch.util.untrusted import LARGEST_FILE, read_file

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from pathlib import Path

    from vpatch.checkout.lockfile import LockedFile
    from vpatch.commands.install.environment import InstalledVllm


def unlike_record(vllm: InstalledVllm, copies: Path, files: Sequence[LockedFile]) -> list[str]:
    """Say what is not as RECORD has it since the install.

    Args:
        vllm: the distribution.
        copies: the folder of the files from before the install.
        files: those that the install replaced or made, by its lock.

    Raises:
        WheelRecordError: the RECORD from before the install is damaged.
        OSError: something cannot be read.
    """
    paths = {file.path for file in files}
    return [*_links(vllm, copies, paths), *_copies(vllm, copies), *_record(vllm, copies, files)]


def _links(vllm: InstalledVllm, copies: Path, paths: Collection[str]) -> Iterator[str]:
    """Folders that are links: files would be put elsewhere, or come from elsewhere."""
    folders = {vllm.site / one for path in paths for one in PurePosixPath(path).parents}
    for folder in sorted({copies, *folders} - {vllm.site}):
        if folder.is_symlink():
            yield f"{folder.relative_to(vllm.site).as_posix()}: is a link"


def _copies(vllm: InstalledVllm, copies: Path) -> Iterator[str]:
    """Everything in the folder of kept files comes back: it must be what the install kept."""
    for place in sorted(copies.rglob("*")):
        path = place.relative_to(vllm.site).as_posix()
        if place.is_dir() and not place.is_symlink():
            continue
        if path not in vllm.rows:
            yield f"{path}: vpatch install did not put it there"
        elif place.is_symlink() or not place.is_file():
            yield f"{path}: is no file any more"


def _record(vllm: InstalledVllm, copies: Path, files: Sequence[LockedFile]) -> Iterator[str]:
    """What somebody wrote into RECORD since would be lost."""
    info = vllm.info.name
    copy = f"{info}/{copies.name}/{RECORD}"
    if not (vllm.site / copy).is_file():
        yield f"{copy}: the copy from before the install is missing"
        return
    text = read_file(vllm.site / copy, LARGEST_FILE)
    row = vllm.rows.get(copy)
    if row is None or row.sha256 != digest_of(text):
        yield f"{copy}: the copy from before the install was changed"
        return
    before = parse_record(text, copy)
    for file in files:
        if file.before is None and file.path in before:
            yield f"{info}/{LOCK}: was changed, at {file.path}"
    own = {*(file.path for file in files), *(f"{info}/{name}" for name in (RECORD, LOCK, NOTICE))}
    others = {
        path
        for path in before.keys() | vllm.rows.keys()
        if path not in own and not path.startswith(f"{info}/{copies.name}/")
    }
    changed = sorted(path for path in others if before.get(path) != vllm.rows.get(path))
    if changed:
        yield f"{info}/{RECORD}: was changed, at {changed[0]}"
