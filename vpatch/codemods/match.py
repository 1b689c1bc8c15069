"""Compare a pattern with code: everything but formatting counts, metavariables bind, gaps skip."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from vpatch.codemods.nesting import NestedTooDeeplyError, measured

if TYPE_CHECKING:
    from collections.abc import Sequence

# How metavariables and gaps are spelt in a pattern that libcst has parsed.
PREFIX = "vpatch_mv_"
GAP_PARAMETER = "vpatch_gap"
IN_TEXT = re.compile(rf"{PREFIX}([A-Za-z_]\w*)")
# Some seconds. Two gaps in a list of two hundred can be filled in 20,000 ways, and with each gap
# more there are hundreds of times as many.
_MOST_WAYS = 30_000
# Fields of libcst nodes that hold formatting and no meaning.
_TRIVIA = frozenset(
    {"colon", "comma", "dot", "empty_lines", "end", "equal", "first_line", "footer", "header"}
    | {"indent", "lbrace", "lbracket", "leading_lines", "lines_after_decorators", "lpar"}
    | {"posonly_ind", "rbrace", "rbracket", "rpar", "semicolon", "start", "trailing_whitespace"}
)
# Fields that a pattern may leave out.
OPTIONAL = {
    cst.FunctionDef: frozenset(["asynchronous", "decorators", "returns", "type_parameters"]),
    cst.ClassDef: frozenset(["bases", "decorators", "keywords", "type_parameters"]),
    cst.For: frozenset(["orelse"]),
    cst.If: frozenset(["orelse"]),
    cst.Param: frozenset(["annotation", "star"]),
    cst.Try: frozenset(["finalbody", "orelse"]),
    cst.TryStar: frozenset(["finalbody", "orelse"]),
    cst.While: frozenset(["orelse"]),
}


class TooManyWaysError(Exception):
    """A pattern has so many gaps that they can be filled in too many ways."""


@dataclass
class Match:
    """What a successful match found.

    `bindings` maps each metavariable to its code; `paired` maps the identity of an argument or
    statement of the pattern to the one that it matched, which is what lets a rewrite keep the rest.
    With `literal` both sides are code: nothing is a metavariable, a gap or left out. With `whole`
    nothing is left out either, but metavariables and gaps are what they are.
    """

    bindings: dict[str, cst.CSTNode] = field(default_factory=dict)
    paired: dict[int, cst.CSTNode] = field(default_factory=dict)
    literal: bool = False
    whole: bool = False
    # Shared with all copies: the ways that were tried to fill gaps.
    tried: list[int] = field(default_factory=lambda: [0])

    def texts(self) -> dict[str, str]:
        return {name: canonical(code_of(node)) for name, node in self.bindings.items()}

    def copy(self) -> Match:
        return Match(dict(self.bindings), dict(self.paired), self.literal, self.whole, self.tried)

    def try_another(self) -> None:
        """Count one more way to fill a gap.

        Raises:
            TooManyWaysError: there were more than any sensible pattern has.
        """
        self.tried[0] += 1
        if self.tried[0] > _MOST_WAYS:
            raise TooManyWaysError

    def become(self, other: Match) -> None:
        self.bindings, self.paired = other.bindings, other.paired


def code_of(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node)


@cache
def canonical(code: str) -> str:
    """An expression in the one spelling that says nothing of its formatting."""
    try:
        return ast.unparse(ast.parse(code.strip(), mode="eval"))
    except SyntaxError:
        return code


def same_code(left: cst.CSTNode, right: cst.CSTNode) -> bool:
    """Whether two nodes are the same code but for formatting and comments."""
    return same(left, right, Match(literal=True))


@cache
def meaningful_fields(kind: type[cst.CSTNode]) -> tuple[str, ...]:
    trivia = _TRIVIA
    if issubclass(kind, cst.FormattedStringExpression):
        trivia -= {"equal"}  # f"{x=}" is not f"{x}"
    return tuple(
        f.name for f in fields(kind) if f.name not in trivia and not f.name.startswith("whitespace")
    )


def variable_of(node: object) -> str | None:
    """The name of the metavariable that a node of a pattern is, or None."""
    if isinstance(node, cst.Name) and node.value.startswith(PREFIX):
        return node.value.removeprefix(PREFIX)
    return None


def is_gap(node: object) -> bool:
    """Whether a node of a pattern is `...`, standing for any number of its neighbours.

    In parentheses it is Python's own.
    """
    match node:
        case cst.Arg(keyword=None, star="", value=value):
            return isinstance(value, cst.Ellipsis) and not value.lpar
        case (
            cst.Arg(star="*" | "**", value=cst.Name(value=name))
            | cst.Param(name=cst.Name(value=name))
        ):
            return name == GAP_PARAMETER
        case cst.SimpleStatementLine(body=[cst.Expr(value=value)]) | cst.Expr(value=value):
            return isinstance(value, cst.Ellipsis) and not value.lpar
    return False


def statements_of(body: cst.BaseSuite) -> Sequence[cst.CSTNode]:
    """The statements of a block, also of one on the line of its header."""
    if isinstance(body, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine([statement]) for statement in body.body]
    return cast("Sequence[cst.CSTNode]", body.body)


def same(pattern: object, node: object, match: Match) -> bool:
    name = None if match.literal else variable_of(pattern)
    if name is not None:
        return isinstance(node, cst.BaseExpression) and _bind(name, node, match)
    if isinstance(pattern, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        return _same_sequence(statements_of(pattern), statements_of(node), match)
    if isinstance(pattern, cst.BaseString) and isinstance(node, cst.BaseString):
        left, right = _literal(pattern), _literal(node)
        if left is not None or right is not None:
            return _same_text(left, right, match)
    if not isinstance(pattern, cst.CSTNode) or type(pattern) is not type(node):
        return pattern == node
    return _same_node(pattern, node, match)


def _same_node(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    match pattern, node:
        case cst.BaseNumber(), cst.BaseNumber():
            return bool(pattern.evaluated_value == node.evaluated_value)  # type: ignore[attr-defined]
        case cst.FormattedString(), cst.FormattedString() if _prefix(pattern) != _prefix(node):
            return False
        case cst.FormattedStringText(), cst.FormattedStringText():
            return _same_text(pattern.value, node.value, match)
        case cst.Call(), cst.Call():
            return _same_call(pattern, node, match)
        case cst.Parameters(), cst.Parameters() if any(is_gap(p) for p in _all(pattern)):
            return _same_parameters(pattern, node, match)
    return _same_fields(pattern, node, match)


def _same_fields(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    optional = OPTIONAL.get(type(pattern), frozenset[str]())
    if match.literal or match.whole:
        optional = frozenset()
    for name in meaningful_fields(type(pattern)):
        left, right = getattr(pattern, name), getattr(node, name)
        if name in optional and (not left or left is cst.MaybeSentinel.DEFAULT):
            continue
        if isinstance(left, (list, tuple)):
            if not _same_sequence(left, right, match):
                return False
        elif not same(left, right, match):
            return False
    return True


def _literal(node: cst.BaseString) -> str | bytes | None:
    if isinstance(node, (cst.SimpleString, cst.ConcatenatedString)):
        return node.evaluated_value
    return None


def _prefix(node: cst.FormattedString) -> frozenset[str]:
    """The letters before the quotes; an r says what a backslash in the text means."""
    return frozenset(node.start.rstrip("'\"").lower())


def _bind(name: str, node: cst.CSTNode, match: Match) -> bool:
    if name == "_":
        return True
    bound = match.bindings.setdefault(name, node)
    return bound is node or same_code(bound, node)


def _between(parts: Sequence[str], text: str) -> list[str] | None:
    """Return what is between fixed parts of a text, each as far right as it can be.

    `re.fullmatch("PART(.+)PART(.+)PART", text)` says the same, but a patch with many metavariables
    in a text could keep it busy without end.
    """
    if len(parts) == 1:
        return [] if text == parts[0] else None
    first, *middle, last = parts
    if not text.startswith(first) or not text.endswith(last):
        return None
    start, end = len(first), len(text) - len(last)
    found: list[str] = []
    for part in reversed(middle):
        at = text.rfind(part, start + 1, end - 1)
        if at < 0:
            return None
        found.append(text[at + len(part) : end])
        end = at
    found.append(text[start:end])
    return None if any(not code or "\n" in code for code in found) else found[::-1]


def _same_text(pattern: str | bytes | None, text: str | bytes | None, match: Match) -> bool:
    """Compare the contents of strings, in which a metavariable matches an expression's code."""
    if (
        match.literal
        or not isinstance(pattern, str)
        or not isinstance(text, str)
        or PREFIX not in pattern
    ):
        return pattern == text
    # split() gives text, name, text, name, ... text.
    parts = IN_TEXT.split(pattern)
    codes = _between(parts[::2], text)
    if codes is None:
        return False
    for name, code in zip(parts[1::2], codes, strict=True):
        try:
            measured(code.encode())
            node = cst.parse_expression(code)
        except (cst.ParserSyntaxError, NestedTooDeeplyError):
            return False
        if not _bind(name, node, match):
            return False
    return True


def _same_sequence(pattern: Sequence[Any], nodes: Sequence[Any], match: Match) -> bool:
    """Match in order; a gap takes as few neighbours as the rest allows."""
    # A loop, as a table or a block may have more elements than Python has levels of recursion.
    for index, item in enumerate(pattern):
        if not match.literal and is_gap(item):
            return _same_behind_gap(pattern[index + 1 :], nodes[index:], match)
        if index == len(nodes) or not same(item, nodes[index], match):
            return False
        match.paired[id(item)] = nodes[index]
    return len(pattern) == len(nodes)


def _same_behind_gap(rest: Sequence[Any], nodes: Sequence[Any], match: Match) -> bool:
    for taken in range(len(nodes) + 1):
        match.try_another()
        trial = match.copy()
        if _same_sequence(rest, nodes[taken:], trial):
            match.become(trial)
            return True
    return False


def _same_call(pattern: cst.Call, node: cst.Call, match: Match) -> bool:
    if not same(pattern.func, node.func, match):
        return False
    wanted = [a for a in pattern.args if a.keyword is not None]
    given = [a for a in node.args if a.keyword is not None]
    if not _same_in_any_order(wanted, given, match):
        return False
    has_gap = not match.literal and any(is_gap(a) for a in pattern.args)
    if len(given) > len(wanted) and not has_gap:
        return False
    positional = [a for a in pattern.args if a.keyword is None]
    return _same_sequence(positional, [a for a in node.args if a.keyword is None], match)


def _same_in_any_order(
    wanted: Sequence[cst.CSTNode], given: Sequence[cst.CSTNode], match: Match
) -> bool:
    """Find each of `wanted` among `given`; what is left over there is ignored."""
    left = list(given)
    for item in wanted:
        for candidate in left:
            trial = match.copy()
            if same(item, candidate, trial):
                match.become(trial)
                match.paired[id(item)] = candidate
                left = [other for other in left if other is not candidate]
                break
        else:
            return False
    return True


def _all(parameters: cst.Parameters) -> list[object]:
    positional = (*parameters.posonly_params, *parameters.params)
    return [*positional, parameters.star_arg, *parameters.kwonly_params]


def _same_parameters(pattern: cst.Parameters, node: cst.Parameters, match: Match) -> bool:
    """Compare parameters with a pattern that names a few of them and has `...`.

    A gap among the positional ones may reach as far as the keyword-only ones. Those come in any
    order, and there may be more of them, as there may be arguments of a call.
    """
    ordered = [*pattern.posonly_params, *pattern.params]
    if is_gap(pattern.star_arg) or not any(map(is_gap, ordered)):
        ordered.append(cst.Param(cst.Name(GAP_PARAMETER)))
    positional = [*node.posonly_params, *node.params]
    gaps = [index for index, item in enumerate(ordered, 1) if is_gap(item)]
    for cut in (len(ordered), *reversed(gaps)):
        keywords = [p for p in (*ordered[cut:], *pattern.kwonly_params) if not is_gap(p)]
        trial = match.copy()
        if (
            _same_sequence(ordered[:cut], positional, trial)
            and _same_in_any_order(keywords, node.kwonly_params, trial)
            and _same_starred(pattern, node, trial)
        ):
            match.become(trial)
            return True
    return False


def _same_starred(pattern: cst.Parameters, node: cst.Parameters, match: Match) -> bool:
    """Compare `*args` and `**kwargs`, where the pattern has them."""
    for wanted, given in (
        (pattern.star_arg, node.star_arg),
        (pattern.star_kwarg, node.star_kwarg),
    ):
        if isinstance(wanted, cst.Param) and not is_gap(wanted):
            if not same(wanted, given, match):
                return False
            match.paired[id(wanted)] = cast("cst.CSTNode", given)
    return True
