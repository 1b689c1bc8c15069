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
    journal_of,
    journal_text,
    recover,
    refuse_unwritable,
)
from vpatch.commands.install.layout import LOCK, OtherFilesError, patches_of
from vpatch.commands.install.unlike_record import unlike_record
from vpatch.commands.install.way_back import CACHE, folders_of_new, way_back
from vpatch.commands.install.wheels.names import is_patched
from vpatch.engine.distributions import RECORD
from vpatch.errors import UnavailableError, UsageError, VpatchError
from vpatch.image.mode import is_laid_over
from vpatch.source.wheel.record import (
    RecordRow,
    WheelRecordError,
    parse_record,
    record_text,
    row_of,
)
from vpatch.util.digest import digest_of
from vpatch.util.files import replace_file
from vpatch.util.os_errors import path_or_machine_error
from vpatch.util.plural import shortened
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

    vllm: InstalledVllm
    lock: LockFile

    @property
    def folder(self) -> Path:
        return self.vllm.info / KEPT

    @property
    def files(self) -> list[LockedFile]:
        return [file for file in self.lock.files if is_laid_over(file.path)]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    @cached_property
    def originals(self) -> dict[str, Path]:
        """The files and the bytecode that were kept, by their paths below the packages."""
        places = (path for path in self.folder.rglob("*") if path.is_file())
        originals = {path.relative_to(self.folder).as_posix(): path for path in places}
        return {path: place for path, place in originals.items() if path not in {RECORD, JOURNAL}}


def earlier_install(vllm: InstalledVllm) -> Earlier | None:
    """Return what `vpatch install` left in an environment; None if it did not run there.

    Raises:
        LockError: its lock is damaged.
    """
    if not (vllm.info / KEPT).is_dir() or not (vllm.info / LOCK).is_file():
        return None
    return Earlier(vllm, read_lock(vllm.info / LOCK))


@contextmanager
def changing(vllm: InstalledVllm) -> Iterator[None]:
    """Have an environment alone, with what a killed command left finished first.

    Raises:
        UnwritableEnvironmentError: it cannot be written.
    """
    try:
        with alone(vllm.info):
            recover(vllm.site, vllm.info)
            yield
    except ValueError as error:
        raise VpatchError(
            f"the journal of an interrupted command is damaged: {error}",
            where=str(vllm.info),
            hint=_again(vllm),
            code="wheel.damaged-journal",
        ) from error
    except OSError as error:
        if error.errno in _IN_THE_WAY:
            raise OtherFilesError(
                f"something else is in the place of a file or a folder: {error.strerror}",
                where=str(error.filename2 or error.filename or vllm.site),
                hint=f"move it away and run the command again, or: {_again(vllm)}",
            ) from error
        if path_or_machine_error(error) is None:
            raise
        where = f": {error.filename}" if error.filename else ""
        raise UnwritableEnvironmentError(
            f"the environment cannot be written: {error.strerror}{where}",
            where=str(vllm.site),
            hint="free space or correct the permissions, and run the command again",
        ) from error


def install(vllm: InstalledVllm, laid: LaidOver) -> Outcome:
    """Lay the patched files over an installed vLLM; those of an earlier install go.

    Call it in `changing`, with an environment that was looked at there.

    Raises:
        UsageError: it has another release, or a wheel of vpatch.
        VpatchError: a file is not that of the release, or is not in RECORD.
        OSError: it cannot be written; then nothing has changed.
    """
    if vllm.release != laid.release:
        raise UsageError(
            f"it has vLLM {vllm.version}, and the patches are for {laid.release}",
            where=str(vllm.site),
            hint=f"give --vllm {vllm.release}, or install vLLM {laid.release} there",
            code="wheel.wrong-release",
        )
    refuse_taken_apart(vllm)
    earlier = earlier_install(vllm)
    if earlier is not None and earlier.lock == laid.lock:
        return "unchanged"
    _refuse_other_files(vllm, laid, earlier)
    with journal_of(vllm.site, vllm.info) as journal:
        _prepare(journal, vllm, laid, earlier)
    return "installed" if earlier is None else "replaced"


def refuse_taken_apart(vllm: InstalledVllm) -> None:
    """Refuse a vLLM whose files from before an install cannot be told.

    Raises:
        UsageError: it is from a wheel of vpatch.
        VpatchError: files were changed since an install, or a part of it is missing.
    """
    earlier = earlier_install(vllm)
    if earlier is None:
        _refuse_remains(vllm)
    else:
        _refuse_changed(earlier)


def uninstall(vllm: InstalledVllm) -> Earlier:
    """Put the files back that `install` replaced, and return what it had left there.

    Call it in `changing`, with an environment that was looked at there.

    Raises:
        UsageError: nothing is installed there.
        VpatchError: a file was changed since.
        OSError: it cannot be written; then nothing has changed.
    """
    earlier = earlier_install(vllm)
    if earlier is None:
        _refuse_remains(vllm, uninstalling=True)
        raise UsageError(
            "vpatch install did not run there",
            where=str(vllm.site),
            hint="name another Python with --python",
            code="wheel.not-installed",
        )
    _refuse_changed(earlier)
    steps = way_back(vllm.info.name, earlier.paths, earlier.originals, _rows_before(vllm, earlier))
    refuse_unwritable(vllm.site, vllm.info, steps)
    prepared = earlier.folder / JOURNAL
    text = journal_text(steps)
    # Its own install wrote the same: on a full disk, nothing can be written now.
    if not prepared.is_file() or read_file(prepared, LARGEST_FILE) != text.encode():
        replace_file(prepared, text)
    # Python makes it again of its source.
    for compiled in (one for path in earlier.paths for one in bytecode_at(vllm.site, path)):
        (vllm.site / compiled).unlink(missing_ok=True)
    try:
        begin(vllm.site, vllm.info, earlier.folder, steps)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        # It lies in a layer below, as in an image: Linux renames files there, and no folders.
        _restore_copies(earlier, steps)
    return earlier


def _restore_copies(earlier: Earlier, steps: Sequence[Step]) -> None:
    """Do the same with copies of what was kept, which need space."""
    with journal_of(earlier.vllm.site, earlier.vllm.info) as journal:
        for step in steps:
            if "put" in step:
                journal.put_link(step["put"], earlier.folder / step["from"])
            else:
                journal.add(step)
        _forget(journal, earlier, keep=set())


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
    files = sorted((file.parent / CACHE).glob(f"{file.stem}.*.pyc"))
    files += [beside for beside in [file.with_suffix(".pyc")] if beside.exists()]
    return [one.relative_to(site).as_posix() for one in files if not one.is_dir()]


def _refuse_remains(vllm: InstalledVllm, *, uninstalling: bool = False) -> None:
    """Refuse a wheel of vpatch's, and what is left of an install that somebody took apart."""
    if is_patched(vllm.version) and (vllm.info / LOCK).exists():
        raise UsageError(
            "its vLLM is from a wheel that vpatch made",
            where=str(vllm.site),
            hint=_again(vllm),
            code="wheel.not-installed" if uninstalling else "wheel.has-a-wheel",
        )
    wanted = {LOCK: Path.is_file, KEPT: Path.is_dir}
    if any(os.path.lexists(vllm.info / name) for name in wanted):
        missing = [name for name, is_there in wanted.items() if not is_there(vllm.info / name)]
        raise OtherFilesError(
            f"vpatch install ran there, and {' and '.join(missing)} is missing",
            where=str(vllm.info),
            hint=f"put it back, or: {_again(vllm)}",
        )


def _refuse_changed(earlier: Earlier) -> None:
    """Refuse files that are not as the install left them."""
    clear_parts(earlier.folder)
    problems = unlike_record(earlier.vllm, earlier.folder, earlier.files)
    for file in earlier.files:
        if digest_at(earlier.vllm.site / file.path) != file.after:
            by = ", ".join(patches_of(earlier.lock, [file.path]))
            problems.append(f"{file.path}: was changed ({by})")
        elif file.before is not None and digest_at(earlier.folder / file.path) != file.before:
            problems.append(f"{file.path}: the copy from before the install was changed")
    if problems:
        lines = "".join(f"\n    {line}" for line in shortened(problems, _SHOWN))
        raise OtherFilesError(
            f"files were changed since vpatch install ran:{lines}",
            where=str(earlier.vllm.site),
            hint=f"keep your changes elsewhere, then: {_again(earlier.vllm)}",
        )


def _refuse_other_files(vllm: InstalledVllm, laid: LaidOver, earlier: Earlier | None) -> None:
    before = [] if earlier is None else earlier.paths
    places = {p: (vllm.info / KEPT if p in before else vllm.site) / p for p in laid.changes}
    digests = {path: digest_at(place) for path, place in places.items()}
    hint = f"leave out --vllm and --recipe to patch the files that are there, or: {_again(vllm)}"
    laid.refuse_others(digests, str(vllm.site), hint)
    rows = _rows_before(vllm, earlier)
    unlisted = [p for p, change in laid.changes.items() if change.before and p not in rows]
    if unlisted:
        raise WheelRecordError(
            f"RECORD does not list {', '.join(unlisted[:_SHOWN])}",
            where=str(vllm.info),
            hint=_again(vllm),
        )


def _rows_before(vllm: InstalledVllm, earlier: Earlier | None) -> Mapping[str, RecordRow]:
    """RECORD as it was before vpatch changed it."""
    if earlier is None:
        return vllm.rows
    record = earlier.folder / RECORD
    return parse_record(read_file(record, LARGEST_FILE), str(record))


def _prepare(
    journal: Journal, vllm: InstalledVllm, laid: LaidOver, earlier: Earlier | None
) -> None:
    """Add the steps of an install. What is kept comes first, and RECORD and the lock last."""
    originals = {
        p: change.before for p, change in laid.changes.items() if change.before is not None
    }
    before = set() if earlier is None else {*earlier.paths}
    compiled: dict[str, None] = {}
    for path in laid.changes:
        if earlier is not None and path in before:
            of_module = [one for one in earlier.originals if _is_bytecode_of(one, path)]
        else:
            of_module = bytecode_at(vllm.site, path)
            for one in [path, *of_module] if path in originals else of_module:
                journal.put_link(_inside(vllm, f"{KEPT}/{one}"), vllm.site / one)
        compiled.update(dict.fromkeys(of_module))
    if earlier is None:
        journal.put_link(_inside(vllm, f"{KEPT}/{RECORD}"), vllm.info / RECORD)
    for path, change in laid.changes.items():
        journal.put(path, change.after)
        for one in bytecode_at(vllm.site, path):
            journal.remove(one)
    if earlier is not None:
        _restore(journal, earlier, sorted(before - laid.changes.keys()))
        _forget(journal, earlier, keep={*originals, *compiled, RECORD, JOURNAL})
    for name, text in laid.notes.items():
        journal.put(_inside(vllm, name), text)
    rows = dict(_rows_before(vllm, earlier))
    back = way_back(vllm.info.name, [*laid.changes], [*originals, *compiled], rows)
    journal.put(_inside(vllm, f"{KEPT}/{JOURNAL}"), journal_text(back).encode())
    record = read_file((earlier.folder if earlier else vllm.info) / RECORD, LARGEST_FILE)
    copies = {**originals, RECORD: record}
    journal.put(_inside(vllm, RECORD), _record(vllm, laid, rows, copies, [*compiled]))


def _record(
    vllm: InstalledVllm,
    laid: LaidOver,
    rows: dict[str, RecordRow],
    copies: Mapping[str, bytes],
    compiled: Sequence[str],
) -> bytes:
    """RECORD with the patched files, and with what vpatch puts beside the metadata."""
    own = rows.pop(_inside(vllm, RECORD), RecordRow(_inside(vllm, RECORD), "", ""))
    new = {path: change.after for path, change in laid.changes.items()}
    new |= {_inside(vllm, path): text for path, text in laid.notes.items()}
    new |= {_inside(vllm, f"{KEPT}/{path}"): text for path, text in copies.items()}
    rows |= {path: row_of(path, digest_of(text), len(text)) for path, text in new.items()}
    for path in [JOURNAL, *compiled]:
        name = _inside(vllm, f"{KEPT}/{path}")
        rows[name] = RecordRow(name, "", "")
    return record_text([*rows.values(), own])


def _restore(journal: Journal, earlier: Earlier, paths: Sequence[str]) -> None:
    """Add the steps that put files back as they were before the install, with their bytecode."""
    for path in paths:
        for one in bytecode_at(earlier.vllm.site, path):
            journal.remove(one)
        for one, place in earlier.originals.items():
            if one == path or _is_bytecode_of(one, path):
                journal.put_link(one, place)
        if path not in earlier.originals:
            journal.remove(path)
    rows = _rows_before(earlier.vllm, earlier)
    for folder in folders_of_new(paths, earlier.originals, rows):
        journal.remove_folder(folder)


def _forget(journal: Journal, earlier: Earlier, keep: set[str]) -> None:
    """Add the steps that remove what was kept, except some of it."""
    gone = [path for path in [*earlier.originals, RECORD, JOURNAL] if path not in keep]
    for path in gone:
        journal.remove(_inside(earlier.vllm, f"{KEPT}/{path}"))
    folders = {str(one) for path in gone for one in PurePosixPath(KEPT, path).parents} - {"."}
    for folder in sorted(folders, key=len, reverse=True):
        journal.remove_folder(_inside(earlier.vllm, folder))


def _is_bytecode_of(compiled: str, path: str) -> bool:
    file, module = PurePosixPath(compiled), PurePosixPath(path)
    in_cache = file.parent == module.parent / CACHE and file.name.startswith(f"{module.stem}.")
    return file.suffix == ".pyc" and (in_cache or file == module.with_suffix(".pyc"))


def _inside(vllm: InstalledVllm, name: str) -> str:
    return f"{vllm.info.name}/{name}"


def _again(vllm: InstalledVllm) -> str:
    wanted = f"{vllm.distribution}=={vllm.release}"
    return f"{vllm.python} -m pip install --force-reinstall --no-deps {wanted}"
