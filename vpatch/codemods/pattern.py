"""Code patterns with metavariables: what an edit looks for, and what it puts there.

A pattern is Python with two additions. `$name` matches any expression or identifier. The same
`$name` twice must match the same code, and `$_` is never remembered. `...` matches whatever is
there among the arguments of a call, the bases of a class, the parameters of a `def`, decorators, or
the statements of a block. It also matches any entries of a list, tuple, set or dict. `(...)` is
Python's own Ellipsis.

White space, comments, line breaks, redundant parentheses and trailing commas do not matter, nor
does the order of keyword arguments, nor which syntax says the same; see `alike`. What
`nodes.OPTIONAL` names matters only where the pattern has some. A name alone is that name in an
expression or as a target. It is not one of an attribute, a keyword, a parameter, a definition or an
import.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.gaps import spell_gaps
from vpatch.codemods.lines import apart, block_of
from vpatch.codemods.match import Match, TooManyWaysError, same
from vpatch.codemods.names import identifiers
from vpatch.codemods.nesting import NestedTooDeeplyError, measured
from vpatch.codemods.nodes import GAP_PARAMETER, PREFIX, all_nodes, is_gap, kinds_of, variable_of
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vpatch.codemods.held import Held
    from vpatch.codemods.spelling import Spellings

_SHOWN = 80
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")


class TooManyGapsError(UsageError):
    """A pattern whose gaps take too long to fill."""

    code = "codemods.too-many-gaps"


class PatternError(UsageError):
    """A pattern or a piece of code in a declaration is wrong."""

    code = "codemods.wrong-pattern"


class EditError(PatternError):
    """An edit is declared that cannot be made: its parts are Python, and do not fit together."""

    code = "codemods.wrong-edit"


class SeveralStatementsError(PatternError):
    """A pattern is several statements, or `...` alone."""


@dataclass(frozen=True)
class Pattern:
    """A parsed pattern. `needles` are byte strings that every file with a match contains.

    Of these, `names` are also in the match itself, in one spelling only.
    """

    source: str
    node: cst.CSTNode
    variables: frozenset[str]
    needles: frozenset[bytes]
    names: frozenset[bytes]

    def match(
        self,
        node: cst.CSTNode,
        spellings: Spellings | None = None,
        bindings: Mapping[str, cst.CSTNode] | None = None,
        held: Callable[[], Held] = dict,
    ) -> Match | None:
        """Compare with a node; `spellings` are the imports of its module.

        `bindings` are of metavariables that another pattern has found already. `held` gives values
        of locals: a dict among these is its keywords.

        Raises:
            TooManyGapsError: that would take too long.
        """
        match = Match(dict(bindings or {}), spellings=spellings, held=held)
        try:
            return match if same(self.node, node, match) else None
        except TooManyWaysError as error:
            raise TooManyGapsError(
                "the pattern has so many gaps (...) that there are too many ways to fill them",
                where=str(self)[:_SHOWN],
                hint="leave out gaps, or make one pattern two",
            ) from error

    def __str__(self) -> str:
        return " ".join(self.source.split())


@cache
def parse_pattern(source: str) -> Pattern:
    """Parse `source` as an expression, else as one statement.

    Raises:
        PatternError: it is neither, or it is a metavariable alone, which would match everything.
    """
    node = parse_plain(as_python(source), shown=source)
    if len(node) != 1:
        raise _several(source)
    root: cst.CSTNode = node[0]
    if isinstance(root, cst.SimpleStatementLine):
        if len(root.body) != 1:
            raise _several(source)
        root = root.body[0]
        if isinstance(root, cst.Expr):
            root = root.value
    if variable_of(root) is not None or isinstance(root, cst.Ellipsis):
        raise _everything(source, PatternError if variable_of(root) else SeveralStatementsError)
    return _pattern(source, root)


def as_python(source: str) -> str:
    """The text of a pattern with a name for each metavariable and each gap: it matches that."""
    return spell_gaps(_name_variables(source))


@cache
def parse_block(source: str, *, alone: bool = False) -> Pattern:
    """Parse `source` as statements that follow each other in a block.

    Raises:
        PatternError: it is not Python, or it is nothing but `...` and not `alone` may be so.
    """
    statements = apart(parse_plain(as_python(source), shown=source))
    node = block_of(statements)
    if not alone and all(map(is_gap, node.body)):
        raise _everything(source, PatternError)
    return _pattern(source, node)


def _pattern(source: str, node: cst.CSTNode) -> Pattern:
    _check_ellipses(node, source)
    names, strings = needles_of(node)
    return Pattern(source, node, variables_of(source), frozenset(names | strings), frozenset(names))


def _everything(source: str, kind: type[PatternError]) -> PatternError:
    what = f"this pattern would match everything: {source!r}"
    return kind(what, hint="write the code around it as well")


def _several(source: str) -> PatternError:
    return SeveralStatementsError(
        f"a pattern is one expression or one statement: {source!r}",
        hint="write one edit for each statement",
    )


def _check_ellipses(root: cst.CSTNode, source: str) -> None:
    """Check that each `...` of a pattern is where it is a gap.

    Raises:
        PatternError: one is not; it could be meant as Python's own.
    """
    gaps: set[int] = set()
    # A node comes before those that are in it.
    for node in all_nodes(root):
        if isinstance(node, (cst.Arg, cst.Element, cst.Expr)) and is_gap(node):
            gaps.add(id(node.value))
        elif isinstance(node, cst.Decorator) and is_gap(node):
            gaps.add(id(node.decorator))
        elif isinstance(node, cst.Ellipsis) and not node.lpar and id(node) not in gaps:
            raise PatternError(
                f"... is not a wildcard there: {' '.join(source.split())!r}",
                hint="... is a wildcard among the arguments of a call, the entries of a list, "
                "tuple, set or dict, the bases of a class, the parameters of a def, decorators "
                "(as @...) and the statements of a block; write (...) for Python's own Ellipsis",
            )


def variables_of(source: str, *, known: Pattern | None = None) -> frozenset[str]:
    """The metavariables that `source` names.

    Raises:
        PatternError: the pattern `known` does not bind all of them.
    """
    names = frozenset(name for name in _VARIABLE.findall(source) if name != "_")
    unknown = names - known.variables if known else None
    if unknown:
        listed = ", ".join(f"${name}" for name in sorted(unknown))
        raise PatternError(
            f"{listed}: in the new code, but not in the pattern {known}",
            hint="use metavariables of the pattern only",
            code="codemods.unknown-metavariable",
        )
    return names


def parse_code(source: str) -> Sequence[cst.BaseStatement]:
    """Parse new code, which may hold metavariables; `...` is Python's own there."""
    return parse_plain(_name_variables(source), shown=source)


def _name_variables(source: str) -> str:
    """The same code with each metavariable as a name."""
    return _VARIABLE.sub(rf"{PREFIX}\1", source)


def parse_plain(source: str, *, shown: str | None = None) -> Sequence[cst.BaseStatement]:
    """Parse statements of plain Python; `shown` is what an error quotes."""
    text = source.rstrip("\n") + "\n"
    try:
        measured(text.encode())
        module = cst.parse_module(text)
    except NestedTooDeeplyError as error:
        raise PatternError(
            f"the code {error}", hint="write a shorter pattern", code="codemods.not-python"
        ) from error
    except cst.ParserSyntaxError as error:
        raise PatternError(
            f"not Python: {error.message} in {(shown or source).strip()!r}",
            hint="write Python, with $name for what may vary and ... for what does not matter",
            code="codemods.not-python",
        ) from error
    # libcst keeps the lines above the first statement at the module.
    above = module.header
    statements: list[cst.BaseStatement] = []
    for statement in module.body:
        lines = [*above, *statement.leading_lines]
        statements.append(statement.with_changes(leading_lines=[_unindent(x) for x in lines]))
        above = ()
    return statements


def _unindent(line: cst.EmptyLine) -> cst.EmptyLine:
    """A blank line as one that is empty in an indented block, too."""
    if line.comment is not None:
        return line
    return line.with_changes(indent=False, whitespace=cst.SimpleWhitespace(""))


def parse_expression(source: str) -> cst.BaseExpression:
    """Parse one expression that may hold metavariables."""
    match parse_code(source):
        case [cst.SimpleStatementLine(body=[cst.Expr(value=value)])]:
            return value
    raise EditError(f"not one expression: {source!r}", hint="write a value")


def find_in(
    pattern: Pattern,
    root: cst.CSTNode,
    spellings: Spellings | None = None,
    bindings: Mapping[str, cst.CSTNode] | None = None,
) -> bool:
    """Whether the pattern matches `root` or anything inside it.

    `bindings` are of metavariables that another pattern has found already.
    """
    kinds = kinds_of(pattern.node)
    skipped: set[int] = set()
    for node in all_nodes(root):
        # A node comes before those that are in it.
        skipped.update(map(id, identifiers(node)))
        if not isinstance(node, kinds) or id(node) in skipped:
            continue
        if pattern.match(node, spellings, bindings) is not None:
            return True
    return False


def needles_of(root: cst.CSTNode) -> tuple[set[bytes], set[bytes]]:
    """Identifiers, and plain string contents, that must be literally in a matching file."""
    names: set[bytes] = set()
    strings: set[bytes] = set()

    class CollectNames(cst.CSTVisitor):
        def __init__(self) -> None:
            self.keywords: set[int] = set()

        def visit_Call(self, node: cst.Call) -> None:
            # The call of a function of the same module may have the value without its name.
            if isinstance(node.func, cst.Name) and variable_of(node.func) is None:
                self.keywords.update(id(arg.keyword) for arg in node.args)

        def visit_Name(self, node: cst.Name) -> None:
            if id(node) not in self.keywords and not node.value.startswith((PREFIX, GAP_PARAMETER)):
                names.add(node.value.encode())

        def visit_ConcatenatedString(self, node: cst.ConcatenatedString) -> bool:
            del node
            return False  # its parts may be split elsewhere in the source

        def visit_SimpleString(self, node: cst.SimpleString) -> None:
            text = node.evaluated_value
            # A short or an escaped string may be spelt in several ways in the source.
            if (
                isinstance(text, str)
                and text.isidentifier()
                and text.isascii()
                and PREFIX not in text
            ):
                strings.add(text.encode())

    root.visit(CollectNames())
    return names, strings
