"""Which names a node binds, and which names are no expressions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node_or_raise

from vpatch.codemods.nodes import all_nodes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# What binds or deletes names, but for an assignment to a name alone.
BINDING = (
    cst.AugAssign,
    cst.NamedExpr,
    cst.For,
    cst.AsName,
    cst.Del,
    cst.ImportAlias,
    cst.FunctionDef,
    cst.ClassDef,
    cst.TypeAlias,
    cst.MatchAs,
    cst.MatchStar,
    cst.MatchMapping,
)
# Fields that hold a name as a name, not as an expression.
NAME_FIELDS: dict[type[cst.CSTNode], str] = {
    cst.Arg: "keyword",
    cst.Attribute: "attr",
    cst.ClassDef: "name",
    cst.FunctionDef: "name",
    cst.MatchAs: "name",
    cst.MatchKeywordElement: "key",
    cst.MatchMapping: "rest",
    cst.MatchStar: "name",
    cst.NameItem: "name",
    cst.Param: "name",
    cst.ParamSpec: "name",
    cst.TypeAlias: "name",
    cst.TypeVar: "name",
    cst.TypeVarTuple: "name",
}


def bound_names(node: cst.CSTNode) -> Iterator[str]:
    """The names that a node itself binds or deletes, in the scope around it."""
    match node:
        case cst.Assign():
            for target in node.targets:
                yield from _targets(target.target)
        case cst.AugAssign() | cst.AnnAssign() | cst.NamedExpr() | cst.For() | cst.Del():
            yield from _targets(node.target)
        case cst.AsName(name=name):
            yield from _targets(name)
        case cst.ImportAlias(asname=None, name=name):
            # `import a.b` binds a.
            yield get_full_name_for_node_or_raise(name).partition(".")[0]
        case _:
            field = getattr(node, NAME_FIELDS.get(type(node), ""), None)
            if isinstance(field, cst.Name):
                yield field.value


def _targets(target: cst.CSTNode) -> Iterator[str]:
    match target:
        case cst.Name(value=name):
            yield name
        case cst.Tuple(elements=elements) | cst.List(elements=elements):
            for element in elements:
                yield from _targets(element.value)


def identifiers(node: cst.CSTNode) -> Iterable[cst.CSTNode]:
    """The names in `node` itself, not in the expressions inside, that are no expressions."""
    match node:
        case cst.Import() | cst.ImportFrom():
            return _all_names(node)
        case (
            cst.ExceptHandler(name=cst.AsName() as name)
            | cst.ExceptStarHandler(name=cst.AsName() as name)
        ):
            return _all_names(name)
    return [getattr(node, NAME_FIELDS[type(node)])] if type(node) in NAME_FIELDS else []


def _all_names(root: cst.CSTNode) -> list[cst.CSTNode]:
    return [node for node in all_nodes(root) if isinstance(node, cst.Name)]


def expression_names(root: cst.CSTNode) -> set[str]:
    """The names in some code, but for those that are no expressions."""
    names: set[str] = set()
    skipped: set[int] = set()
    # A node comes before those that are in it.
    for node in all_nodes(root):
        skipped.update(map(id, identifiers(node)))
        if isinstance(node, cst.Name) and id(node) not in skipped:
            names.add(node.value)
    return names
