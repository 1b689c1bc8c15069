"""Take tests of vLLM from the tree of another release, and run them in this engine.

Such a file imports what only its own release has. So this takes the wanted tests, and what they
use, and nothing else of the file. An import that fails, fails in the test that uses its name.
"""

from __future__ import annotations
import __future__

import ast
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["taken_from"]

# As `from __future__ import annotations`: the names in them may be missing here.
_ANNOTATIONS = __future__.annotations.compiler_flag
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_DEFINITIONS = (*_FUNCTIONS, ast.ClassDef)


class _Missing:
    """What an import did not find: the first use raises what the import raised."""

    def __init__(self, error: ImportError) -> None:
        self._error = error

    def __call__(self, *_: object, **__: object) -> Any:
        raise self._error

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise self._error


def taken_from(
    path: str,
    *wanted: str,
    moved: Mapping[str, str] | None = None,
    helpers: str | None = None,
) -> dict[str, Any]:
    """Return tests of a file below `tests/` of the release in UPSTREAM, with their fixtures.

    Args:
        path: the file, such as `v1/core/test_scheduler.py`.
        wanted: `test_function`, `TestClass` or `TestClass.test_method`; without any, all tests.
        moved: modules of vLLM that have another name in this engine.
        helpers: the variable of a release whose modules below `tests/` tests import first. Those of
            a newer one may need what this engine does not have.
    """
    root = Path(os.environ["UPSTREAM"])
    file = root / "tests" / path
    _find_tests_in(*([Path(os.environ[helpers])] if helpers else []), root)
    tree = ast.parse(file.read_bytes())
    bindings = {name: node for node in tree.body for name in _bindings(node)}
    tests = [name for name in bindings if name.startswith(("test_", "Test"))]
    _keep_methods(bindings, wanted)
    used = _find_used(bindings, [name.partition(".")[0] for name in wanted] or tests, file)
    module = ModuleType(".".join(["tests", *Path(path).with_suffix("").parts]))
    module.__dict__.update(__file__=str(file), __package__=module.__name__.rpartition(".")[0])
    sys.modules[module.__name__] = module
    for node in tree.body:
        names = [name for name in _bindings(node) if name in used]
        if isinstance(node, ast.Import | ast.ImportFrom):
            _import(node, used, module, moved or {})
        elif names:
            _run(node, module)
    definitions = {name for name in used if isinstance(bindings[name], _DEFINITIONS)}
    return {name: vars(module)[name] for name in definitions}


def _find_tests_in(*roots: Path) -> None:
    """Let `import tests` find the folders of some releases, and nothing else of them.

    With a whole release on sys.path, its `vllm.egg-info` says which vLLM is installed. It says no
    `cpu`, and then vLLM finds no platform.
    """
    package = sys.modules.setdefault("tests", ModuleType("tests"))
    known = list(getattr(package, "__path__", []))
    package.__path__ = [str(root / "tests") for root in roots] + known


def _bindings(node: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a module defines."""
    if isinstance(node, _DEFINITIONS):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        for alias in node.names:
            yield _name(alias)
    else:
        for part in ast.walk(node):
            if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store):
                yield part.id


def _name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _keep_methods(bindings: Mapping[str, ast.stmt], wanted: tuple[str, ...]) -> None:
    """Remove the other tests of a class if only some of its methods are wanted."""
    for scope in {name.partition(".")[0] for name in wanted if "." in name}:
        node = bindings.get(scope)
        if not isinstance(node, ast.ClassDef):
            raise ValueError(f"there is no class {scope}: correct the name of the test")  # noqa: TRY004
        methods = {part.name for part in node.body if isinstance(part, _FUNCTIONS)}
        tests = {name.partition(".")[2] for name in wanted if name.startswith(f"{scope}.")}
        if unknown := tests - methods:
            raise ValueError(f"{scope} has no {', '.join(sorted(unknown))}: correct the name")
        node.body = [
            part
            for part in node.body
            if not isinstance(part, _FUNCTIONS)
            or not part.name.startswith("test_")
            or part.name in tests
        ]


def _find_used(bindings: Mapping[str, ast.stmt], wanted: list[str], file: Path) -> set[str]:
    """Return the names that tests need, by which statements the file defines them."""
    if unknown := [name for name in wanted if name not in bindings]:
        raise ValueError(f"{file} has no {', '.join(unknown)}: correct the name")
    used: set[str] = set()
    todo = list(wanted)
    while todo:
        name = todo.pop()
        if name in used or name not in bindings:
            continue
        used.add(name)
        todo += _names(bindings[name])
    return used


def _names(node: ast.AST) -> Iterator[str]:
    """Yield the names that code uses, but for annotations; an argument may be a fixture."""
    if isinstance(node, ast.Name):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns"}:
            continue
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                yield from _names(part)


def _import(
    node: ast.Import | ast.ImportFrom,
    used: set[str],
    module: ModuleType,
    moved: Mapping[str, str],
) -> None:
    for alias in node.names:
        if _name(alias) not in used:
            continue
        one: ast.stmt = ast.Import([alias])
        if isinstance(node, ast.ImportFrom):
            source = moved.get(node.module or "", node.module)
            one = ast.ImportFrom(source, [alias], node.level)
        try:
            _run(ast.copy_location(one, node), module)
        except ImportError as error:
            vars(module)[_name(alias)] = _Missing(error)


def _run(node: ast.stmt, module: ModuleType) -> None:
    code = compile(
        ast.Module([node], []),
        module.__file__ or "",
        "exec",
        flags=_ANNOTATIONS,
        dont_inherit=True,
    )
    exec(code, vars(module))  # noqa: S102 - it is the test that the patch declares
