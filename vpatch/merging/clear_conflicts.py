"""The clear ones of git's conflicts in a file are solved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.merging.fine_merge import merge_region
from vpatch.merging.markers import MARKERS
from vpatch.merging.syntax import parses

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS, _BASE, _THEIRS, _BETWEEN = MARKERS


@dataclass
class _Conflict:
    """The lines of a conflict with its markers, and those of each side."""

    lines: list[bytes] = field(default_factory=list)
    sides: tuple[list[bytes], list[bytes], list[bytes]] = field(
        default_factory=lambda: ([], [], [])
    )

    def solved(self) -> bytes | None:
        texts = [b"".join(side).decode(errors="surrogateescape") for side in self.sides]
        merged = merge_region(*texts)
        return None if merged is None else merged.encode(errors="surrogateescape")


def with_clear_conflicts(content: bytes, *, python: bool) -> bytes:
    """The file without the conflicts that are clear; all stay if Python cannot read the rest."""
    parts = list(_parts(content.splitlines(keepends=True)))
    solved = [part if isinstance(part, bytes) else part.solved() for part in parts]
    pieces = [
        one if one is not None else b"".join(part.lines) if isinstance(part, _Conflict) else b""
        for part, one in zip(parts, solved, strict=True)
    ]
    text = b"".join(pieces)
    return content if python and None not in solved and not parses(text) else text


def _parts(lines: list[bytes]) -> Iterator[bytes | _Conflict]:
    conflict: _Conflict | None = None
    side = 0
    for line in lines:
        if conflict is None:
            if not line.startswith(_OURS):
                yield line
                continue
            conflict, side = _Conflict(), 0
            conflict.lines.append(line)
            continue
        conflict.lines.append(line)
        if line.startswith(_THEIRS):
            yield conflict
            conflict = None
        elif line.startswith(_BASE):
            side = 1
        elif line == _BETWEEN:
            side = 2
        else:
            conflict.sides[side].append(line)
    if conflict is not None:
        yield b"".join(conflict.lines)
