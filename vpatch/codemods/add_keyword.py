"""Add keyword arguments to a call, or parameters with a default to a function."""

from __future__ import annotations

from dataclasses import dataclass, replace
from keyword import iskeyword
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.arguments import plain_arguments
from vpatch.codemods.base import EditOutcome, PatternEdit, PatternTransformer
from vpatch.codemods.fill import fill
from vpatch.codemods.held import held_values
from vpatch.codemods.layout import append
from vpatch.codemods.match import same_code
from vpatch.codemods.nodes import code_of
from vpatch.codemods.pattern import (
    EditError,
    Pattern,
    PatternError,
    parse_code,
    parse_expression,
    variables_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.codemods.extent import Extents
    from vpatch.codemods.held import Held
    from vpatch.codemods.match import Match
    from vpatch.codemods.reduced import Reading


@dataclass(frozen=True)
class AddKeyword(PatternEdit):
    """Give each call (or `def`) that `sought` matches the keywords that it lacks.

    One that is there with the same value counts as done. With another value it is a problem, unless
    that value matches a pattern of `accepted`; None accepts any value. A call that lacks one but
    has `**` arguments is a problem, too, as they may hold it; those of a literal dict, or of a
    local that only holds one for this call, are known. Where `sought` is an assignment or a
    return, the call is its value. The value of a parameter may begin with its annotation, as in
    `bool = False`; then that has to be the same, too.
    """

    keywords: Mapping[str, str]
    accepted: Sequence[Pattern] | None = ()

    def __post_init__(self) -> None:
        if not isinstance(self.sought.node, cst.FunctionDef) and _call_of(self.sought.node) is None:
            raise EditError(
                f"add-keyword needs a call or a def to find, not {self.sought}",
                hint="find the call, as in NAME(...)",
            )
        for name, value in self.keywords.items():
            if not name.isidentifier() or iskeyword(name):
                raise EditError(
                    f"{name!r} cannot be a keyword of a call",
                    hint="write a name of Python",
                )
            if isinstance(self.sought.node, cst.FunctionDef):
                _parse_parameter(name, value)
            else:
                parse_expression(value)
            variables_of(value, known=self.sought)
        if self.accepted and isinstance(self.sought.node, cst.FunctionDef):
            raise EditError(
                "any-value takes patterns for the keywords of a call only",
                hint="write `any-value: true`, or leave it out",
            )

    @property
    def reading(self) -> Reading:
        reading = super().reading
        # A local of the function may hold the keywords.
        return replace(reading, unit="function") if reading.unit == "statement" else reading

    def apply(self, module: cst.Module, extents: Extents) -> EditOutcome:
        return _AddKeywordTransformer(self).run(module, extents)


class _AddKeywordTransformer(PatternTransformer[AddKeyword]):
    sees_functions = True

    def __init__(self, spec: AddKeyword) -> None:
        super().__init__(spec)
        self._functions: list[cst.FunctionDef] = []

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.FunctionDef):
            self._functions.append(node)
        return super().on_visit(node)

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        result = super().on_leave(original_node, updated_node)
        if isinstance(original_node, cst.FunctionDef):
            self._functions.pop()
        return result

    def held(self) -> Held:
        return held_values(self._functions[-1]) if self._functions else {}

    def _plain(self, call: cst.Call) -> Sequence[cst.Arg]:
        """The arguments of a call, with those of dicts that are known as keywords."""
        return plain_arguments(call.args, self.held)

    def edit_match(self, original: cst.CSTNode, updated: cst.CSTNode, match: Match) -> cst.CSTNode:
        other = None if self.spec.accepted is None else self._other_value(updated, match)
        if other is not None:
            self.add(original, todo=True, match=match, problem=f"already has {other}")
            return updated
        if isinstance(updated, cst.FunctionDef):
            new: cst.CSTNode = updated.with_changes(params=self._parameters(updated, match))
        else:
            call = _call_of(updated)
            if call is None:
                return updated
            longer = self._arguments(call, match)
            if longer is not call and any(a.star == "**" for a in self._plain(call)):
                problem = f"has ** arguments that may hold {', '.join(self._missing(call))}"
                self.add(original, todo=True, match=match, problem=problem)
                return updated
            is_call = isinstance(updated, cst.Call)
            new = longer if is_call else updated.with_changes(value=longer)
        todo = not new.deep_equals(updated)
        self.add(original, todo=todo, match=match)
        return new if todo else updated

    def _other_value(self, node: cst.CSTNode, match: Match) -> str | None:
        """A keyword that is there with another value than it would be given."""
        if isinstance(node, cst.FunctionDef):
            return self._other_parameter(node, match)
        call = _call_of(node)
        args = self._plain(call) if call else ()
        present = {arg.keyword.value: arg.value for arg in args if arg.keyword}
        for name, value in self.spec.keywords.items():
            wanted = fill(parse_expression(value), match)
            if name not in present or same_code(wanted, present[name]):
                continue
            accepted = self.spec.accepted or ()
            if not any(p.match(present[name], self.spellings, match.bindings) for p in accepted):
                return f"{name}={code_of(present[name])}"
        return None

    def _other_parameter(self, function: cst.FunctionDef, match: Match) -> str | None:
        for parameter in _named(function.params):
            name = parameter.name.value
            if name not in self.spec.keywords:
                continue
            wanted = fill(_parse_parameter(name, self.spec.keywords[name]), match)
            if not _same_field(wanted.default, parameter.default) or (
                wanted.annotation and not _same_field(wanted.annotation, parameter.annotation)
            ):
                return code_of(parameter.with_changes(comma=cst.MaybeSentinel.DEFAULT)).strip()
        return None

    def _arguments(self, call: cst.Call, match: Match) -> cst.Call:
        args: Sequence[cst.Arg] = call.args
        for name in self._missing(call):
            value = self.spec.keywords[name]
            new = cst.Arg(
                keyword=cst.Name(name),
                value=fill(parse_expression(value), match),
                equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
            )
            args = append(args, new, call.whitespace_before_args)
        return call if args is call.args else call.with_changes(args=args)

    def _missing(self, call: cst.Call) -> list[str]:
        present = {arg.keyword.value for arg in self._plain(call) if arg.keyword}
        return [name for name in self.spec.keywords if name not in present]

    def _parameters(self, function: cst.FunctionDef, match: Match) -> cst.Parameters:
        parameters = function.params
        present = {parameter.name.value for parameter in _named(parameters)}
        # Behind `*args` or `*` there are only keyword parameters.
        group = "params" if isinstance(parameters.star_arg, cst.MaybeSentinel) else "kwonly_params"
        for name, value in self.spec.keywords.items():
            if name in present:
                continue
            new = fill(_parse_parameter(name, value), match)
            opening = function.whitespace_before_params
            items = append(getattr(parameters, group), new, opening)
            parameters = parameters.with_changes(**{group: items})
        return parameters


def _parse_parameter(name: str, value: str) -> cst.Param:
    """Parse the default of a parameter, which may follow its annotation.

    Raises:
        PatternError: it is neither.
    """
    for code in (f"def f({name}={value}): pass", f"def f({name}: {value}): pass"):
        try:
            statements = parse_code(code)
        except PatternError:
            continue
        match statements:
            case [cst.FunctionDef(params=cst.Parameters(params=[parameter]) as parameters)] if (
                parameters.children == [parameter] and parameter.default is not None
            ):
                return parameter
    raise EditError(
        f"not a default of the parameter {name}: {value!r}",
        hint="write a value, or an annotation and a value, as in `bool = False`",
    )


def _same_field(wanted: cst.CSTNode | None, actual: cst.CSTNode | None) -> bool:
    if wanted is None or actual is None:
        return wanted is actual
    return same_code(wanted, actual)


def _named(parameters: cst.Parameters) -> list[cst.Param]:
    return [*parameters.posonly_params, *parameters.params, *parameters.kwonly_params]


def _call_of(node: cst.CSTNode) -> cst.Call | None:
    if isinstance(node, cst.Call):
        return node
    value = getattr(node, "value", None)
    return value if isinstance(value, cst.Call) else None
