"""What one difference makes of a file, and what of the file is enough to reject an edit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vpatch.deriving.left_out import outermost_functions

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vpatch.deriving.differences import CodeDifference
    from vpatch.deriving.source_code import SourceCode


@dataclass(frozen=True)
class Passage:
    """The bytes of a file before and after one difference, and after the last one."""

    now: bytes
    wanted: bytes
    final: bytes


@dataclass(frozen=True)
class DifferenceInFile:
    """One difference of a file in which all differences above are made already."""

    before: SourceCode
    after: SourceCode
    difference: CodeDifference

    @cached_property
    def passage(self) -> Passage:
        start, end = self.difference.before
        top, bottom = self.difference.after
        above, new = self.after.lines[:top], self.after.lines[top:bottom]
        return Passage(
            _joined(above, self.before.lines[start:]),
            _joined(above, new, self.before.lines[end:]),
            self.after.content,
        )

    @cached_property
    def window(self) -> Passage:
        """The passage with `...` in place of the bodies of functions that the difference is not in.

        libcst's time grows with the size of a file. An edit of this difference that does not fit
        here does not fit in the whole file. What fits here may still not fit there.
        """
        start, end = self.difference.before
        top, bottom = self.difference.after
        # A function that ends here may be the one that lost its last statements.
        above = list(_without_bodies(self.after, 0, top - 1))
        above += self.after.lines[max(0, top - 1) : top]
        old, new = self.before.lines[start:end], self.after.lines[top:bottom]
        below = list(_without_bodies(self.before, end, len(self.before.lines)))
        rest = _without_bodies(self.after, bottom, len(self.after.lines))
        return Passage(
            _joined(above, old, below), _joined(above, new, below), _joined(above, new, rest)
        )


def _joined(*parts: Iterable[str]) -> bytes:
    return "".join(line for part in parts for line in part).encode()


def _without_bodies(source: SourceCode, first: int, last: int) -> Iterator[str]:
    """Some lines of a file; of functions that lie in these, the headers and `...`."""
    line, last = first, max(first, last)
    for statement in outermost_functions(source.block.statements):
        if statement.top < first or statement.end > last:
            continue
        body = statement.parts[0].body
        yield from source.lines[line : body.first]
        yield f"{' ' * body.statements[0].node.col_offset}...\n"
        line = statement.end
    yield from source.lines[line:last]
