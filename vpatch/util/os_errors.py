"""Errors of the operating system as errors of the machine, or of a path."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from contextlib import suppress

from vpatch.errors import UnavailableError, UsageError, VpatchError

# Disks, permissions and limits. Another machine, or the same one later, may not have them.
_OF_THE_MACHINE = frozenset({
    errno.EACCES, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EPERM,
    errno.EROFS, errno.ESTALE,
})  # fmt: skip
# A name is too long, a part of the path is a file, or links lead in a circle.
_WRONG_PATH = frozenset({errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR})


_NUMBER = re.compile(r"\[Errno (\d+)\]")
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_LITTLE = 1 << 20


def _full_places() -> str | None:
    """The folders that vpatch writes to and that are full: a disk does not say its name."""
    places = {"the temporary folder": tempfile.gettempdir(), "the current folder": "."}
    full = []
    for name, place in places.items():
        with suppress(OSError):
            disk = os.statvfs(place)
            if disk.f_bavail * disk.f_frsize < _LITTLE:
                full.append(f"{name} ({os.path.abspath(place)})")  # noqa: PTH100 - of "."
    return ", ".join(full) or None


def _is_gone() -> bool:
    try:
        os.getcwd()  # noqa: PTH109 - as Path does
    except FileNotFoundError:
        return True
    return False


def _of_copy(error: shutil.Error) -> OSError:
    """The first error of a folder that was copied: Python keeps its text alone."""
    parts = error.args[0]
    match = None if isinstance(parts, str) else _NUMBER.match(parts[0][2])
    if match is None:
        return error
    return OSError(int(match[1]), os.strerror(int(match[1])), str(parts[0][1]))


def is_wrong_path(error: OSError) -> bool:
    """Whether no machine can have a file at that path, so that a retry does not help."""
    return error.errno in _WRONG_PATH


def path_or_machine_error(error: OSError) -> VpatchError | None:
    """Return an error as one of a path or of the machine; None if neither of them caused it."""
    if isinstance(error, shutil.Error):
        error = _of_copy(error)
    where = None if error.filename is None else str(error.filename)
    ours: VpatchError
    if is_wrong_path(error):
        hint = f"correct the path {where}" if where else "correct the paths that you named"
        ours = UsageError(str(error.strerror), where=where, hint=hint, code="util.bad-path")
    elif error.errno in _OF_THE_MACHINE:
        if where is None and error.errno in _FULL:
            where = _full_places()
        hint = "correct that file or folder, or its disk, then run the command again"
        ours = UnavailableError(str(error.strerror), where=where, hint=hint, code="util.os-error")
    elif error.errno == errno.ENOENT and where is None and _is_gone():
        hint = "change to a folder that exists"
        ours = UsageError("the current folder was removed", hint=hint, code="util.bad-path")
    else:
        return None
    ours.__cause__ = error
    return ours


def cannot_write(what: str, error: OSError, *, where: str, hint: str) -> VpatchError:
    """Return what to raise where something cannot be written to a path that the user named.

    Args:
        what: what cannot be written, such as "the log".
        error: what the operating system said.
        where: the path.
        hint: what to do next.

    Returns:
        An `UnavailableError` if the machine is to blame, or else a `UsageError`: there is no such
        folder, a file has its name, or the name is too long.
    """
    message = f"{what} cannot be written: {error.strerror or error}"
    if error.errno in _OF_THE_MACHINE:
        return UnavailableError(message, where=where, hint=hint, code="util.cannot-write")
    return UsageError(message, where=where, hint=hint, code="util.bad-path")
