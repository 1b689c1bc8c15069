"""Keep code away from libcst that is nested too deeply for it.

libcst's parser recurses in native code: where its stack ends, the process dies without a message.
Its visitors recurse in Python. So every source is measured before libcst gets it, with Python's own
parser, which refuses what it cannot do.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
import warnings
from importlib.util import decode_source

# The deepest file of any release of vLLM has 29 levels. 1,000 are too many for libcst's visitors
# with Python's own recursion limit, and 3,000 end the process.
DEEPEST = 150
# Whatever is nested in so few bytes, libcst's parser survives it.
_SMALL = 1000
# Such as the three of a name: a statement, an expression and what it is for.
_SHARED_LEVELS = 5
_SECONDS = 60
_PARSE = "import sys, libcst; libcst.parse_module(sys.stdin.buffer.read())"
_QUOTES = (b'"', b"'")
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_START", tokenize.STRING)}


class NestedTooDeeplyError(Exception):
    """The code has more levels than DEEPEST; `line` is where it is known."""

    def __init__(self, line: int | None = None) -> None:
        super().__init__(f"is nested more than {DEEPEST} levels deep")
        self.line = line


def measured(source: bytes) -> ast.Module | None:
    """Parse code with Python's own parser; None where that does not know it.

    Raises:
        NestedTooDeeplyError: libcst is not to get it.
    """
    try:
        return parsed(source)
    except (SyntaxError, ValueError) as error:
        # It is not Python, or it is that of a newer release, which libcst knows.
        if len(source) > _SMALL and not _survives(source):
            raise NestedTooDeeplyError from error
        return None


def parsed(source: str | bytes) -> ast.Module:
    """Parse code with Python's own parser.

    Raises:
        SyntaxError, ValueError: it is not Python.
        NestedTooDeeplyError: nobody is to go through it.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about vLLM's own escapes and comparisons
        try:
            tree = ast.parse(source)
        except (RecursionError, MemoryError) as error:
            raise NestedTooDeeplyError from error
        except SyntaxError as error:
            if error.msg.startswith("too many"):
                raise NestedTooDeeplyError(error.lineno) from error
            raise
    _check_depth(tree, source.encode() if isinstance(source, str) else source)
    return tree


def _survives(source: bytes) -> bool:
    """Whether libcst's parser comes back; asked in a process of its own."""
    try:
        ended = subprocess.run(
            # Not from the current folder, which may have a libcst.py of somebody else.
            [sys.executable, "-P", "-c", _PARSE],
            input=source,
            capture_output=True,
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode >= 0


def _check_depth(tree: ast.Module, source: bytes) -> None:
    lines: list[bytes] = []
    waiting: list[tuple[ast.AST, int, int | None]] = [(tree, 0, None)]
    while waiting:
        node, depth, above = waiting.pop()
        line = getattr(node, "lineno", above)
        # One node for Python, and one inside the other for libcst.
        if isinstance(node, ast.BoolOp):
            depth += len(node.values)
        elif isinstance(node, (ast.Constant, ast.JoinedStr)):
            # The columns are of UTF-8, whatever the file's own encoding is.
            lines = lines or decode_source(source).encode().splitlines(keepends=True)
            depth += _pieces(node, lines, DEEPEST - depth)
        if depth > DEEPEST:
            raise NestedTooDeeplyError(line)
        depth += 1
        levels = DEEPEST - depth
        # As ast.iter_child_nodes does, in half the time.
        for value in node.__dict__.values():
            if isinstance(value, list):
                waiting += [
                    (child, depth, line)
                    for child in value
                    if isinstance(child, ast.AST) and not _is_short(child, levels)
                ]
            elif isinstance(value, ast.AST) and not _is_short(value, levels):
                waiting.append((value, depth, line))


def _is_short(node: ast.AST, levels: int) -> bool:
    """Whether code has so few characters that it cannot have more levels than `levels`.

    Each level takes one character at least, and a few levels at the end share theirs.
    """
    place = node.__dict__
    if "lineno" not in place or place["lineno"] != place.get("end_lineno"):
        # Such as what a name is for.
        return not place and levels > _SHARED_LEVELS
    # `end_col_offset` is there where `end_lineno` is.
    length: int = place["end_col_offset"] - place["col_offset"]
    return length < levels - _SHARED_LEVELS


def _pieces(node: ast.Constant | ast.JoinedStr, lines: list[bytes], workdir: int) -> int:
    """How many strings are side by side there, if there may be more than `workdir`."""
    rows = lines[node.lineno - 1 : node.end_lineno]
    rows[-1] = rows[-1][: node.end_col_offset]
    rows[0] = rows[0][node.col_offset :]
    text = b"".join(rows)
    if sum(text.count(quote) for quote in _QUOTES) <= workdir:
        return 0
    # In brackets, as it may have several lines.
    tokens = tokenize.generate_tokens(io.StringIO(f"({text.decode()})").readline)
    return sum(token.type in _STRINGS for token in tokens)
