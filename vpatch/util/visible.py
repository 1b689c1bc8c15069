"""Text of others, made fit to be shown: nothing in it does more than be shown.

A title, a log or what an image answers may hold sequences that a terminal obeys, and characters
that turn text around or have no width.
"""

from __future__ import annotations

import re

# Lines and tabs may stay. The rest: C0 and C1, marks and overrides of the direction of writing,
# line separators, what has no width, tags, and halves of surrogate pairs.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    """Show each character that a terminal would obey, or nobody would see, as its code."""
    # Most text is plain, and a search is much faster than a replacement.
    if not _HIDDEN.search(text):
        return text
    return _HIDDEN.sub(lambda match: _code(match[0]), text.replace("\r\n", "\n"))


def _code(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def visible_line(text: str) -> str:
    """The same on one line, for the name of a file: it may have lines and tabs in it."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def without_colours(text: str) -> str:
    return _COLOUR.sub("", text) if "\x1b" in text else text
