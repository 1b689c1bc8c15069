"""What a module imports, binds and defines, as Python's own parser or libcst reads it.

Python's parser takes a tenth of the time. libcst also knows the syntax of newer Pythons.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst
from libcst.helpers import get_full_name_for_node

from vpatch.codemods.names import bound_names
from vpatch.codemods.nodes import DEFINITIONS, statements_of
from vpatch.codemods.trees import BLOCKS, parts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# Names to libcst, and no names to Python's own parser.
_CONSTANTS = {"None", "True", "False"}


@dataclass
class Bindings:
    """What a module binds, in all of its functions.

    `imports` are pairs of a name and what it is. `bound` has a name for each other statement that
    binds it, but for `x = None`. `functions` are the positional parameters of each function by its
    name; None where a call may pass others. `aliases` are the pairs of `Z = Y` in the module, and
    `defined` are its own functions and classes.
    """

    imports: list[tuple[str, str]] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    functions: list[tuple[str, list[str] | None]] = field(default_factory=list)
    aliases: list[tuple[str, str]] = field(default_factory=list)
    defined: set[str] = field(default_factory=set)


# --- Python's own parser -----------------------------------------------------------------------


def bindings_of_tree(tree: ast.Module) -> Bindings:
    """Return what a module binds, as Python's own parser reads it."""
    bindings = Bindings()
    for node in parts_of(tree.body):
        match node:
            case ast.Import(names=names):
                bindings.imports += _plain_imports(names)
            case ast.ImportFrom(names=names):
                above = "." * node.level + (f"{node.module}." if node.module else "")
                bindings.imports += [
                    (a.asname or a.name, above + a.name) for a in names if a.name != "*"
                ]
            case ast.FunctionDef(name=name, args=args) | ast.AsyncFunctionDef(name=name, args=args):
                is_open = node.decorator_list or args.posonlyargs or args.vararg
                bindings.functions.append((name, None if is_open else [a.arg for a in args.args]))
                bindings.bound += [name, *_parameters(args)]
            case _ if not _is_none(node):
                bindings.bound += _bound_in_tree(node)
    for statement in tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=alias)], value=ast.Name(id=name)):
                bindings.aliases.append((alias, name))
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                bindings.defined.add(statement.name)
    return bindings


def _plain_imports(names: Iterable[ast.alias]) -> Iterator[tuple[str, str]]:
    for alias in names:
        root = alias.name.partition(".")[0]
        yield (alias.asname, alias.name) if alias.asname else (root, root)


def _parameters(args: ast.arguments) -> Iterator[str]:
    for one in (*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg):
        if one is not None:
            yield one.arg


def _is_none(node: ast.AST) -> bool:
    match node:
        case (
            ast.Assign(value=ast.Constant(value=None))
            | ast.AnnAssign(value=ast.Constant(value=None))
        ):
            return True
    return False


def _bound_in_tree(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Assign(targets=targets) | ast.Delete(targets=targets):
            for target in targets:
                yield from _names_in_target(target)
        case ast.AugAssign() | ast.AnnAssign() | ast.For() | ast.AsyncFor():
            yield from _names_in_target(node.target)
        case ast.With(items=items) | ast.AsyncWith(items=items):
            for item in items:
                if item.optional_vars is not None:
                    yield from _names_in_target(item.optional_vars)
        case ast.ClassDef(name=name) | ast.ExceptHandler(name=str(name)):
            yield name
        case _ if type(node).__name__ == "TypeAlias":  # from Python 3.12 on
            yield from _names_in_target(getattr(node, "name"))  # noqa: B009


def _names_in_target(target: ast.AST) -> Iterator[str]:
    match target:
        case ast.Name(id=name):
            yield name
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            for element in elements:
                yield from _names_in_target(element)
        case ast.Starred(value=value):
            yield from _names_in_target(value)


# --- libcst ------------------------------------------------------------------------------------


def bindings_of_module(module: cst.Module) -> Bindings:
    """Return what a module binds, as libcst reads it."""
    bindings = Bindings(aliases=list(_aliases(module)))
    for node in _statements(module.body):
        if isinstance(node, (cst.Import, cst.ImportFrom)):
            bindings.imports += imported(node)
            continue
        if isinstance(node, cst.FunctionDef):
            bindings.functions.append((node.name.value, _positional(node)))
        if not _is_placeholder(node):
            bindings.bound += _bound_by(node)
    definitions = (node for node in module.body if isinstance(node, DEFINITIONS))
    bindings.defined.update(node.name.value for node in definitions)
    return bindings


def _positional(function: cst.FunctionDef) -> list[str] | None:
    parameters = function.params
    if (
        function.decorators
        or parameters.posonly_params
        or isinstance(parameters.star_arg, cst.Param)
    ):
        return None
    return [parameter.name.value for parameter in parameters.params]


def imported(
    node: cst.Import | cst.ImportFrom, *, whole: bool = False
) -> Iterator[tuple[str, str]]:
    """Each name that an import binds, and what it is.

    `import a.b` binds `a`; with `whole`, it is `a.b`.
    """
    if isinstance(node.names, cst.ImportStar):
        return
    above = ""
    if isinstance(node, cst.ImportFrom):
        module = get_full_name_for_node(node.module) if node.module else None
        above = "." * len(node.relative) + (f"{module}." if module else "")
    for alias in node.names:
        name, local = alias.evaluated_name, alias.evaluated_alias
        if isinstance(node, cst.Import) and local is None and not whole:
            name = name.partition(".")[0]
        yield local or name, above + name


def _statements(body: Iterable[cst.CSTNode]) -> Iterator[cst.CSTNode]:
    """Every statement in some blocks, and what is in them, without expressions."""
    for statement in body:
        if isinstance(statement, cst.SimpleStatementLine):
            yield from statement.body
            continue
        yield statement
        for _, inner in parts_inside(statement):
            yield from _statements(inner)


def parts_inside(statement: cst.CSTNode) -> Iterator[tuple[str, Iterable[cst.CSTNode]]]:
    """The blocks of a statement by their fields: what each has, or is, as `else` and `except`."""
    for part in BLOCKS:
        inner = getattr(statement, part, None)
        if isinstance(inner, cst.BaseSuite):
            yield part, statements_of(inner)
        elif isinstance(inner, (list, tuple)):
            yield part, inner
        elif inner is not None:
            yield part, [inner]


def _aliases(module: cst.Module) -> Iterator[tuple[str, str]]:
    """The names that the module itself gives to other names, as `Z = Y` does, with these."""
    for line in module.body:
        for node in line.body if isinstance(line, cst.SimpleStatementLine) else ():
            match node:
                case cst.Assign(
                    targets=[cst.AssignTarget(target=cst.Name(value=alias))],
                    value=cst.Name(value=name),
                ) if name not in _CONSTANTS:
                    yield alias, name


def _is_placeholder(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Assign, cst.AnnAssign)) and (
        isinstance(node.value, cst.Name) and node.value.value == "None"
    )


def bound_by_header(statement: cst.CSTNode) -> Iterator[str]:
    """The names that a statement binds, without those that others in its blocks bind."""
    yield from bound_names(statement)
    if isinstance(statement, cst.With):
        for item in statement.items:
            if item.asname is not None:
                yield from bound_names(item.asname)


def _bound_by(node: cst.CSTNode) -> Iterator[str]:
    """The names that a statement binds, its parameters included."""
    yield from bound_by_header(node)
    if isinstance(node, (cst.ExceptHandler, cst.ExceptStarHandler)) and node.name is not None:
        yield from bound_names(node.name)
    elif isinstance(node, cst.FunctionDef):
        parameters = (each for each in node.params.children if isinstance(each, cst.Param))
        yield from (parameter.name.value for parameter in parameters)
