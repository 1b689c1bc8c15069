"""Put new code where a pattern matched, touching no more than what differs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from vpatch.codemods.alike import as_set, is_any_braces
from vpatch.codemods.correspond import has_gap, identical, kept_part, same_operator
from vpatch.codemods.entries import LITERALS, EntryLine
from vpatch.codemods.fill import CannotRewrite, breaks_the_line, fill, fitted, unmarked
from vpatch.codemods.layout import LayoutLine, opening_of
from vpatch.codemods.match import same
from vpatch.codemods.nodes import OPTIONAL, PREFIX, Field, Space, code_of, meaningful_fields
from vpatch.codemods.parameters import (
    from_a_row,
    in_a_row,
    sources_of,
    useless_marks,
    with_default,
    with_sign,
)
from vpatch.codemods.rows import check_said, rewrite_row

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.match import Match

_OPERATIONS = (cst.BinaryOperation, cst.BooleanOperation)
_OPERANDS = frozenset(["expression", "left", "right"])


def rewrite(
    pattern: cst.CSTNode,
    template: cst.CSTNode,
    node: cst.CSTNode,
    match: Match,
    parent: cst.CSTNode | None,
) -> cst.CSTNode:
    """Turn `node`, which `pattern` matched, into `template`, touching only where the two differ.

    What pattern and template have in common keeps its formatting and its comments.

    Raises:
        CannotRewrite: code that `...` matches, or that the pattern leaves out, would be lost.
    """
    if identical(pattern, template):
        return node
    if is_any_braces(pattern) and isinstance(template, cst.Set) and isinstance(node, cst.Set):
        pattern = as_set(pattern)
    rewriting = _Rewriting(pattern, template, node, match, parent)
    kinds = {type(pattern), type(template), type(node)}
    # Another operator binds its operands differently: they may need parentheses.
    if (
        len(kinds) > 1
        or not same_operator(pattern, template)
        or _is_split_otherwise(pattern, node, match)
        or _gets_lines(template, node)
        or _loses_brackets(pattern, template, parent)
    ):
        return rewriting.whole()
    try:
        if isinstance(node, cst.Parameters):
            return _with_changes(node, rewriting.parameters(node))
        return _with_changes(node, rewriting.changes())
    except _DifferTooMuchError:
        return rewriting.whole()


def _is_split_otherwise(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    """Whether strings in a row are the same text as those of a pattern, in other parts."""
    if not isinstance(pattern, cst.ConcatenatedString):
        return False
    sides = ((getattr(pattern, name), getattr(node, name)) for name in ("left", "right"))
    return not all(same(*side, match.copy()) for side in sides)


def _gets_lines(template: cst.CSTNode, node: cst.CSTNode) -> bool:
    """Whether an operation on one line becomes one on several, in brackets of its own."""
    if not isinstance(template, _OPERATIONS) or not isinstance(node, _OPERATIONS):
        return False
    return bool(template.lpar) and "\n" in code_of(template) and "\n" not in code_of(node)


def _loses_brackets(
    pattern: cst.CSTNode, template: cst.CSTNode, parent: cst.CSTNode | None
) -> bool:
    """Whether an operand of an operation has brackets that the new code does not have."""
    if not isinstance(template, _OPERATIONS) or not isinstance(parent, _OPERATIONS):
        return False
    return not template.lpar and bool(getattr(pattern, "lpar", ()))


class _DifferTooMuchError(Exception):
    """A pattern and new code do not line up, so that the new code has to be put there whole."""


@dataclass(frozen=True)
class _Rewriting:
    """How `node`, which `pattern` matched, becomes `template`. `parent` is what has it."""

    pattern: cst.CSTNode
    template: cst.CSTNode
    node: cst.CSTNode
    match: Match
    parent: cst.CSTNode | None

    def _part(self, pattern: cst.CSTNode, template: cst.CSTNode, node: cst.CSTNode) -> cst.CSTNode:
        return rewrite(pattern, template, node, self.match, self.node)

    def changes(self) -> dict[str, Field]:
        """The fields of a node in which a pattern and new code of its kind differ.

        Raises:
            _DifferTooMuchError: the differences are not in parts of the two.
        """
        pattern, template, node = self.pattern, self.template, self.node
        changes: dict[str, Field] = {}
        for name in meaningful_fields(type(pattern)):
            old, new, current = (getattr(n, name) for n in (pattern, template, node))
            if identical(old, new) or (isinstance(node, cst.Param) and name == "star"):
                continue
            is_none = new is None or new is cst.MaybeSentinel.DEFAULT
            if name in OPTIONAL.get(type(pattern), ()) and (not old or is_none):
                changes[name] = self._optional(old, new, current)
            elif isinstance(node, LITERALS) and name == "elements" and has_gap(old):
                entries = EntryLine(node)
                self._row(old, new, entries)
                changes |= entries.changes()
            elif isinstance(node, LITERALS) and name == "elements" and len(old) != len(new):
                raise _DifferTooMuchError  # without a gap, the layout is that of the new code
            elif isinstance(old, (list, tuple)):
                changes[name] = self._row(old, new, LayoutLine(current, self._opening))
            elif isinstance(old, cst.CSTNode) and isinstance(new, cst.CSTNode):
                changes[name] = self._part(old, new, current)
            elif isinstance(node, (cst.Param, cst.ExceptHandler)):
                changes |= self._header(node, name, new)
            else:
                raise _DifferTooMuchError
        if isinstance(node, cst.Param):
            changes |= with_sign(node, cast("cst.Param", template), changes)
        return changes

    def _header(
        self, node: cst.Param | cst.ExceptHandler, name: str, new: cst.CSTNode | None
    ) -> dict[str, Field]:
        """What changes with a default, or with what a handler catches, where one side has none."""
        if isinstance(node, cst.Param) and name == "default":
            value = None if new is None else fill(unmarked(new), self.match, node)
            default = cast("cst.BaseExpression | None", value)
            return with_default(node, cast("cst.Param", self.template), default)
        if isinstance(node, cst.ExceptHandler) and name in ("type", "name"):
            part = None if new is None else fill(unmarked(new), self.match)
            space = {"whitespace_after_except": cst.SimpleWhitespace(" " if part else "")}
            return {name: part, **(space if name == "type" else {})}
        raise _DifferTooMuchError

    @property
    def _opening(self) -> Space:
        return opening_of(self.node, self.parent)

    def _optional(self, old: Any, new: Any, current: Any) -> Any:
        """A field that the pattern or the new code leaves out."""
        if old:
            check_said(old, current, self.match)
            return new
        if current:
            raise _DifferTooMuchError
        if isinstance(new, (list, tuple)):
            return [fill(unmarked(item), self.match) for item in new]
        return fill(unmarked(new), self.match)

    def _row(
        self,
        old: Sequence[cst.CSTNode],
        new: Sequence[cst.CSTNode],
        line: LayoutLine,
        sources: Sequence[cst.CSTNode | None] | None = None,
    ) -> list[cst.CSTNode]:
        row = rewrite_row(old, new, line, self.match, self._part, sources=sources)
        if row is None:
            raise _DifferTooMuchError
        return row

    def parameters(self, node: cst.Parameters) -> dict[str, Field]:
        sides = (self.pattern, self.template)
        old, new = (in_a_row(cast("cst.Parameters", each)) for each in sides)
        row = in_a_row(node)
        sources = sources_of(old, row, self.match.paired)
        items = self._row(old, new, LayoutLine(row, self._opening), sources)
        line = LayoutLine(items, self._opening)
        for useless in useless_marks(cast("list[cst.Param]", items)):
            line.remove(useless)
        return from_a_row(cast("list[cst.Param]", line.elements))

    def whole(self) -> cst.CSTNode:
        """The whole of `template` in place of `node`.

        Raises:
            CannotRewrite: code that `...` matches, or that the pattern leaves out, would be lost.
        """
        pattern, template, node = self.pattern, self.template, self.node
        if isinstance(node, cst.AnnAssign) and isinstance(pattern, cst.Assign):
            return self._with_annotation(pattern, node)
        bindings = self.match.bindings
        pair = kept_part(pattern, template)
        if pair is not None:
            old, part = pair
            whole = node if old is pattern else cast("cst.Return", node).value or node
            inner = self._part(old, part, whole)
            if old is pattern:
                inner = inner.with_changes(lpar=(), rpar=())  # the whole of it gets them
            # No metavariable has an empty name.
            template = template.deep_replace(part, cst.Name(PREFIX))
            bindings = {**bindings, "": inner}
        elif not same_operator(pattern, template) and has_gap(pattern):
            return self._with_operator()
        elif has_gap(pattern, template):
            raise CannotRewrite(
                f"the pattern and the new code differ too much to keep what ... matches in "
                f"{' '.join(code_of(node).split())[:60]}"
            )
        else:
            check_said(pattern, node, self.match)
        is_elif = isinstance(self.parent, cst.If) and isinstance(node, cst.If)
        if is_elif and not isinstance(template, (cst.If, cst.Else)):
            raise CannotRewrite(f"an elif can become nothing but another elif: {code_of(template)}")
        new = fill(unmarked(template), replace(self.match, bindings=bindings), self.parent)
        if isinstance(new, _OPERATIONS) and new.lpar:
            bare = new.with_changes(lpar=(), rpar=())
            new = bare if self._continues_operation(bare) else new
        if isinstance(node, cst.BaseExpression) and isinstance(new, cst.BaseExpression):
            return self._in_brackets(node, new)
        if isinstance(node, cst.BaseCompoundStatement) and isinstance(
            new, cst.BaseCompoundStatement
        ):
            comments = [line for line in new.leading_lines if line.comment]
            return new.with_changes(leading_lines=[*node.leading_lines, *comments])
        return new

    def _in_brackets(self, node: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
        """New code in the brackets of the old; not where the pattern alone has them, too."""
        loses = getattr(self.pattern, "lpar", ()) and self._continues_operation(new)
        return new.with_changes(lpar=node.lpar, rpar=node.rpar) if node.lpar and not loses else new

    def _continues_operation(self, new: cst.BaseExpression) -> bool:
        """Whether new code needs no brackets as the left operand of its own operator.

        So it is in `a or b or c`, if brackets around all of it allow its line breaks.
        """
        template, parent = self.template, self.parent
        return (
            isinstance(template, _OPERATIONS)
            and isinstance(parent, _OPERATIONS)
            and not template.lpar
            and type(template) is type(parent)
            and same_operator(template, parent)
            and parent.left is self.node
            and (bool(parent.lpar) or not breaks_the_line(new) or breaks_the_line(parent))
        )

    def _with_annotation(self, pattern: cst.Assign, node: cst.AnnAssign) -> cst.CSTNode:
        """Rewrite `x: T = v` by a pattern without annotation, and keep the annotation."""
        template = self.template
        if not isinstance(template, cst.Assign) or len(template.targets) != 1 or node.value is None:
            raise CannotRewrite(f"the new code would drop the annotation of {code_of(node)[:60]}")
        old, new = pattern.targets[0].target, template.targets[0].target
        changes: dict[str, Field] = {
            "target": self._part(old, new, node.target),
            "value": self._part(pattern.value, template.value, node.value),
        }
        return _with_changes(node, changes)

    def _with_operator(self) -> cst.CSTNode:
        """Rewrite the operands of an operation, and take the operator of `template`."""
        kind = type(self.node)
        changes: dict[str, Field] = {"operator": getattr(self.template, "operator")}  # noqa: B009 - several types have it
        for name in _OPERANDS.intersection(meaningful_fields(kind)):
            sides = (getattr(n, name) for n in (self.pattern, self.template, self.node))
            changes[name] = fitted(self._part(*sides), kind)
        parent = type(self.parent) if self.parent else cst.CSTNode
        return fitted(_with_changes(self.node, changes), parent)


def _with_changes(node: cst.CSTNode, changes: dict[str, Field]) -> cst.CSTNode:
    if isinstance(node, cst.ClassDef) and (node.bases or node.keywords):
        args = [changes.get(name, getattr(node, name)) for name in ("bases", "keywords")]
        if not any(args):
            # Without what was in them, the brackets go too.
            changes |= {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
    if isinstance(node, cst.Call) and not changes.get("args", node.args):
        # Without arguments, nothing is on lines between the brackets; comments are looked for.
        changes["whitespace_before_args"] = cst.SimpleWhitespace("")
    try:
        return node.with_changes(**changes)
    except cst.CSTValidationError as error:
        raise CannotRewrite(f"the new code is not Python there: {error}") from error
