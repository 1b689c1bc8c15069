"""Put one folder in another's place, so that there is no moment without a whole one."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2
# What file systems and kernels answer that cannot exchange two names.
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP})


def replace_dir(new: Path, target: Path, aside: Path) -> None:
    """Rename `new` to `target`; what was at `target` is then at `aside`, if there was anything.

    Where the system can exchange two names (Linux, renameat2(2)), `target` is at every moment
    either all of the old or all of the new. Elsewhere there are two renames, and a kill between
    them leaves the old folder at `aside`, from where `restore` fetches it back.
    """
    if not target.exists():
        new.rename(target)
    elif _exchange(new, target):
        try:
            new.rename(aside)
        except BaseException:
            _exchange(new, target)
            raise
    else:
        try:
            target.rename(aside)
            new.rename(target)
        except BaseException:
            if not target.exists():
                aside.rename(target)
            raise


def restore(target: Path, aside: Path) -> None:
    """Undo what a killed process left half done: the old folder goes back, or away."""
    if not aside.exists():
        return
    if target.exists():
        remove(aside)
    else:
        aside.rename(target)


def remove(folder: Path) -> None:
    """Remove a folder, read-only ones below it included; what cannot go stays.

    Of a link, only the link goes.
    """
    if folder.is_symlink():
        folder.unlink()
        return
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for parent, folders, _ in os.walk(folder):
            for path in (parent, *(f"{parent}/{name}" for name in folders)):
                if not os.path.islink(path):  # noqa: PTH114
                    with suppress(OSError):
                        os.chmod(path, stat.S_IRWXU)  # noqa: PTH101
        shutil.rmtree(folder, ignore_errors=True)


def _exchange(first: Path, second: Path) -> bool:
    if not sys.platform.startswith("linux"):
        return False
    # A checkout that is new takes nothing's place.
    import ctypes  # noqa: PLC0415

    libc = ctypes.CDLL(None, use_errno=True)
    renameat2 = getattr(libc, "renameat2", None)
    if renameat2 is None:
        return False
    names = os.fsencode(first), os.fsencode(second)
    if renameat2(_AT_FDCWD, names[0], _AT_FDCWD, names[1], _RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), str(second))
