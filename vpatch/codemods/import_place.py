"""Put an import where isort and ruff have it, laid out as they do it."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.import_order import Node, module_of, name_order, order_of, root_of, section_of
from vpatch.codemods.nodes import DEFINITIONS, Space, behind_docstring, code_of
from vpatch.codemods.reduced import is_mark
from vpatch.codemods.wrapping import WIDTH

if TYPE_CHECKING:
    from collections.abc import Sequence

_BLANK = cst.EmptyLine(indent=False)
_NEW_LINE = cst.ParenthesizedWhitespace(indent=True)
_INDENTED = _NEW_LINE.with_changes(last_line=cst.SimpleWhitespace("    "))
_Lines = list[cst.SimpleStatementLine | cst.BaseCompoundStatement]


def with_import(module: cst.Module, node: Node) -> cst.Module:
    """The module with an import of one name: in one that is there, or in a line of its own."""
    body = list(module.body)
    for index, statement in enumerate(body):
        there = _import_in(statement)
        if isinstance(there, cst.ImportFrom) and _takes(there, node):
            longer = _longer(there, cast("Sequence[cst.ImportAlias]", node.names)[0])
            body[index] = statement.with_changes(body=[longer])
            return module.with_changes(body=body)
    return module.with_changes(body=_with_line(body, node))


def _import_in(statement: cst.CSTNode) -> Node | None:
    match statement:
        case cst.SimpleStatementLine(body=[cst.Import() | cst.ImportFrom() as node]):
            return node
    return None


# --- a name more in an import ------------------------------------------------------------------


def _takes(there: cst.ImportFrom, node: Node) -> bool:
    """Whether an import may have the name of another one as well; one with `as` has its own."""
    if not isinstance(node, cst.ImportFrom):
        return False
    if isinstance(there.names, cst.ImportStar) or isinstance(node.names, cst.ImportStar):
        return False
    has_alias = any(each.asname is not None for each in (*there.names, *node.names))
    return not has_alias and _from(there) == _from(node)


def _from(node: cst.ImportFrom) -> tuple[int, str]:
    return len(node.relative), module_of(node)


def _longer(there: cst.ImportFrom, alias: cst.ImportAlias) -> cst.ImportFrom:
    names = list(cast("Sequence[cst.ImportAlias]", there.names))
    keys = [name_order(each) for each in names]
    index = next((i for i, key in enumerate(keys) if key > name_order(alias)), len(names))
    opening = there.lpar.whitespace_after if there.lpar else None
    if not isinstance(opening, cst.ParenthesizedWhitespace):
        names.insert(index, alias)
        longer = there.with_changes(names=names, lpar=None, rpar=None)
        return cast("cst.ImportFrom", _lay_out(longer))
    return _with_name(there, names, index, alias)


def _with_name(
    there: cst.ImportFrom, names: list[cst.ImportAlias], index: int, alias: cst.ImportAlias
) -> cst.ImportFrom:
    """Insert a name among others that have a line each. The comments of those stay with them."""
    lpar, rpar = cast("cst.LeftParen", there.lpar), cast("cst.RightParen", there.rpar)
    if index < len(names):
        space = names[index - 1].comma.whitespace_after if index else lpar.whitespace_after  # type: ignore[union-attr]
        above, own = _split(space)
        names.insert(index, alias.with_changes(comma=cst.Comma(whitespace_after=own)))
        if index:
            names[index - 1] = _with_space(names[index - 1], above)
        else:
            lpar = lpar.with_changes(whitespace_after=above)
        return there.with_changes(names=names, lpar=lpar)
    last = names[-1]
    between, closing = _split_line(
        last.comma.whitespace_after
        if isinstance(last.comma, cst.Comma)
        and isinstance(last.comma.whitespace_after, cst.ParenthesizedWhitespace)
        else rpar.whitespace_before
    )
    names[-1] = _with_space(last, between)
    names.append(alias.with_changes(comma=cst.Comma()))
    return there.with_changes(names=names, rpar=rpar.with_changes(whitespace_before=closing))


def _with_space(alias: cst.ImportAlias, space: Space) -> cst.ImportAlias:
    comma = alias.comma if isinstance(alias.comma, cst.Comma) else cst.Comma()
    return alias.with_changes(comma=comma.with_changes(whitespace_after=space))


def _split(space: Space) -> tuple[Space, Space]:
    """What is above a new name, and what is between it and the next one, with its comments."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return space, _INDENTED
    return space.with_changes(empty_lines=[]), space.with_changes(
        first_line=cst.TrailingWhitespace()
    )


def _split_line(space: Space) -> tuple[Space, Space]:
    """What is between the former last name and a new one, and what is behind that."""
    if not isinstance(space, cst.ParenthesizedWhitespace):
        return _INDENTED, _NEW_LINE
    return space.with_changes(
        indent=True, last_line=cst.SimpleWhitespace("    ")
    ), space.with_changes(first_line=cst.TrailingWhitespace(), empty_lines=[])


def _lay_out(node: Node) -> Node:
    """An import on one line, or with a line for each name where that is too long."""
    if isinstance(node, cst.Import):
        return node
    names = list(cast("Sequence[cst.ImportAlias]", node.names))
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
    inner = [each.with_changes(comma=comma) for each in names[:-1]]
    last = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    line = node.with_changes(names=[*inner, last])
    if len(code_of(line)) <= WIDTH:
        return line
    comma = cst.Comma(whitespace_after=_INDENTED)
    inner = [each.with_changes(comma=comma) for each in names[:-1]]
    return node.with_changes(
        names=[*inner, names[-1].with_changes(comma=cst.Comma())],
        lpar=cst.LeftParen(whitespace_after=_INDENTED),
        rpar=cst.RightParen(whitespace_before=_NEW_LINE),
    )


# --- a line of its own -------------------------------------------------------------------------


def _with_line(body: _Lines, node: Node) -> _Lines:
    line = cst.SimpleStatementLine([_lay_out(node)])
    groups = _groups(body)
    if not groups:
        start = behind_docstring(body)
        above = [_BLANK] * start
        rest = _set_apart(body[start:])
        return [*body[:start], line.with_changes(leading_lines=above), *rest]
    group = _group_for(node, groups, body)
    if group is not None:
        orders = [(i, order_of(cast("Node", _import_in(body[i])))) for i in group]
        index = next((i for i, order in orders if order > order_of(node)), group[-1] + 1)
        if index != group[0]:
            return [*body[:index], line, *body[index:]]
        blank, first = _without_blank(body[index])
        # A comment between imports has a blank line above.
        apart = [_BLANK] if first.leading_lines else []
        below = first.with_changes(leading_lines=[*apart, *first.leading_lines])
        return [*body[:index], line.with_changes(leading_lines=blank), below, *body[index + 1 :]]
    later = [g[0] for g in groups if _section(body[g[0]]) > section_of(node)]
    if later:
        index = later[0]
        blank, first = _without_blank(body[index])
        below = first.with_changes(leading_lines=[_BLANK, *first.leading_lines])
        return [*body[:index], line.with_changes(leading_lines=blank), below, *body[index + 1 :]]
    index = groups[-1][-1] + 1
    own = line.with_changes(leading_lines=[_BLANK])
    return [*body[:index], own, *_set_apart(body[index:])]


def _groups(body: _Lines) -> list[list[int]]:
    """The first imports of a module that follow each other, in groups with blank lines between.

    A blank line above a comment does not end a group.
    """
    groups: list[list[int]] = []
    for index, statement in enumerate(body):
        if _import_in(statement) is None:
            if groups:
                break
            continue
        is_new = not groups or _section(statement) != _section(body[groups[-1][-1]])
        blank, bare = _without_blank(statement)
        if not groups or (blank and (is_new or not bare.leading_lines)):
            groups.append([])
        groups[-1].append(index)
    return groups


def _group_for(node: Node, groups: list[list[int]], body: _Lines) -> list[int] | None:
    """The group with imports of the same package, else the one of the same section."""
    for tells in (root_of, section_of):
        for group in groups:
            imports = (cast("Node", _import_in(body[index])) for index in group)
            if any(tells(each) == tells(node) for each in imports):
                return group
    return None


def _section(statement: cst.CSTNode) -> int:
    return section_of(cast("Node", _import_in(statement)))


def _without_blank(
    statement: cst.SimpleStatementLine | cst.BaseCompoundStatement,
) -> tuple[list[cst.EmptyLine], cst.SimpleStatementLine | cst.BaseCompoundStatement]:
    """The blank lines above a statement, and it with what is below these."""
    lines = list(statement.leading_lines)
    blank = list(itertools.takewhile(lambda line: line.comment is None, lines))
    return blank, statement.with_changes(leading_lines=lines[len(blank) :])


def _set_apart(rest: _Lines) -> _Lines:
    """What is below imports, with blank lines above: two above a definition, else one."""
    if not rest:
        return rest
    blank, first = _without_blank(rest[0])
    wanted = 1 + (isinstance(first, DEFINITIONS) or is_mark(first))
    more = [_BLANK] * (wanted - len(blank))
    lines = [*more, *blank, *first.leading_lines]
    return [first.with_changes(leading_lines=lines), *rest[1:]]
