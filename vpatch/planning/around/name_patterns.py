"""What the text of a Python file may do with a name, as far as no parser is needed.

To search a text is cheap, and so only files whose text may do what is asked for are parsed. That a
text may do it proves nothing. If it does not, the syntax does not do it either. A name that is
spelt with escapes or in pieces is not seen, as by every search for a word.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


_ANYTHING = re.compile(b"")


class NameUse(Enum):
    """What code does with a name: pairs of patterns of what is before and after it in its line."""

    CALLABLE = ((re.compile(rb".*\b(?:def|class)\s+"), _ANYTHING),)
    IMPORTED = (
        (re.compile(rb".*\bimport\b.*"), _ANYTHING),
        # In brackets, only other names are in the line.
        (re.compile(rb"[\s\w,(]*"), re.compile(rb"\s*(?:as\b|[,)#;\\]|$)", re.MULTILINE)),
    )
    # As a statement of its own.
    ASSIGNED = ((re.compile(rb"(?:.*[;:])?[\s(]*"), re.compile(rb"[\s)\\]*(?::|=(?!=))")),)
    OWN_ATTRIBUTE = ((re.compile(rb".*\b(?:self|cls)[\s)]*\.\s*|[\s)]*\.\s*"), _ANYTHING),)
    ATTRIBUTE = ((re.compile(rb".*\.\s*"), _ANYTHING),)
    TEXT = ((re.compile(b".*"), re.compile(b"['\"]")),)


DEFINED = (NameUse.CALLABLE, NameUse.IMPORTED, NameUse.ASSIGNED)


def may_use(text: bytes, name: str, uses: Iterable[NameUse]) -> bool:
    """Whether a text may do one of some things with a name."""
    patterns = [pair for use in uses for pair in use.value]
    for first, last in _places(text, name):
        line = max(text.rfind(b"\n", 0, first), text.rfind(b"\r", 0, first)) + 1
        before = text[line:first]
        if not before.strip() and text[:line].rstrip().endswith(b"\\"):
            return True  # the line above goes on
        if any(above.fullmatch(before) and below.match(text, last) for above, below in patterns):
            return True
    return False


def _places(text: bytes, name: str) -> Iterator[tuple[int, int]]:
    for match in _word(name).finditer(text):
        first, last = match.span()
        if not _is_of_name(text[first - 1 : first]):
            yield first, last


@cache
def _word(name: str) -> re.Pattern[bytes]:
    # One that begins with the word itself is looked for much faster.
    return re.compile(re.escape(name.encode()) + rb"\b")


def _is_of_name(byte: bytes) -> bool:
    return byte.isalnum() or byte == b"_"
