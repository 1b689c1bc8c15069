"""Lines of text, broken between words where there is no room for them."""

from __future__ import annotations

import shutil
import sys
import textwrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Wider than any line, for output that no terminal shows.
NO_LIMIT = 100_000


def line_width(otherwise: int = NO_LIMIT) -> int:
    """How wide the terminal is, or `otherwise` where no terminal shows the output."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else otherwise


def wrapped(text: str, width: int, *, at: int = 0, hanging: int = 2) -> Iterator[str]:
    """The lines of a text without styles, `at` blanks to the right, and no wider than `width`.

    What is left of a line goes on below it, `hanging` blanks further to the right.
    """
    for one in text.split("\n"):
        line = f"{' ' * at}{one}".rstrip()
        if len(line) <= width:
            yield line
            continue
        indent = " " * (len(line) - len(line.lstrip()) + hanging)
        yield from textwrap.wrap(
            line, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
        )
