"""Set the value of a module's or a class's variable."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.base import EditOutcome, SiteTransformer
from vpatch.codemods.fill import fill
from vpatch.codemods.match import Match, same_code
from vpatch.codemods.names import BINDING, bound_names
from vpatch.codemods.nodes import code_of, with_others
from vpatch.codemods.pattern import Pattern, parse_pattern
from vpatch.codemods.reduced import Reading
from vpatch.codemods.scope import Scope

if TYPE_CHECKING:
    from vpatch.codemods.extent import Extents


@dataclass(frozen=True)
class SetValue:
    """Assign `value` to the variable with the qualified name `symbol`, which must hold `was`.

    In a module that assigns it, whatever else binds or deletes it in the same scope is a problem.
    """

    symbol: str
    value: cst.BaseExpression
    was: cst.BaseExpression

    def __post_init__(self) -> None:
        fill(self.value, Match())

    @property
    def needles(self) -> tuple[frozenset[bytes], ...]:
        return (frozenset(part.encode() for part in self.symbol.split(".")),)

    @property
    def place(self) -> Scope:
        return Scope()

    @property
    def reading(self) -> Reading:
        # By the variable alone: what is in a class does not name the class.
        variable = self.symbol.rpartition(".")[2].encode()
        return Reading([frozenset([variable])])

    @property
    def sought(self) -> Pattern:
        was = code_of(with_others(self.was, _bracketed))
        return parse_pattern(f"{self.symbol.rpartition('.')[2]} = {was}")

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        transformer = _SetValueTransformer(self)
        outcome = transformer.run(module, extents)
        # Elsewhere the name is an import or another variable.
        return outcome if transformer.is_assigned else EditOutcome(module, ())


def _bracketed(node: cst.CSTNode) -> cst.CSTNode | None:
    """Python's own Ellipsis as a pattern spells it: `...` alone would be a gap."""
    if not isinstance(node, cst.Ellipsis) or node.lpar:
        return None
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


class _SetValueTransformer(SiteTransformer):
    kinds = (cst.Assign, cst.AnnAssign, *BINDING)

    def __init__(self, spec: SetValue) -> None:
        super().__init__(Scope(), spec.reading.names)
        self.spec = spec
        self.is_assigned = False

    def edit(self, original: cst.CSTNode, updated: cst.CSTNode) -> cst.CSTNode:
        match updated:
            case (
                cst.Assign(targets=[cst.AssignTarget(target=cst.Name(value=name))], value=value)
                | cst.AnnAssign(target=cst.Name(value=name), value=value)
            ):
                pass
            case _:
                if any(map(self._is_meant, bound_names(original))):
                    code = code_of(original).strip().partition("\n")[0]
                    problem = f"its value may also come from {code}"
                    self.add(original, todo=True, problem=problem)
                return updated
        if value is None or not self._is_meant(name):
            return updated
        self.is_assigned = True
        if same_code(self.spec.value, value):
            self.add(original, todo=False)
            return updated
        if not same_code(self.spec.was, value):
            problem = f"its value is {code_of(value)}, expected {code_of(self.spec.was)}"
            self.add(original, todo=True, problem=problem)
            return updated
        self.add(original, todo=True)
        return updated.with_changes(value=self.spec.value.deep_clone())

    def _is_meant(self, name: str) -> bool:
        return ".".join([*self.scope, name]) == self.spec.symbol
