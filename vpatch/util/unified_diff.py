"""A unified diff of two contents of a file, in bytes."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


def unified_diff(path: str, before: bytes | None, after: bytes) -> Iterator[bytes]:
    """Yield the lines; none if nothing changed. A file without `before` is new."""
    name = path.encode()
    old = b"/dev/null" if before is None else b"a/" + name
    lines = (_lines(before or b""), _lines(after))
    for line in difflib.diff_bytes(difflib.unified_diff, *lines, old, b"b/" + name):
        yield line if line.endswith(b"\n") else line + b"\n\\ No newline at end of file\n"


def _lines(content: bytes) -> list[bytes]:
    """The lines as git sees them: only LF ends one."""
    lines = content.split(b"\n")
    return [line + b"\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
