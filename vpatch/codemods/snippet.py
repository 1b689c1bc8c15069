"""New code that a declaration gives, in its own text or in a file beside it."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import libcst as cst

from vpatch.codemods.diff import bytes_beside
from vpatch.codemods.names import BINDING, bound_names, expression_names, identifiers
from vpatch.codemods.nodes import PREFIX
from vpatch.codemods.pattern import EditError, Pattern, PatternError, parse_code, parse_plain
from vpatch.codemods.trees import import_of
from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vpatch.declare import edits as declared


def read_code(
    code: declared.Code, folder: Path, *, body_for: Pattern | None = None
) -> tuple[Sequence[cst.BaseStatement], tuple[Path, ...]]:
    """The statements of a snippet; with `body_for`, those inside the definition that it names.

    There, a parameter that is also a metavariable of `body_for` is this metavariable.
    """
    if isinstance(code, str):
        return parse_code(code), ()
    path = beside(folder, code.from_)
    # A file is complete Python: a $ in its strings and comments is not a metavariable.
    statements = parse_plain(_text(path))
    if code.name is None:
        return statements, (path,)
    for statement in statements:
        if (
            isinstance(statement, (cst.FunctionDef, cst.ClassDef))
            and statement.name.value == code.name
        ):
            if body_for is not None:
                return _body(statement, body_for, path), (path,)
            return [statement], (path,)
    raise EditError(
        f"{path.name} does not define {code.name}",
        where=str(path),
        hint="correct `name`, or define it at the top level of the file",
    )


def _text(path: Path) -> str:
    try:
        return bytes_beside(path).decode()
    except UnicodeDecodeError as error:
        raise PatternError(
            f"is not UTF-8: {error.reason}",
            where=str(path),
            hint="save it as UTF-8",
            code="codemods.unreadable-file",
        ) from error


def offers(files: Sequence[Path]) -> dict[str, str]:
    """How to bring along each name that a snippet's file imports or defines."""
    ways: dict[str, str] = {}
    for path in files:
        for node in ast.walk(ast.parse(_text(path))):
            if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                ways[node.name] = f"{path.name} defines it, so insert it too"
            elif isinstance(node, (ast.Import, ast.ImportFrom)):
                for alias in node.names:
                    one = ast.unparse(import_of(node, alias))
                    name = alias.asname or alias.name.partition(".")[0]
                    ways[name] = f"add the edit `add-import: {one}`, as {path.name} has it"
    return ways


def _body(
    definition: cst.FunctionDef | cst.ClassDef, pattern: Pattern, path: Path
) -> Sequence[cst.BaseStatement]:
    body = definition.body
    if not isinstance(body, cst.IndentedBlock):
        raise EditError(
            "the body is on the line of the header",
            where=str(path),
            hint="give the body lines of its own",
        )
    if isinstance(definition, cst.FunctionDef):
        as_variables = _AsVariables(_parameters(definition) & _variables(pattern), path)
        body = cst.ensure_type(body.visit(as_variables), cst.IndentedBlock)
    return body.body


def _parameters(function: cst.FunctionDef) -> set[str]:
    return {p.name.value for p in function.params.children if isinstance(p, cst.Param)}


def _variables(pattern: Pattern) -> set[str]:
    """The metavariables that are parameters in a pattern of a function."""
    if not isinstance(pattern.node, cst.FunctionDef):
        return set()
    return {name.removeprefix(PREFIX) for name in _parameters(pattern.node) if PREFIX in name}


class _AsVariables(cst.CSTTransformer):
    """Writes names as metavariables."""

    def __init__(self, names: set[str], path: Path) -> None:
        super().__init__()
        self.names = names
        self.path = path
        self.skipped: set[int] = set()

    def on_visit(self, node: cst.CSTNode) -> bool:
        self.skipped.update(map(id, identifiers(node)))
        bound = set(bound_names(node)) if isinstance(node, (*BINDING, cst.Param)) else set()
        if isinstance(node, cst.CompFor):
            bound = expression_names(node.target)
        elif isinstance(node, (cst.Global, cst.Nonlocal)):
            bound = {item.name.value for item in node.names}
        for name in sorted(bound & self.names):
            raise EditError(
                f"{name} is a parameter, and a name of something else in the new body",
                where=str(self.path),
                hint=f"give the other thing a name of its own, or leave ${name} out of `find`",
            )
        return True

    def leave_Name(self, original_node: cst.Name, updated_node: cst.Name) -> cst.Name:
        if original_node.value in self.names and id(original_node) not in self.skipped:
            return updated_node.with_changes(value=f"{PREFIX}{original_node.value}")
        return updated_node


def beside(folder: Path, name: str) -> Path:
    """A file in the patch's folder.

    Raises:
        UsageError: it is elsewhere, or missing.
    """
    path = folder / name
    if not path.resolve().is_relative_to(folder.resolve()):
        raise UsageError(
            f"{name!r} leaves the patch's folder",
            hint="keep the file beside patch.yaml",
            code="codemods.no-such-file",
        )
    if not path.is_file():
        raise UsageError(
            f"there is no file {name!r} beside patch.yaml",
            hint="correct the name, or add the file",
            code="codemods.no-such-file",
        )
    return path
