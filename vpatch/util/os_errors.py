"""Errors of the operating system as errors of the machine, or of the path that the user named."""

from __future__ import annotations

import errno

from vpatch.errors import UnavailableError, UsageError, VpatchError

# Disks, permissions and limits. Another machine, or the same one later, may not have them.
_OF_THE_MACHINE = frozenset({
    errno.EACCES, errno.EDQUOT, errno.EIO, errno.ELOOP, errno.EMFILE, errno.ENAMETOOLONG,
    errno.ENFILE, errno.ENOSPC, errno.EPERM, errno.EROFS, errno.ESTALE,
})  # fmt: skip


def machine_error(error: OSError) -> UnavailableError | None:
    """Return an error as one of the machine; None if no disk, permission or limit caused it."""
    if error.errno not in _OF_THE_MACHINE:
        return None
    found = UnavailableError(
        str(error.strerror),
        where=None if error.filename is None else str(error.filename),
        hint="correct that file or folder, or its disk, then run the command again",
        code="util.os-error",
    )
    found.__cause__ = error
    return found


def cannot_write(what: str, error: OSError, *, where: str, hint: str) -> VpatchError:
    """Return what to raise where something cannot be written to a path that the user named.

    Args:
        what: what cannot be written, such as "the log".
        error: what the operating system said.
        where: the path.
        hint: what to do next.

    Returns:
        An `UnavailableError` if the machine is to blame, or else a `UsageError`: there is no such
        folder, or a file has its name.
    """
    message = f"{what} cannot be written: {error.strerror or error}"
    if error.errno in _OF_THE_MACHINE:
        return UnavailableError(message, where=where, hint=hint, code="util.cannot-write")
    return UsageError(message, where=where, hint=hint, code="util.bad-path")
