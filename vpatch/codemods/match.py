"""Compare a pattern with code: everything but formatting counts, metavariables bind, gaps skip."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import libcst as cst

from vpatch.codemods.alike import (
    SEQUENCES,
    index_kind,
    indices,
    is_any_braces,
    text_parts,
)
from vpatch.codemods.arguments import other_spellings, plain_arguments
from vpatch.codemods.names import NAME_FIELDS
from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.codemods.nodes import (
    GAP_PARAMETER,
    IN_TEXT,
    OPTIONAL,
    PREFIX,
    between,
    canonical,
    code_of,
    is_gap,
    literal_of,
    meaningful_fields,
    prefix_of,
    statements_of,
    variable_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vpatch.codemods.held import Held
    from vpatch.codemods.spelling import Spellings

# Some seconds. Two gaps in a list of two hundred can be filled in 20,000 ways, and with each gap
# more there are hundreds of times as many.
_MOST_WAYS = 30_000
_IMPORTS = (cst.Import, cst.ImportFrom)
_UNSPELT = "all fields"


class TooManyWaysError(Exception):
    """A pattern has so many gaps that they can be filled in too many ways."""


@dataclass
class Match:
    """What a successful match found.

    `bindings` maps each metavariable to its code; `paired` maps the identity of an argument or
    statement of the pattern to the one that it matched, which is what lets a rewrite keep the rest.
    With `literal` both sides are code: nothing is a metavariable, a gap or left out. With `whole`
    nothing is left out either, but metavariables and gaps are what they are. `spellings` are the
    imports of the code's module: by them, one thing may have several names. `respelt` maps names of
    the pattern to the code that names the same there. `held` gives values of locals.
    """

    bindings: dict[str, cst.CSTNode] = field(default_factory=dict)
    paired: dict[int, cst.CSTNode] = field(default_factory=dict)
    literal: bool = False
    whole: bool = False
    spellings: Spellings | None = None
    respelt: dict[str, cst.BaseExpression] = field(default_factory=dict)
    held: Callable[[], Held] = dict
    # Shared with all copies: the ways that were tried to fill gaps.
    tried: list[int] = field(default_factory=lambda: [0])

    def texts(self) -> dict[str, str]:
        return {name: canonical(code_of(node)) for name, node in self.bindings.items()}

    def copy(self) -> Match:
        return replace(
            self,
            bindings=dict(self.bindings),
            paired=dict(self.paired),
            respelt=dict(self.respelt),
        )

    def attempt(self, compare: Callable[[Match], bool]) -> bool:
        """Whether code compares as the same; if not, nothing is kept of what was bound."""
        trial = self.copy()
        if not compare(trial):
            return False
        self.bindings, self.paired, self.respelt = trial.bindings, trial.paired, trial.respelt
        return True

    def own_name(self, name: str) -> cst.BaseExpression | None:
        """What the module calls a name of new code; None if it calls it so, or does not know it."""
        if name in self.respelt:
            return self.respelt[name]
        spelt = self.spellings.spelt(name) if self.spellings is not None else None
        return None if spelt is None else cst.Name(spelt)

    def try_another(self) -> None:
        """Count one more way to fill a gap.

        Raises:
            TooManyWaysError: there were more than any sensible pattern has.
        """
        self.tried[0] += 1
        if self.tried[0] > _MOST_WAYS:
            raise TooManyWaysError


def same_code(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two nodes are the same code but for formatting and comments."""
    return same(one, other, Match(literal=True))


def same(pattern: object, node: object, match: Match) -> bool:
    name = None if match.literal else variable_of(pattern)
    if name is not None:
        return isinstance(node, cst.BaseExpression) and _bind(name, node, match)
    if isinstance(pattern, cst.BaseSuite) and isinstance(node, cst.BaseSuite):
        return _same_sequence(statements_of(pattern), statements_of(node), match)
    if isinstance(pattern, cst.BaseString) and isinstance(node, cst.BaseString):
        return _same_strings(pattern, node, match)
    if not isinstance(pattern, cst.CSTNode) or not isinstance(node, cst.CSTNode):
        return pattern == node
    if type(pattern) is type(node) and _same_node(pattern, node, match):
        return True
    return _same_in_other_syntax(pattern, node, match) or (
        not match.literal and _same_otherwise(pattern, node, match)
    )


def _same_in_other_syntax(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    """Compare what Python's own parser reads alike, and libcst as nodes of other kinds."""
    match pattern, node:
        case cst.If(), cst.Else():
            return _same_sequence([pattern], statements_of(node.body), match)
        case cst.Else(), cst.If():
            statements = statements_of(pattern.body)
            # `else: ...` says that there is an `else`.
            return not all(map(is_gap, statements)) and _same_sequence(statements, [node], match)
    if isinstance(pattern, SEQUENCES) and isinstance(node, SEQUENCES):
        return type(pattern) is not type(node) and _same_sequence(
            pattern.patterns, node.patterns, match
        )
    return False


def _same_strings(pattern: cst.BaseString, node: cst.BaseString, match: Match) -> bool:
    """Compare strings, however they are quoted and split."""
    literals = literal_of(pattern), literal_of(node)
    if literals != (None, None):
        return _same_text(*literals, match)
    if _have_one_prefix(pattern, node) and match.attempt(partial(_same_fields, pattern, node)):
        return True
    parts, others = text_parts(pattern), text_parts(node)
    if parts is None or others is None or len(parts) != len(others):
        return False
    return all(
        _same_text(one, other, match)
        if isinstance(one, str) and isinstance(other, str)
        else same(one, other, match)
        for one, other in zip(parts, others, strict=True)
    )


def _have_one_prefix(one: cst.BaseString, other: cst.BaseString) -> bool:
    if isinstance(one, cst.FormattedString) and isinstance(other, cst.FormattedString):
        return prefix_of(one) == prefix_of(other)
    return type(one) is type(other)


def _same_index(pattern: cst.Subscript, node: cst.Subscript, match: Match) -> bool:
    """Compare `x[1, 2]` with `x[(1, 2)]` as well, and never `x[1]` with `x[1,]`."""
    kinds = index_kind(pattern), index_kind(node)
    if kinds[0] == kinds[1]:
        return _same_sequence(pattern.slice, node.slice, match)
    if "one" not in kinds:
        return _same_sequence(indices(pattern), indices(node), match)
    entries = indices(node) if kinds[1] == "several" else []
    elements = [each for each in entries if isinstance(each, cst.BaseElement)]
    if len(elements) != len(entries) or kinds[0] != "one" or not entries:
        return same(pattern.slice[0].slice, node.slice[0].slice, match) and "several" not in kinds
    index = pattern.slice[0].slice
    # A metavariable alone is all of a tuple.
    return (
        isinstance(index, cst.Index)
        and variable_of(index.value) is not None
        and same(index.value, cst.Tuple(elements, lpar=[], rpar=[]), match)
    )


def _same_otherwise(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    """Whether code is what a pattern says in another spelling."""
    match pattern, node:
        case cst.Assign(), cst.AnnAssign():
            return _same_annotated(pattern, node, match)
        case cst.Dict(), cst.Set() if is_any_braces(pattern):
            return True
        case ((cst.Name() | cst.Attribute()), (cst.Name() | cst.Attribute())):
            if match.spellings is not None and match.spellings.alike(pattern, node):
                match.respelt[code_of(pattern)] = node
                return True
    return False


def _same_annotated(pattern: cst.Assign, node: cst.AnnAssign, match: Match) -> bool:
    """Compare `x = v` with `x: T = v`: an annotation matters only if the pattern has one."""
    if match.whole or len(pattern.targets) != 1 or node.value is None:
        return False
    return same(pattern.targets[0].target, node.target, match) and same(
        pattern.value, node.value, match
    )


def _same_node(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    match pattern, node:
        case cst.BaseNumber(), cst.BaseNumber():
            return bool(pattern.evaluated_value == node.evaluated_value)  # type: ignore[attr-defined]
        case cst.FormattedStringText(), cst.FormattedStringText():
            return _same_text(pattern.value, node.value, match)
        case cst.Call(), cst.Call():
            return _same_call(pattern, node, match)
        case cst.Subscript(), cst.Subscript():
            return same(pattern.value, node.value, match) and _same_index(pattern, node, match)
        case cst.Parameters(), cst.Parameters() if any(is_gap(p) for p in _all(pattern)):
            return _same_parameters(pattern, node, match)
    return _same_fields(pattern, node, match)


def _same_fields(pattern: cst.CSTNode, node: cst.CSTNode, match: Match) -> bool:
    optional = OPTIONAL.get(type(pattern), frozenset[str]())
    if match.literal or match.whole:
        optional = frozenset()
    unspelt = _UNSPELT if isinstance(pattern, _IMPORTS) else NAME_FIELDS.get(type(pattern))
    if isinstance(node, cst.AssignTarget) and isinstance(node.target, cst.Name):
        unspelt = _UNSPELT  # `Z = Y` gives a value to Z, and not to Y
    for name in meaningful_fields(type(pattern)):
        wanted, actual = getattr(pattern, name), getattr(node, name)
        if name in optional and (not wanted or wanted is cst.MaybeSentinel.DEFAULT):
            continue
        if match.spellings is not None and (unspelt == name or unspelt is _UNSPELT):
            if not _same_unspelt(wanted, actual, match):
                return False
        elif not _same_field(wanted, actual, match):
            return False
    return True


def _same_field(pattern: object, node: object, match: Match) -> bool:
    if isinstance(pattern, (list, tuple)):
        # The names of `from x import *` are no sequence.
        return isinstance(node, (list, tuple)) and _same_sequence(pattern, node, match)
    return same(pattern, node, match)


def _same_unspelt(pattern: object, node: object, match: Match) -> bool:
    """Compare the names of attributes, keywords, definitions: imports do not spell these."""
    spellings, match.spellings = match.spellings, None
    try:
        return _same_field(pattern, node, match)
    finally:
        match.spellings = spellings


def _bind(name: str, node: cst.CSTNode, match: Match) -> bool:
    if name == "_":
        return True
    bound = match.bindings.setdefault(name, node)
    return bound is node or same_code(bound, node)


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
    codes = between(parts[::2], text)
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
        if match.attempt(partial(_same_sequence, rest, nodes[taken:])):
            return True
    return False


def _same_call(pattern: cst.Call, node: cst.Call, match: Match) -> bool:
    if not same(pattern.func, node.func, match):
        return False
    if match.literal or match.whole:
        return _same_arguments(pattern.args, node.args, match)
    return any(
        match.attempt(partial(_same_arguments, pattern.args, args))
        for args in _spellings_of(pattern, node, match)
    )


def _spellings_of(pattern: cst.Call, node: cst.Call, match: Match) -> Iterator[Sequence[cst.Arg]]:
    """The arguments of a call, in each of the spellings that mean the same."""
    args = node.args
    if not any(arg.star == "**" and not is_gap(arg) for arg in pattern.args):
        args = plain_arguments(args, match.held)
    yield args
    is_named = isinstance(pattern.func, cst.Name) and variable_of(pattern.func) is None
    if match.spellings is not None and is_named and isinstance(node.func, cst.Name):
        parameters = match.spellings.signature(node.func.value)
        if parameters is not None:
            yield from other_spellings(args, parameters)


def _same_arguments(pattern: Sequence[cst.Arg], args: Sequence[cst.Arg], match: Match) -> bool:
    wanted = [a for a in pattern if a.keyword is not None]
    actual = [a for a in args if a.keyword is not None]
    if not _same_in_any_order(wanted, actual, match):
        return False
    has_gap = not match.literal and any(is_gap(a) for a in pattern)
    if len(actual) > len(wanted) and not has_gap:
        return False
    positional = [a for a in pattern if a.keyword is None]
    return _same_sequence(positional, [a for a in args if a.keyword is None], match)


def _same_in_any_order(
    wanted: Sequence[cst.CSTNode], actual: Sequence[cst.CSTNode], match: Match
) -> bool:
    """Find each of `wanted` among `actual`; what is left over there is ignored."""
    remaining = list(actual)
    for item in wanted:
        for candidate in remaining:
            if match.attempt(partial(same, item, candidate)):
                match.paired[id(item)] = candidate
                remaining = [other for other in remaining if other is not candidate]
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
        comparisons = (
            partial(_same_sequence, ordered[:cut], positional),
            partial(_same_in_any_order, keywords, node.kwonly_params),
            partial(_same_starred, pattern, node),
        )
        if match.attempt(partial(_are_all_same, comparisons)):
            return True
    return False


def _are_all_same(comparisons: Iterable[Callable[[Match], bool]], match: Match) -> bool:
    return all(compare(match) for compare in comparisons)


def _same_starred(pattern: cst.Parameters, node: cst.Parameters, match: Match) -> bool:
    """Compare `*args` and `**kwargs`, where the pattern has them."""
    for wanted, actual in (
        (pattern.star_arg, node.star_arg),
        (pattern.star_kwarg, node.star_kwarg),
    ):
        if isinstance(wanted, cst.Param) and not is_gap(wanted):
            if not same(wanted, actual, match):
                return False
            match.paired[id(wanted)] = cast("cst.CSTNode", actual)
    return True
