"""Texts in the target's code that name something of vLLM."""

from __future__ import annotations

import ast
import re

from vpatch.commands.compat.code.expressions import dotted

_PATH = re.compile(r"vllm(?:\.[A-Za-z_]\w*)+(?::[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)?")
_OPERATOR = re.compile(r"torch\.ops\.(vllm|_\w*C(?:_\w+)?)\.([A-Za-z_]\w*)(?:\.\w+)?")
_VARIABLE = re.compile(r"VLLM_[A-Z0-9_]+")
_READERS = frozenset(
    ["os.getenv", "os.environ.get", "os.environ.setdefault", "os.environ.pop", "getenv"]
)


def string_path(value: object) -> str | None:
    """Return the dotted name that a text such as `vllm.v1.worker:Worker` seems to be."""
    if not isinstance(value, str) or not _PATH.fullmatch(value) or value.endswith(".py"):
        return None
    return value.replace(":", ".")


def operator_name(node: ast.Attribute) -> str | None:
    """Return `_C.silu_and_mul` of `torch.ops._C.silu_and_mul`."""
    if not isinstance(node.value, ast.Attribute):
        return None
    match = _OPERATOR.fullmatch(dotted(node) or "")
    return f"{match[1]}.{match[2]}" if match else None


def environment_name(node: ast.Call | ast.Subscript) -> tuple[str, ...]:
    """Return the variable of vLLM that code reads from or writes to the environment."""
    value: ast.expr | None = None
    if isinstance(node, ast.Subscript) and dotted(node.value) in {"os.environ", "environ"}:
        value = node.slice
    elif isinstance(node, ast.Call) and dotted(node.func) in _READERS and node.args:
        value = node.args[0]
    if isinstance(value, ast.Constant) and isinstance(value.value, str):
        return (value.value,) if _VARIABLE.fullmatch(value.value) else ()
    return ()
