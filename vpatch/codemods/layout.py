"""Put arguments, parameters, entries and statements among others, laid out as those are."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar, cast

import libcst as cst

from vpatch.codemods.lines import together
from vpatch.codemods.nodes import with_others

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.nodes import Field, Space

_Item = TypeVar("_Item", cst.Arg, cst.Param)
_ITEMS = (
    cst.Arg,
    cst.Param,
    cst.BaseElement,
    cst.BaseDictElement,
)


def opening_of(node: cst.CSTNode, parent: cst.CSTNode | None) -> Space:
    """What follows the bracket that opens a call's arguments or a def's parameters."""
    if isinstance(node, cst.Call):
        return node.whitespace_before_args
    if isinstance(parent, cst.FunctionDef):
        return parent.whitespace_before_params
    return cst.SimpleWhitespace("")


class LayoutLine:
    """Elements in a row, which are replaced, removed and inserted, each known by what it was."""

    def __init__(self, elements: Sequence[cst.CSTNode], opening: Space) -> None:
        self.elements = list(elements)
        self._known = list(elements)
        self._opening = opening

    @property
    def first(self) -> cst.CSTNode | None:
        return self._known[0] if self._known else None

    @property
    def first_keyword(self) -> cst.CSTNode | None:
        """The first argument that no argument without a keyword may come behind."""
        pairs = zip(self._known, self.elements, strict=True)
        args = ((known, each) for known, each in pairs if isinstance(each, cst.Arg))
        return next((known for known, arg in args if arg.keyword or arg.star == "**"), None)

    def _index(self, element: cst.CSTNode) -> int:
        return next(i for i, known in enumerate(self._known) if known is element)

    def replace(self, element: cst.CSTNode, new: cst.CSTNode) -> None:
        """Put another element in its place, with the comma that it has."""
        index = self._index(element)
        before = self.elements[index]
        if isinstance(new, (cst.Arg, cst.Param)) and isinstance(before, (cst.Arg, cst.Param)):
            space = {_after(new): getattr(before, _after(before))}
            new = new.with_changes(comma=before.comma, **space)
        self.elements[index] = new

    def has(self, element: cst.CSTNode) -> bool:
        return any(known is element for known in self._known)

    def remove(self, element: cst.CSTNode) -> None:
        index = self._index(element)
        if isinstance(element, _ITEMS):
            self.elements = list(remove_at(cast("list[cst.Arg]", self.elements), index))
        else:
            del self.elements[index]
        del self._known[index]

    def arrange(self, elements: Sequence[cst.CSTNode]) -> None:
        """Put some elements in another order, at the places that they have together.

        The layout stays, and a comment behind a comma moves with what is in front of it.
        """
        places = sorted(map(self._index, elements))
        moved = [self.elements[self._index(element)] for element in elements]
        old = [self.elements[place] for place in places]
        for place, element, new, before in zip(places, elements, moved, old, strict=True):
            self._known[place] = element
            self.elements[place] = _lay_out_as(before, new) if isinstance(new, _ITEMS) else new

    def insert(
        self, new: cst.CSTNode, behind: cst.CSTNode | None, before: cst.CSTNode | None
    ) -> None:
        """Insert behind an element, else before one, else at the end."""
        index = len(self.elements)
        if behind is not None:
            index = self._index(behind) + 1
        elif before is not None:
            index = self._index(before)
        if isinstance(new, _ITEMS):
            items = cast("list[cst.Arg]", self.elements)
            bare = cast("cst.Arg", new.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            is_below = behind is not None
            self.elements = list(insert_at(items, index, bare, self._opening, is_below=is_below))
        else:
            self.elements.insert(index, new)
        self._known.insert(index, new)


def append(items: Sequence[_Item], new: _Item, opening: Space) -> list[_Item]:
    """Append to the arguments of a call or the parameters of a def, laid out as the others are.

    `opening` is what follows the opening parenthesis. Comments stay where they are.
    """
    if not items:
        return [new]
    ending: dict[str, Field]
    last = items[-1]
    after = _after(last)
    between = _bare(opening)
    if len(items) > 1 and isinstance(items[-2].comma, cst.Comma):
        between = _bare(items[-2].comma.whitespace_after)
    elif isinstance(between, cst.SimpleWhitespace):
        between = cst.SimpleWhitespace(" ")
    if isinstance(last.comma, cst.Comma):
        closing = last.comma.whitespace_after
        ending = {"comma": cst.Comma(whitespace_after=_bare(closing))}
        previous = last.with_changes(
            comma=last.comma.with_changes(whitespace_after=_indent_as(closing, between))
        )
    else:
        closing = getattr(last, after)
        ending = {_after(new): _bare(closing)}
        previous = last.with_changes(
            **{after: cst.SimpleWhitespace("")},
            comma=cst.Comma(whitespace_after=_indent_as(closing, between)),
        )
    longer = list(items)
    longer[-1:] = [previous, _indent_by(new, between).with_changes(**ending)]
    return longer


def insert_at(
    items: Sequence[_Item], index: int, new: _Item, opening: Space, *, is_below: bool = False
) -> list[_Item]:
    """Insert among the arguments of a call or the parameters of a def, laid out as they are.

    Comments above the next item stay above it. With `is_below`, blank lines do, too.
    """
    if index == len(items):
        return append(items, new, opening)
    longer = list(items)
    between = space = _bare(opening)
    comma = items[index - 1].comma if index else None
    if isinstance(comma, cst.Comma):
        between = space = _bare(comma.whitespace_after)
        if isinstance(comma.whitespace_after, cst.ParenthesizedWhitespace):
            lines = comma.whitespace_after.empty_lines
            upper, lower = ([], lines) if is_below else split_above(lines)
            stays = comma.whitespace_after.with_changes(empty_lines=upper)
            longer[index - 1] = longer[index - 1].with_changes(
                comma=comma.with_changes(whitespace_after=stays)
            )
            space = space.with_changes(empty_lines=lower)
    elif isinstance(between, cst.SimpleWhitespace):
        between = space = cst.SimpleWhitespace(" ")
    own = _indent_by(new, between).with_changes(comma=cst.Comma(whitespace_after=space))
    longer.insert(index, own)
    return longer


def split_above(
    lines: Sequence[cst.EmptyLine],
) -> tuple[list[cst.EmptyLine], list[cst.EmptyLine]]:
    """The lines above an item: those up to the last blank line, and the comments below that."""
    above = list(lines)
    comments: list[cst.EmptyLine] = []
    while above and above[-1].comment is not None:
        comments.insert(0, above.pop())
    return above, comments


def remove_at(items: Sequence[_Item], index: int) -> list[_Item]:
    """Remove an argument or parameter; what follows the last one stays."""
    rest = list(items)
    del rest[index]
    if not rest or not index:
        return rest
    after, last, previous = _after(items[index]), items[index], rest[index - 1]
    comma = last.comma
    space: Space | None = None
    if isinstance(comma, cst.Comma) and isinstance(previous.comma, cst.Comma):
        space = _join(previous.comma.whitespace_after, comma.whitespace_after)
    if index == len(rest):
        if isinstance(comma, cst.Comma) and space is not None:
            # The comment behind the comma before is about what stays.
            space = _indent_as(space, comma.whitespace_after)
            comma = comma.with_changes(whitespace_after=space)
        ending: dict[str, Field] = {"comma": comma}
        if hasattr(last, after):
            ending[_after(previous)] = getattr(last, after)
        rest[-1] = previous.with_changes(**ending)
    elif isinstance(previous.comma, cst.Comma) and space is not None:
        between = previous.comma.with_changes(whitespace_after=space)
        rest[index - 1] = previous.with_changes(comma=between)
    return rest


def _join(before: Space, behind: Space) -> Space:
    """What is between two items once the one between them is gone."""
    if not isinstance(behind, cst.ParenthesizedWhitespace):
        return before
    if not isinstance(before, cst.ParenthesizedWhitespace):
        return behind
    lines = together(before.empty_lines, behind.empty_lines, first=False)
    return before.with_changes(empty_lines=lines)


def _lay_out_as(before: cst.CSTNode, new: cst.CSTNode) -> cst.CSTNode:
    """An item with the comma, line break and indentation of the one that was at its place."""
    own, there = (
        item.comma.whitespace_after  # type: ignore[attr-defined]
        if isinstance(item.comma, cst.Comma)  # type: ignore[attr-defined]
        else getattr(item, _after(item), cst.SimpleWhitespace(""))
        for item in (new, before)
    )
    space = _indent_as(own, _bare(there))
    ends = not isinstance(before.comma, cst.Comma)  # type: ignore[attr-defined]
    changes: dict[str, Field] = {
        "comma": cst.MaybeSentinel.DEFAULT if ends else cst.Comma(whitespace_after=space),
        _after(new): space if ends else cst.SimpleWhitespace(""),
    }
    return new.with_changes(**{name: v for name, v in changes.items() if hasattr(new, name)})


def _after(item: cst.CSTNode) -> str:
    """The field that holds the white space behind an item without a comma."""
    # An entry has no such field.
    return "whitespace_after_arg" if isinstance(item, cst.Arg) else "whitespace_after_param"


def _indent_by(new: _Item, between: Space) -> _Item:
    """The new item with its own further lines moved as far to the right as it is itself."""
    if not isinstance(between, cst.ParenthesizedWhitespace):
        return new
    indent = between.last_line.value

    def indented(node: cst.CSTNode) -> cst.CSTNode | None:
        if not isinstance(node, cst.ParenthesizedWhitespace):
            return None
        return node.with_changes(last_line=cst.SimpleWhitespace(indent + node.last_line.value))

    return with_others(new, indented)


def _bare(space: Space) -> Space:
    """The same line break and indentation, without comments and empty lines."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space
    first = space.first_line.with_changes(whitespace=cst.SimpleWhitespace(""), comment=None)
    return space.with_changes(first_line=first, empty_lines=[])


def _indent_as(closing: Space, between: Space) -> Space:
    """What separates the former last item from the new one, its comments included."""
    if not isinstance(closing, cst.ParenthesizedWhitespace):
        return between
    if not isinstance(between, cst.ParenthesizedWhitespace):
        has_comment = closing.first_line.comment or any(e.comment for e in closing.empty_lines)
        return closing if has_comment else between
    return closing.with_changes(indent=between.indent, last_line=between.last_line)
