"""Read the outline of a module from its source."""

from __future__ import annotations

import ast
import warnings
from importlib.util import decode_source

from vpatch.commands.compat.code.bind import block_of
from vpatch.commands.compat.code.expressions import dotted, last_name, texts_in
from vpatch.commands.compat.code.outline import Outline, Value
from vpatch.util.syntax import nodes_in
from vpatch.util.untrusted import MEGABYTE

# The largest module of vLLM has 0.5 MB.
LARGEST = 8 * MEGABYTE
_DYNAMIC = (b"exec(", b"globals()", b"locals()", b"vars()", b"sys.modules")
_DICTIONARIES = frozenset(["globals", "locals", "vars"])


class UnreadableError(Exception):
    """Python cannot parse a file; the text says why."""


def parse(source: bytes) -> ast.Module:
    """Parse a file.

    Raises:
        UnreadableError: it cannot be parsed.
    """
    if len(source) > LARGEST:
        raise UnreadableError(f"is larger than {LARGEST // MEGABYTE} MB")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(decode_source(source))
    except SyntaxError as error:
        line = f" (line {error.lineno})" if error.lineno else ""
        raise UnreadableError(f"is not Python that vpatch's own Python can read{line}") from error
    except (ValueError, UnicodeDecodeError, LookupError) as error:
        raise UnreadableError("is not text in Python's encoding") from error
    except (RecursionError, MemoryError) as error:
        raise UnreadableError("is nested too deeply") from error


def read_outline(source: bytes) -> Outline:
    """Return what a module binds; one that cannot be read has an `error`."""
    try:
        return outline_of_tree(parse(source), source)
    except UnreadableError as error:
        return Outline({}, error=str(error))
    except RecursionError:
        return Outline({}, error="is nested too deeply")


def outline_of_tree(tree: ast.Module, source: bytes) -> Outline:
    block = block_of(tree.body)
    # Most files have none of these words, and to walk through syntax takes long.
    hook = None
    if b"__getattr__" in source:
        hook = next((one for one in ast.walk(tree) if _is_hook(one, tree)), None)
    if b"global " in source:
        for one in nodes_in(tree.body):
            if isinstance(one, ast.Global):
                for name in one.names:
                    block.names.setdefault(name, []).append(Value("sometimes", one.lineno))
    lazy, is_closed = (None, False) if hook is None else _lazy_names(hook, tree)
    exported = None
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                exported = texts_in(value)
            case ast.AugAssign(target=ast.Name(id="__all__")):
                exported = None
            case _:
                pass
    names = {name: tuple(several) for name, several in block.names.items()}
    is_dynamic = any(word in source for word in _DYNAMIC)
    dynamic = _what_is_dynamic(tree) if is_dynamic else ""
    return Outline(names, tuple(block.stars), dynamic, lazy, is_closed, exported)


def _is_hook(node: ast.AST, tree: ast.Module) -> bool:
    """Whether a node is the `__getattr__` of a module, be it in a branch."""
    is_named = isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    return is_named and not any(
        isinstance(outer, ast.ClassDef) and node in outer.body for outer in ast.walk(tree)
    )


def _lazy_names(hook: ast.AST, tree: ast.Module) -> tuple[tuple[str, ...], bool]:
    """Return what a module's `__getattr__` may know, and whether it certainly knows no more.

    That is each text of the module that can be a name. It knows no more if it ends with an
    AttributeError, and asks nobody else but below a comparison of the name.
    """
    texts = {
        one.value
        for one in ast.walk(tree)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }
    names = tuple(sorted(text for text in texts if text.isidentifier()))
    return names, isinstance(hook, ast.FunctionDef) and _ends_with_error(hook.body, asks=False)


def _ends_with_error(body: list[ast.stmt], *, asks: bool) -> bool:
    """Whether a block raises at its end, and asks others only below comparisons of a name."""
    for node in body[:-1]:
        if isinstance(node, ast.If) and _compares_name(node.test):
            continue
        if not asks and _asks_others(node):
            return False
    match body[-1]:
        case ast.Raise():
            return True
        case ast.If(test=test, orelse=[*_, _] as orelse) if _compares_name(test):
            return _ends_with_error(orelse, asks=asks)
        case _:
            return False


def _compares_name(test: ast.expr) -> bool:
    match test:
        case ast.Compare(left=ast.Name(), ops=[ast.Eq() | ast.In()]):
            return True
        case _:
            return False


def _asks_others(node: ast.AST) -> bool:
    asked = {"getattr", "import_module", "__import__"}
    return any(isinstance(one, ast.Call) and last_name(one.func) in asked for one in ast.walk(node))


def _what_is_dynamic(tree: ast.Module) -> str:
    """Say what in a module may bind names that nobody can read, or return ""."""
    for node in nodes_in(tree.body):
        match node:
            case ast.Call(func=ast.Name(id="exec")):
                return "it runs exec"
            case ast.Call(
                func=ast.Attribute(value=ast.Call(func=ast.Name(id=name)), attr="update")
            ) if name in _DICTIONARIES:
                return f"it updates {name}()"
            case ast.Subscript(value=ast.Call(func=ast.Name(id=name)), ctx=ast.Store()) if (
                name in _DICTIONARIES
            ):
                return f"it writes to {name}()"
            case ast.Subscript(value=value, slice=ast.Name(id="__name__")) if (
                dotted(value) == "sys.modules"
            ):
                return "it uses its own entry in sys.modules"
            case _:
                pass
    return ""
