"""Patched files in an environment, in the place of those of its vLLM; and the way back.

The files as they were are kept beside the metadata, with their bytecode and RECORD. They
are links to the very files, so that the way back restores their times and modes too.
"""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Literal

from vpatch.checkout.lockfile import LockFile, read_lock
from vpatch.commands.install.journal import (
    JOURNAL,
    Journal,
    alone,
    begin,
    journal_text,
    recover,
    refuse_unwritable,
)
from vpatch.commands.install.layout import LOCK, OtherFilesError, patches_of
from vpatch.commands.install.unlike_record import unlike_record
from vpatch.commands.install.way_back import CACHE, folders_of_new, way_back
from vpatch.commands.install.wheels.names import is_patched
from vpatch.commands.install.wheels.record import (
    RecordRow,
    WheelRecordError,
    parse_record,
    record_text,
    row_of,
)
from vpatch.engine.distributions import RECORD
from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.image.mode import is_laid_over
from vpatch.util.digest import digest_of
from vpatch.util.files import replace_file
from vpatch.util.os_errors import path_or_machine_error
from vpatch.util.scratch import clear_parts
from vpatch.util.untrusted import LARGEST_FILE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.checkout.lockfile import LockedFile
    from vpatch.commands.install.environment import InstalledVllm
    from vpatch.commands.install.journal import Step
    from vpatch.commands.install.layout import LaidOver

KEPT = "vpatch.pristine"
_SHOWN = 10
# Something else is where a file or a folder should be.
_IN_THE_WAY = frozenset({
    errno.EEXIST, errno.EFBIG, errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENOTDIR,
    errno.ENOTEMPTY,
})  # fmt: skip
Outcome = Literal["installed", "replaced", "unchanged"]


class UnwritableEnvironmentError(UnavailableError):
    """The environment cannot be written: the disk is full, or permissions are missing."""

    code = "wheel.unwritable"


@dataclass(frozen=True)
class Earlier:
    """What an earlier install left in an environment: its lock, and the files as they were."""

    found: InstalledVllm
    lock: LockFile

    @property
    def folder(self) -> Path:
        return self.found.info / KEPT

    @property
    def files(self) -> list[LockedFile]:
        return [file for file in self.lock.files if is_laid_over(file.path)]

    @cached_property
    def kept(self) -> dict[str, Path]:
        """The files and the bytecode that were kept, by their paths below the packages."""
        paths = (path for path in self.folder.rglob("*") if path.is_file())
        found = {path.relative_to(self.folder).as_posix(): path for path in paths}
        return {path: place for path, place in found.items() if path not in {RECORD, JOURNAL}}

    def problems(self) -> list[str]:
        """Say which files are not as the install left them."""
        clear_parts(self.folder)
        lines = unlike_record(self.found, self.folder, self.files)
        for file in self.files:
            if digest_at(self.found.site / file.path) != file.after:
                by = ", ".join(patches_of(self.lock, [file.path]))
                lines.append(f"{file.path}: was changed ({by})")
            elif file.before is not None and digest_at(self.folder / file.path) != file.before:
                lines.append(f"{file.path}: the copy from before the install was changed")
        return lines


def earlier_install(found: InstalledVllm) -> Earlier | None:
    """Return what `vpatch install` left in an environment; None if it did not run there.

    Raises:
        LockError: its lock is damaged.
    """
    if not (found.info / KEPT).is_dir() or not (found.info / LOCK).is_file():
        return None
    return Earlier(found, read_lock(found.info / LOCK))


@contextmanager
def changing(found: InstalledVllm) -> Iterator[None]:
    """Have an environment alone, with what a killed command left finished first.

    Raises:
        UnwritableEnvironmentError: it cannot be written.
    """
    try:
        with alone(found.info):
            recover(found.site, found.info)
            yield
    except ValueError as error:
        raise VpatchError(
            f"the journal of an interrupted command is damaged: {error}",
            where=str(found.info),
            hint=_again(found),
            code="wheel.damaged-journal",
        ) from error
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise OtherFilesError(
                f"something else is in the place of a file or a folder: {error.strerror}",
                where=str(error.filename2 or error.filename or found.site),
                hint=f"move it away and run the command again, or: {_again(found)}",
            ) from error
        if path_or_machine_error(error) is None:
            raise
        where = f": {error.filename}" if error.filename else ""
        raise UnwritableEnvironmentError(
            f"the environment cannot be written: {error.strerror}{where}",
            where=str(found.site),
            hint="free space or correct the permissions, and run the command again",
        ) from error


def install(found: InstalledVllm, laid: LaidOver) -> Outcome:
    """Lay the patched files over an installed vLLM; those of an earlier install go.

    Call it in `changing`, with an environment that was looked at there.

    Raises:
        UsageError: it has another release, or a wheel of vpatch.
        VpatchError: a file is not that of the release, or is not in RECORD.
        OSError: it cannot be written; then nothing has changed.
    """
    if found.release != laid.release:
        raise UsageError(
            f"it has vLLM {found.version}, and the patches are for {laid.release}",
            where=str(found.site),
            hint=f"give --vllm {found.release}, or install vLLM {laid.release} there",
            code="wheel.wrong-release",
        )
    earlier = earlier_install(found)
    if earlier is None:
        _refuse_remains(found)
    if earlier is not None:
        _refuse_changed(earlier)
        if earlier.lock == laid.lock:
            return "unchanged"
    _refuse_other_files(found, laid, earlier)
    journal = Journal(found.site, found.info)
    try:
        _prepare(journal, found, laid, earlier)
        journal.commit()
    finally:
        journal.discard()
    return "installed" if earlier is None else "replaced"


def uninstall(found: InstalledVllm) -> LockFile:
    """Put the files back that `install` replaced, and return the lock that it had laid there.

    Call it in `changing`, with an environment that was looked at there.

    Raises:
        UsageError: nothing is installed there.
        VpatchError: a file was changed since.
        OSError: it cannot be written; then nothing has changed.
    """
    earlier = earlier_install(found)
    if earlier is None:
        _refuse_remains(found, uninstalling=True)
        raise UsageError(
            "vpatch install did not run there",
            where=str(found.site),
            hint="name another Python with --python",
            code="wheel.not-installed",
        )
    _refuse_changed(earlier)
    paths = [file.path for file in earlier.files]
    steps = way_back(found.info.name, paths, earlier.kept, _rows_before(found, earlier))
    refuse_unwritable(found.site, found.info, steps)
    prepared = earlier.folder / JOURNAL
    text = journal_text(steps)
    # Its own install wrote the same: on a full disk, nothing can be written now.
    if not prepared.is_file() or read_file(prepared, LARGEST_FILE) != text.encode():
        replace_file(prepared, text)
    # Python makes it again of its source.
    for compiled in (one for path in paths for one in bytecode_at(found.site, path)):
        (found.site / compiled).unlink(missing_ok=True)
    try:
        begin(found.site, found.info, earlier.folder, steps)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # It lies in a layer below, as in an image: Linux renames files there, and no folders.
        _restore_copies(found, earlier, steps)
    return earlier.lock


def _restore_copies(found: InstalledVllm, earlier: Earlier, steps: Sequence[Step]) -> None:
    """Do the same with copies of what was kept, which need space."""
    journal = Journal(found.site, found.info)
    try:
        for step in steps:
            if "put" in step:
                journal.put_link(step["put"], earlier.folder / step["from"])
            elif "remove" in step:
                journal.remove(step["remove"])
            else:
                journal.remove_folder(step["remove-folder"])
        _forget(journal, found, earlier, keep=set())
        journal.commit()
    finally:
        journal.discard()


def digest_at(path: Path) -> str | None:
    """Return the digest of a file; None if there is none, "" for a folder, a pipe or the like."""
    try:
        return digest_of(read_file(path, LARGEST_FILE))
    except FileNotFoundError:
        return None
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            return ""
        raise


def bytecode_at(site: Path, path: str) -> list[str]:
    """Return the compiled files of a module that are there, of any Python."""
    file = site / path
    found = sorted((file.parent / CACHE).glob(f"{file.stem}.*.pyc"))
    found += [beside for beside in [file.with_suffix(".pyc")] if beside.exists()]
    return [one.relative_to(site).as_posix() for one in found if not one.is_dir()]


def _refuse_remains(found: InstalledVllm, *, uninstalling: bool = False) -> None:
    """Refuse a wheel of vpatch's, and what is left of an install that somebody took apart."""
    if is_patched(found.version) and (found.info / LOCK).exists():
        raise UsageError(
            "its vLLM is from a wheel that vpatch made",
            where=str(found.site),
            hint=_again(found),
            code="wheel.not-installed" if uninstalling else "wheel.has-a-wheel",
        )
    names = (LOCK, KEPT)
    if any(os.path.lexists(found.info / name) for name in names):
        wanted = {LOCK: Path.is_file, KEPT: Path.is_dir}
        missing = [name for name in names if not wanted[name](found.info / name)]
        raise OtherFilesError(
            f"vpatch install ran there, and {' and '.join(missing)} is missing",
            where=str(found.info),
            hint=f"put it back, or: {_again(found)}",
        )


def _refuse_changed(earlier: Earlier) -> None:
    problems = earlier.problems()
    if problems:
        raise OtherFilesError(
            f"files were changed since vpatch install ran:{_lines(problems)}",
            where=str(earlier.found.site),
            hint=f"keep your changes elsewhere, then: {_again(earlier.found)}",
        )


def _refuse_other_files(found: InstalledVllm, laid: LaidOver, earlier: Earlier | None) -> None:
    kept = {} if earlier is None else {file.path for file in earlier.files}
    places = {p: (found.info / KEPT if p in kept else found.site) / p for p in laid.changes}
    digests = {path: digest_at(place) for path, place in places.items()}
    laid.refuse_others(digests, str(found.site), _again(found))
    rows = _rows_before(found, earlier)
    unlisted = [p for p, change in laid.changes.items() if change.before and p not in rows]
    if unlisted:
        raise WheelRecordError(
            f"RECORD does not list {', '.join(unlisted[:_SHOWN])}",
            where=str(found.info),
            hint=_again(found),
        )


def _rows_before(found: InstalledVllm, earlier: Earlier | None) -> Mapping[str, RecordRow]:
    """RECORD as it was before vpatch changed it."""
    if earlier is None:
        return found.rows
    record = earlier.folder / RECORD
    return parse_record(read_file(record, LARGEST_FILE), str(record))


def _prepare(
    journal: Journal, found: InstalledVllm, laid: LaidOver, earlier: Earlier | None
) -> None:
    """Add the steps of an install. What is kept comes first, and RECORD and the lock last."""
    site, kept = found.site, {} if earlier is None else earlier.kept
    before = set() if earlier is None else {file.path for file in earlier.files}
    compiled: dict[str, None] = {}
    for path, change in laid.changes.items():
        of_module = bytecode_at(site, path)
        if path not in before:
            keep = [path, *of_module] if change.before is not None else of_module
            compiled.update(dict.fromkeys(of_module))
            for one in keep:
                journal.put_link(_inside(found, f"{KEPT}/{one}"), site / one)
        else:
            compiled.update(dict.fromkeys(one for one in kept if _is_bytecode_of(one, path)))
    if earlier is None:
        journal.put_link(_inside(found, f"{KEPT}/{RECORD}"), found.info / RECORD)
    for path, change in laid.changes.items():
        journal.put(path, change.after)
        for one in bytecode_at(site, path):
            journal.remove(one)
    originals = [path for path, change in laid.changes.items() if change.before is not None]
    if earlier is not None:
        _restore(journal, found, earlier, sorted(before - laid.changes.keys()))
        _forget(journal, found, earlier, keep={*originals, *compiled, RECORD, JOURNAL})
    for name, text in laid.notes.items():
        journal.put(_inside(found, name), text)
    rows = dict(_rows_before(found, earlier))
    back = way_back(found.info.name, [*laid.changes], [*originals, *compiled], rows)
    journal.put(_inside(found, f"{KEPT}/{JOURNAL}"), journal_text(back).encode())
    record = (found.info if earlier is None else earlier.folder) / RECORD
    journal.put(_inside(found, RECORD), _record(found, laid, rows, [*compiled], record))


def _record(
    found: InstalledVllm,
    laid: LaidOver,
    rows: dict[str, RecordRow],
    compiled: Sequence[str],
    record: Path,
) -> bytes:
    """RECORD with the patched files, and with what vpatch puts beside the metadata."""
    own = rows.pop(_inside(found, RECORD), RecordRow(_inside(found, RECORD), "", ""))
    for path, change in laid.changes.items():
        rows[path] = row_of(path, digest_of(change.after), len(change.after))
    beside = {path: c.before for path, c in laid.changes.items() if c.before is not None}
    beside[RECORD] = read_file(record, LARGEST_FILE)
    for path, text in {
        **laid.notes,
        **{f"{KEPT}/{path}": text for path, text in beside.items()},
    }.items():
        name = _inside(found, path)
        rows[name] = row_of(name, digest_of(text), len(text))
    for path in [JOURNAL, *compiled]:
        name = _inside(found, f"{KEPT}/{path}")
        rows[name] = RecordRow(name, "", "")
    return record_text([*rows.values(), own])


def _restore(
    journal: Journal, found: InstalledVllm, earlier: Earlier, paths: Sequence[str]
) -> None:
    """Add the steps that put files back as they were before the install, with their bytecode."""
    for path in paths:
        for one in bytecode_at(found.site, path):
            journal.remove(one)
        for one in earlier.kept:
            if one == path or _is_bytecode_of(one, path):
                journal.put_link(one, earlier.kept[one])
        if path not in earlier.kept:
            journal.remove(path)
    for folder in folders_of_new(paths, earlier.kept, _rows_before(found, earlier)):
        journal.remove_folder(folder)


def _forget(journal: Journal, found: InstalledVllm, earlier: Earlier, keep: set[str]) -> None:
    """Add the steps that remove what was kept, except some of it."""
    gone = [path for path in [*earlier.kept, RECORD, JOURNAL] if path not in keep]
    for path in gone:
        journal.remove(_inside(found, f"{KEPT}/{path}"))
    folders = {str(one) for path in gone for one in PurePosixPath(KEPT, path).parents} - {"."}
    for folder in sorted(folders, key=len, reverse=True):
        journal.remove_folder(_inside(found, folder))


def _is_bytecode_of(compiled: str, path: str) -> bool:
    file, module = PurePosixPath(compiled), PurePosixPath(path)
    in_cache = file.parent == module.parent / CACHE and file.name.startswith(f"{module.stem}.")
    return file.suffix == ".pyc" and (in_cache or file == module.with_suffix(".pyc"))


def _inside(found: InstalledVllm, name: str) -> str:
    return f"{found.info.name}/{name}"


def _again(found: InstalledVllm) -> str:
    wanted = f"{found.distribution}=={found.release}"
    return f"{found.python} -m pip install --force-reinstall --no-deps {wanted}"


def _lines(lines: Sequence[str]) -> str:
    more = [f"and {len(lines) - _SHOWN} more"] if len(lines) > _SHOWN else []
    return "".join(f"\n    {line}" for line in [*lines[:_SHOWN], *more])
