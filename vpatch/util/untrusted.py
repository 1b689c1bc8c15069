"""Files and answers that somebody else wrote, read within limits.

Whoever wrote them may have meant harm: a pipe that never ends, a file that fills the memory, JSON
that is nested without end. Here each of these is an OSError or a ValueError, as any damage is.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

MEGABYTE = 1_000_000
# Of a source tree: the largest of vLLM's has 2 MB.
LARGEST_FILE = 256 * MEGABYTE
# Of all files of a source tree, unpacked: those of vLLM have 100 MB.
LARGEST_TREE = 4000 * MEGABYTE
# Of a patch's folder: the largest of the library's has 20 kB.
LARGEST_BESIDE = 64 * MEGABYTE
# A tree's deepest path has a dozen folders, and what it is stored below is added to its length.
_DEEPEST = 100
_LONGEST = 1000
_LONGEST_NAME = 255
_SHOWN = 60
# Also what ends a line or turns the direction of writing around.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
# What git refuses on every system, as it is .git itself on some: NTFS has short names and passes
# over dots and blanks at the end, and HFS+ over characters without a width.
_GIT = re.compile(
    "[{0}]*\\.[{0}]*g[{0}]*i[{0}]*t[{0}]*[. ]*(:.*)?|git~1[. ]*(:.*)?".format(
        "\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff"
    ),
    re.IGNORECASE,
)


def read_file(path: Path, limit: int) -> bytes:
    """Read a regular file of at most `limit` bytes.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    with _open_regular(path) as file:
        # One byte more tells: the size that the system gives may be none, or change.
        text = file.read(limit + 1)
    if len(text) > limit:
        raise _too_large(path, limit)
    return text


def digest_of_file(path: Path, limit: int) -> str:
    """Return the digest of a regular file of at most `limit` bytes: `sha256:HEX`.

    Raises:
        OSError: it cannot be read, is not a regular file, or is larger.
    """
    digest, size = hashlib.sha256(), 0
    with _open_regular(path) as file:
        if os.fstat(file.fileno()).st_size > limit:
            raise _too_large(path, limit)
        while block := file.read(MEGABYTE):
            digest.update(block)
            size += len(block)
            if size > limit:
                raise _too_large(path, limit)
    return f"sha256:{digest.hexdigest()}"


def _open_regular(path: Path) -> BinaryIO:
    """Open a regular file. Others are not opened: a device may act, a pipe waits for a writer."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 - `path` may be a text
    except ValueError as error:  # of a name with NUL, or with half of a surrogate pair
        raise OSError(errno.EINVAL, str(error), str(path)) from error
    _require_regular(path, mode)
    # It may be another one by now.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(path, os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return open(descriptor, "rb")  # noqa: PTH123 - of a descriptor


def _require_regular(path: Path, mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "is not a regular file", str(path))


def _too_large(path: Path, limit: int) -> OSError:
    return OSError(errno.EFBIG, f"is larger than {limit} bytes", str(path))


def is_path(text: str) -> bool:
    """Whether a file or folder can be called so on this system, be it there or not."""
    try:
        os.stat(text)  # noqa: PTH116 - Path hides what is asked for
    except ValueError:
        return False
    except OSError as error:
        return error.errno != errno.ENAMETOOLONG
    return True


def plain_path(path: str) -> str:
    """Return a path below a folder as it is.

    Raises:
        ValueError: it leads elsewhere, or no file can have this name.
    """
    parts = path.split("/")
    if any(part in {"", ".", ".."} for part in parts):
        raise ValueError(f"{path!r} is not a path below the tree's folder")
    if _CONTROL.search(path):
        raise ValueError(f"{path!r} has control characters in it")
    if len(parts) > _DEEPEST or len(os.fsencode(path)) > _LONGEST:
        raise ValueError(f"{path[:_SHOWN]!r}... is too long for a path, or too deep")
    if any(len(os.fsencode(part)) > _LONGEST_NAME for part in parts):
        raise ValueError(f"{path[:_SHOWN]!r}... has a name that is too long")
    # Some systems take a backslash for a slash.
    if any(_GIT.fullmatch(part) for part in path.replace("\\", "/").split("/")):
        raise ValueError(f"{path!r} has a name that git refuses: some systems take it for .git")
    return path


def parse_json(text: bytes | str) -> Any:
    """Parse JSON.

    Raises:
        ValueError: it is not JSON, has a number of thousands of digits, or is nested too deeply.
    """
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
