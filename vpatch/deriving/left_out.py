"""A file without the bodies of functions that a difference is not in, which are put back later."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.deriving.source_code import Function, SourceCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vpatch.deriving.source_code import Statement

_MARK = "__vpatch_body_{}__"
_MARK_LINE = re.compile(rb"[ \t]*__vpatch_body_(\d+)__\n")


@dataclass(frozen=True)
class WithoutBodies:
    """The text of a file with a mark in place of some bodies. `bodies` are these, by number."""

    text: bytes
    bodies: tuple[bytes, ...] = ()

    def restored(self, edited: bytes) -> bytes:
        """Put the bodies back into what became of the text."""
        return _MARK_LINE.sub(lambda mark: self.bodies[int(mark[1])], edited)


def without_bodies(content: bytes, scope: Sequence[str]) -> WithoutBodies:
    """Leave out the bodies of all functions but that of a scope; none of what is not Python."""
    if b"__vpatch_body_" in content:
        return WithoutBodies(content)
    try:
        source = SourceCode(content)
    except (SyntaxError, ValueError, RecursionError):
        return WithoutBodies(content)
    parts: list[str] = []
    bodies: list[bytes] = []
    line = 0
    for statement in outermost_functions(source.block.statements):
        path = statement.parts[0].body.scope
        if path == tuple(scope[: len(path)]):
            continue
        body = statement.parts[0].body
        indent = " " * body.statements[0].node.col_offset
        parts += [*source.lines[line : body.first], f"{indent}{_MARK.format(len(bodies))}\n"]
        bodies.append(source.lines_of(body.first, statement.end).encode())
        line = statement.end
    return WithoutBodies("".join([*parts, *source.lines[line:]]).encode(), tuple(bodies))


def outermost_functions(statements: Iterable[Statement]) -> Iterator[Statement]:
    """The functions of some statements that have lines of their own, and are in no other one."""
    for statement in statements:
        if isinstance(statement.node, Function):
            if statement.parts:
                yield statement
        else:
            for part in statement.parts:
                yield from outermost_functions(part.body.statements)
