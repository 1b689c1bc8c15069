"""A codemod that was written for libcst alone: run as libcst runs it, with its changes counted."""

from __future__ import annotations

from difflib import SequenceMatcher
from typing import TYPE_CHECKING, cast

import libcst as cst
from libcst.metadata import MetadataWrapper

from vpatch.codemods.base import EditOutcome, EditSite
from vpatch.codemods.nodes import code_of, statements_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.codemods.scope import Scope


def plain_kinds() -> tuple[type, ...]:
    """The classes of libcst that a plain codemod derives from."""
    from libcst.codemod import Codemod  # noqa: PLC0415 - takes long to import, and few need it

    return (Codemod, cst.CSTTransformer)


def run_plain(kind: type, module: cst.Module, place: Scope) -> EditOutcome:
    """Run a plain codemod on a module; each statement that it changes is a site.

    It cannot report a place that already is as it would make it, so all sites are to do.
    """
    after = _transform(kind, module)
    if not isinstance(after, cst.Module):
        raise TypeError(f"{kind.__name__} returns a {type(after).__name__}, not a Module")
    if after.code == module.code:
        return EditOutcome(module, ())
    changes = list(_changes(module.body, after.body, module, ())) or [(module, ())]
    sites = [
        EditSite(
            node,
            ".".join(scope),
            todo=True,
            problem=None if place.admits(scope, None) else "changes code that is not `within`",
        )
        for node, scope in changes
    ]
    return EditOutcome(after, tuple(sites))


def _transform(kind: type, module: cst.Module) -> object:
    from libcst.codemod import Codemod, CodemodContext, SkipFile  # noqa: PLC0415

    if issubclass(kind, Codemod):
        try:
            return kind(CodemodContext()).transform_module(module)
        except SkipFile:
            return module
    transformer = cast("cst.CSTTransformer", kind())
    if kind.get_inherited_dependencies():  # type: ignore[attr-defined]
        return MetadataWrapper(module).visit(transformer)
    return module.visit(transformer)


def _changes(
    before: Sequence[cst.CSTNode],
    after: Sequence[cst.CSTNode],
    owner: cst.CSTNode,
    scope: tuple[str, ...],
) -> Iterator[tuple[cst.CSTNode, tuple[str, ...]]]:
    """The innermost statements that differ, with their scopes; one for each that is added."""
    texts = [[code_of(statement) for statement in side] for side in (before, after)]
    matcher = SequenceMatcher(None, texts[0], texts[1], autojunk=False)
    for tag, first, last, other_first, other_last in matcher.get_opcodes():
        if tag == "equal":
            continue
        old, new = before[first:last], after[other_first:other_last]
        headers = [[_Blocks(statement).key for statement in side] for side in (old, new)]
        pairs = list(_pairs(*headers))
        for i, j in pairs:
            yield from _inside(old[i], new[j], scope)
        for i in set(range(len(old))).difference(i for i, _ in pairs):
            yield old[i], scope
        for _ in set(range(len(new))).difference(j for _, j in pairs):
            yield (before[first - 1] if first else owner), scope


def _pairs(before: list[str], after: list[str]) -> Iterator[tuple[int, int]]:
    """Which statement became which: the one with the same header, else the one at its place."""
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for _, first, last, other_first, other_last in matcher.get_opcodes():
        yield from zip(range(first, last), range(other_first, other_last), strict=False)


def _inside(
    before: cst.CSTNode, after: cst.CSTNode, scope: tuple[str, ...]
) -> Iterator[tuple[cst.CSTNode, tuple[str, ...]]]:
    """The changes in the blocks of a statement, or itself where its own lines change."""
    one, other = _Blocks(before), _Blocks(after)
    if not one.suites or one.header != other.header or len(one.suites) != len(other.suites):
        yield before, scope
        return
    named = isinstance(before, (cst.FunctionDef, cst.ClassDef))
    inner = (*scope, before.name.value) if named else scope  # type: ignore[attr-defined]
    changes = [
        change
        for old, new in zip(one.suites, other.suites, strict=True)
        for change in _changes(statements_of(old), statements_of(new), before, inner)
    ]
    yield from changes or [(before, scope)]


class _Blocks(cst.CSTTransformer):
    """The blocks of a statement, and its code without them."""

    def __init__(self, statement: cst.CSTNode) -> None:
        super().__init__()
        self.suites: list[cst.BaseSuite] = []
        self.header = code_of(cast("cst.CSTNode", statement.visit(self)))
        self.key = self.header if self.suites else ""

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.BaseSuite):
            self.suites.append(node)
            return False
        return True

    def on_leave(  # type: ignore[override]
        self, original_node: cst.CSTNode, updated_node: cst.CSTNode
    ) -> cst.CSTNode:
        if isinstance(original_node, cst.BaseSuite):
            return cst.SimpleStatementSuite([cst.Pass()])
        return updated_node
