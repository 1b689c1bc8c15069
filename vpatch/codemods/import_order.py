"""The order of imports, as isort and ruff have it by their own settings, which are vLLM's."""

from __future__ import annotations

import re
import sys

import libcst as cst
from libcst.helpers import get_full_name_for_node

Node = cst.Import | cst.ImportFrom
_DIGITS = frozenset("0123456789")
_PIECE = re.compile(r"[0-9]+|.", re.DOTALL)
_FUTURE, _STANDARD, _THIRD_PARTY, _FIRST_PARTY, _RELATIVE = range(5)
_OWN = frozenset({"vllm"})
# The standard library of Python 3.10 to 3.14, which ruff knows: the order must not depend on the
# Python that runs vpatch.
_STANDARD_LIBRARY = sys.stdlib_module_names | {
    *("aifc", "annotationlib", "asynchat", "asyncore", "audioop", "binhex", "cgi", "cgitb"),
    *("chunk", "compression", "crypt", "distutils", "imghdr", "imp", "lib2to3", "mailcap"),
    *("msilib", "nis", "nntplib", "ossaudiodev", "pipes", "smtpd", "sndhdr", "spwd", "sunau"),
    *("telnetlib", "tomllib", "uu", "xdrlib"),
}
# A text by its characters, and each number in it by its value: its digits and how many they are.
_Natural = tuple[tuple[int, int, str], ...]


def section_of(node: Node) -> int:
    """Which group of imports one belongs to; groups have a blank line between them."""
    root = root_of(node)
    if isinstance(node, cst.ImportFrom) and node.relative:
        return _RELATIVE
    if root == "__future__":
        return _FUTURE
    if root in _STANDARD_LIBRARY:
        return _STANDARD
    return _FIRST_PARTY if root in _OWN else _THIRD_PARTY


def root_of(node: Node) -> str:
    """The package that an import is from; nothing for a relative one."""
    if isinstance(node, cst.ImportFrom) and node.relative:
        return ""
    return module_of(node).partition(".")[0]


def module_of(node: Node) -> str:
    """The dotted name of a module, without the dots of a relative import."""
    if isinstance(node, cst.Import):
        return node.names[0].evaluated_name
    return (get_full_name_for_node(node.module) or "") if node.module else ""


def order_of(node: Node) -> tuple[object, ...]:
    """What to sort the imports of a group by."""
    module = module_of(node)
    is_from = isinstance(node, cst.ImportFrom)
    # Those of packages further up come first.
    level = -len(node.relative) if isinstance(node, cst.ImportFrom) else 0
    return (is_from, level, _natural(module.lower()), _natural(module), _first_name(node))


def _first_name(node: Node) -> tuple[object, ...]:
    if isinstance(node.names, cst.ImportStar):
        return ()
    first = node.names[0]
    alias = first.evaluated_alias or ""
    return (*(name_order(first) if isinstance(node, cst.ImportFrom) else ()), _natural(alias))


def name_order(alias: cst.ImportAlias) -> tuple[object, ...]:
    """What to sort the names of one import by: constants, classes, and then all others."""
    name = alias.evaluated_name
    kind = 2
    if len(name) > 1 and name.isupper():
        kind = 0
    elif name[:1].isupper():
        kind = 1
    return (kind, _natural(name.lower()), _natural(name))


def _natural(text: str) -> _Natural:
    """A key by which `a2` comes before `a10`. No number is too long for it."""
    pieces = ((piece[0], piece.lstrip("0")) for piece in _PIECE.findall(text))
    return tuple(
        (ord("0"), len(digits), digits) if first in _DIGITS else (ord(first), 0, "")
        for first, digits in pieces
    )
