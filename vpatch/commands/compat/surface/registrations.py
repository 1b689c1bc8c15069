"""Code that names something of vLLM in texts: models, import hooks, arguments of `vllm serve`."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from vpatch.commands.compat.code.expressions import dotted, last_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vpatch.commands.compat.surface.items import Ref

# Functions of wrapt that take a module, or its name, and what they wrap in it.
_WRAPPERS = frozenset(
    [
        *("patch_function_wrapper", "transient_function_wrapper", "wrap_function_wrapper"),
        *("wrap_object", "wrap_object_attribute"),
    ]
)
_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+:[A-Za-z_]\w*")
_SERVE = re.compile(r"\bvllm serve\b")
_FLAG = re.compile(r"(?<!\S)--[a-z][a-z0-9]*(?:[-_][a-z0-9]+)*(?=[\s=]|\Z)")


class RegisteredModel(NamedTuple):
    """A model that the target gives to vLLM: its architecture, and the class if that is a text."""

    architecture: str
    path: str


def hooked(node: ast.Call) -> tuple[ast.expr | str, str] | None:
    """Return the module and the attribute in it that a call of wrapt wraps, or waits for."""
    last = last_name(node.func)
    match node.args:
        case [ast.Constant(value=str(module)), *_] if last == "when_imported":
            return module, ""
        case [_, ast.Constant(value=str(module)), *_] if last == "register_post_import_hook":
            return module, ""
        case [ast.Constant(value=str(module)), ast.Constant(value=str(name)), *_] if (
            last in _WRAPPERS
        ):
            return module, name
        case [module, ast.Constant(value=str(name)), *_] if last in _WRAPPERS:
            return module, name
        case _:
            return None


def registered_model(node: ast.Call) -> RegisteredModel | None:
    """Return what `ModelRegistry.register_model("Name", "package.module:Class")` names."""
    if not (dotted(node.func) or "").endswith("ModelRegistry.register_model"):
        return None
    match node.args:
        case [ast.Constant(value=str(name)), ast.Constant(value=str(path))] if _PATH.fullmatch(
            path
        ):
            return RegisteredModel(name, path.replace(":", "."))
        case [ast.Constant(value=str(name)), *_]:
            return RegisteredModel(name, "")
        case _:
            return None


def added_flags(node: ast.Call, meaning: Callable[[ast.expr], Ref | None]) -> Iterator[str]:
    """Yield the arguments that a call adds to a parser of vLLM, or to a group of it."""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument":
        ref = meaning(node.func.value)
        if ref is not None and ref.roots[0].endswith(".FlexibleArgumentParser"):
            texts = (one.value for one in node.args if isinstance(one, ast.Constant))
            yield from (text for text in texts if isinstance(text, str) and _FLAG.fullmatch(text))


def flags_in_text(value: object) -> Iterator[str]:
    """Yield the arguments of a text that calls `vllm serve`."""
    if isinstance(value, str) and _SERVE.search(value):
        yield from _FLAG.findall(value[_SERVE.search(value).end() :])  # type: ignore[union-attr]


def flags_in_list(node: ast.List | ast.Tuple) -> Iterator[str]:
    """Yield the arguments of a list such as `["vllm", "serve", model, "--port", "1"]`."""
    texts = [
        one.value if isinstance(one, ast.Constant) and isinstance(one.value, str) else ""
        for one in node.elts
    ]
    if ("vllm", "serve") in pairwise(texts):
        start = texts.index("serve")
        for text in texts[start:]:
            yield from _FLAG.findall(text.partition("=")[0])
