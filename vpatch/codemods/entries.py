"""The entries of a list, tuple, set or dict in a row, with the space between its brackets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.fill import CannotRewrite
from vpatch.codemods.layout import LayoutLine, split_above
from vpatch.codemods.lines import together
from vpatch.codemods.nodes import Field, Space, canonical, code_of

if TYPE_CHECKING:
    from collections.abc import Sequence


LITERALS = (cst.List, cst.Tuple, cst.Set, cst.Dict)
_NO_SPACE = cst.SimpleWhitespace("")
_DEFAULT = cst.MaybeSentinel.DEFAULT


class EntryLine(LayoutLine):
    """The entries of a literal.

    libcst keeps what is behind the last one at the closing bracket. Here the last one always has a
    comma that holds it, so that entries are like arguments.
    """

    def __init__(self, node: cst.BaseExpression) -> None:
        self._node = node
        self._before: Sequence[cst.CSTNode] = node.elements  # type: ignore[attr-defined]
        opening, closing = _spaces(node)
        super().__init__(self._before, opening)
        self._closing = closing
        self._ends_with_comma = False
        if self._before:
            comma = self._before[-1].comma
            self._ends_with_comma = isinstance(comma, cst.Comma) and not self._is_single
            comma = comma if isinstance(comma, cst.Comma) else cst.Comma()
            self.elements[-1] = _with_comma(self._before[-1], comma, closing)

    @property
    def _is_single(self) -> bool:
        """Whether the comma at the end only says that this is a tuple."""
        on_one_line = isinstance(self._closing, cst.SimpleWhitespace)
        return isinstance(self._node, cst.Tuple) and len(self._before) == 1 and on_one_line

    def replace(self, element: cst.CSTNode, new: cst.CSTNode) -> None:
        comma = self.elements[self._index(element)].comma  # type: ignore[attr-defined]
        super().replace(element, new.with_changes(comma=comma))

    def remove(self, element: cst.CSTNode) -> None:
        index = self._index(element)
        space = self.elements[index].comma.whitespace_after  # type: ignore[attr-defined]
        if len(self.elements) == 1:
            self._closing = space
        elif not index and isinstance(space, cst.ParenthesizedWhitespace):
            # The comments above the next entry stay above it.
            opening = self._opening
            if isinstance(opening, cst.ParenthesizedWhitespace):
                lines = together(opening.empty_lines, space.empty_lines, first=True)
                self._opening = opening.with_changes(empty_lines=lines)
            elif space.empty_lines:
                self._opening = space.with_changes(first_line=cst.TrailingWhitespace())
        super().remove(element)

    def insert(
        self, new: cst.CSTNode, behind: cst.CSTNode | None, before: cst.CSTNode | None
    ) -> None:
        is_only = not self.elements
        super().insert(new, behind, before)
        if is_only:
            self.elements = [_with_comma(new, cst.Comma(), self._closing)]
        elif self._known[0] is new and isinstance(self._opening, cst.ParenthesizedWhitespace):
            upper, lower = split_above(self._opening.empty_lines)
            self._opening = self._opening.with_changes(empty_lines=upper)
            comma = self.elements[0].comma  # type: ignore[attr-defined]
            space = comma.whitespace_after.with_changes(empty_lines=lower)
            self.elements[0] = _with_comma(self.elements[0], comma, space)

    def changes(self) -> dict[str, Field]:
        """The fields of the literal with these entries.

        Raises:
            CannotRewrite: an entry is there twice now.
        """
        _check_repeats(self._node, self._before, self.elements)
        elements, closing = list(self.elements), self._closing
        if elements:
            comma = elements[-1].comma  # type: ignore[attr-defined]
            closing = comma.whitespace_after
            elements[-1] = (
                _with_comma(elements[-1], comma, _NO_SPACE)
                if self._ends_with_comma
                else elements[-1].with_changes(comma=_DEFAULT)
            )
        return {"elements": elements, **_brackets(self._node, self._opening, closing)}


def _with_comma(entry: cst.CSTNode, comma: cst.Comma, space: Space) -> cst.CSTNode:
    return entry.with_changes(comma=comma.with_changes(whitespace_after=space))


def _spaces(node: cst.BaseExpression) -> tuple[Space, Space]:
    """What is behind the opening bracket of a literal, and in front of the closing one."""
    match node:
        case cst.List():
            return node.lbracket.whitespace_after, node.rbracket.whitespace_before
        case cst.Set() | cst.Dict():
            return node.lbrace.whitespace_after, node.rbrace.whitespace_before
        case cst.Tuple(lpar=[*_, start], rpar=[end, *_]):
            return start.whitespace_after, end.whitespace_before
    return _NO_SPACE, _NO_SPACE


def _brackets(node: cst.BaseExpression, opening: Space, closing: Space) -> dict[str, Field]:
    match node:
        case cst.List():
            return {
                "lbracket": node.lbracket.with_changes(whitespace_after=opening),
                "rbracket": node.rbracket.with_changes(whitespace_before=closing),
            }
        case cst.Set() | cst.Dict():
            return {
                "lbrace": node.lbrace.with_changes(whitespace_after=opening),
                "rbrace": node.rbrace.with_changes(whitespace_before=closing),
            }
        case cst.Tuple(lpar=[*outer, start], rpar=[end, *others]):
            return {
                "lpar": [*outer, start.with_changes(whitespace_after=opening)],
                "rpar": [end.with_changes(whitespace_before=closing), *others],
            }
    return {}


def _check_repeats(
    node: cst.BaseExpression, before: Sequence[cst.CSTNode], after: Sequence[cst.CSTNode]
) -> None:
    """Check that no entry gets into a literal twice.

    Numbers and other values of a list or a tuple may be there twice, as in a shape.
    """
    counts = [Counter(filter(None, (_known_by(node, e) for e in each))) for each in (before, after)]
    for name, number in counts[1].items():
        if number > max(1, counts[0][name]):
            raise CannotRewrite(f"the entry {name[:60]} is there at another place already")


def _known_by(node: cst.BaseExpression, entry: cst.CSTNode) -> str | None:
    """What tells an entry from the others; None where the same may be there twice."""
    match entry:
        case cst.DictElement(key=key):
            return canonical(code_of(key))
        case cst.Element(value=value) if isinstance(node, cst.Set) or isinstance(
            value, cst.SimpleString
        ):
            return canonical(code_of(value))
    return None
