"""Replace the body of a function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import libcst as cst

from vpatch.codemods.base import EditOutcome, PatternEdit, PatternTransformer
from vpatch.codemods.fill import check_bound, fill
from vpatch.codemods.held import without_locals
from vpatch.codemods.match import same_code
from vpatch.codemods.names import expression_names
from vpatch.codemods.nodes import code_of, variable_of
from vpatch.codemods.pattern import EditError, find_in
from vpatch.codemods.successor import words_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.match import Match
    from vpatch.codemods.pattern import Pattern


@dataclass(frozen=True)
class ReplaceBody(PatternEdit):
    """Give the functions that `sought` matches the body `code`.

    A body is only replaced when every pattern of `having` is found in it: what is thrown away must
    be what the patch was written against. A local that only holds a value for the next statement
    makes no difference. Metavariables of `sought` mean the same there. The
    comments of the old body go with it, unsaid.

    A function that has the new body is done if `sought`, `where` or `within` names it, and if the
    new body has a word of `sought` or `having`. Any function may have a body like `pass`.
    """

    code: Sequence[cst.BaseStatement]
    having: Sequence[Pattern]

    def __post_init__(self) -> None:
        if not isinstance(self.sought.node, cst.FunctionDef):
            raise EditError(
                f"replace-body needs a def to find, not {self.sought}",
                hint="find the function, as in def NAME(...): ...",
            )
        check_bound(self.code, self.sought)

    @property
    def is_recognised(self) -> bool:
        """Whether a function that has the new body shows that the edit is about it."""
        name = cast("cst.FunctionDef", self.sought.node).name
        variable = variable_of(name)
        named = variable is None or variable in self.place.where or self.place.within is not None
        if not named:
            return False
        searched = words_of(self.sought.node, *(pattern.node for pattern in self.having))
        return not searched.isdisjoint(words_of(*self.code))

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _ReplaceBodyTransformer(self).run(module, extents)


class _ReplaceBodyTransformer(PatternTransformer[ReplaceBody]):
    def edit_match(self, original: cst.CSTNode, updated: cst.CSTNode, match: Match) -> cst.CSTNode:
        function = cast("cst.FunctionDef", updated)
        body = function.body
        code = [fill(statement, match) for statement in self.spec.code]
        new = cst.IndentedBlock(code)
        if same_code(new, body):
            self.add(original, todo=False, match=match, recognised=self.spec.is_recognised)
            return updated
        problem = self._problem(function, match)
        self.add(original, todo=True, match=match, problem=problem)
        if problem is not None:
            return updated
        if isinstance(body, cst.IndentedBlock):
            new = body.with_changes(body=code)
        return updated.with_changes(body=new)

    def _problem(self, function: cst.FunctionDef, match: Match) -> str | None:
        """What is not in the old body, or what the new one takes for the parameter."""
        bodies = (function.body, without_locals(function))
        for pattern in self.spec.having:
            if not any(find_in(pattern, body, self.spellings, match.bindings) for body in bodies):
                return f"its body has no {pattern}"
        # A name that the new body has besides the metavariable that has this name in the tree.
        names = {code_of(node) for node in match.bindings.values() if isinstance(node, cst.Name)}
        own = set().union(*map(expression_names, self.spec.code))
        taken = min(names & own, default=None)
        return None if taken is None else f"the new body has another {taken} than the parameter"
