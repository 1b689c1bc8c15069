"""Text of others in Markdown, so that it is only shown."""

from __future__ import annotations

import re

_TICKS = re.compile(r"`+")
_MENTION = re.compile(r"@(?=\w)")
# An underscore within a word is not markup.
_SPECIAL = re.compile(r"([\\`*\[\]<>|#]|(?<![^\W_])_|_(?![^\W_]))")


def escape(text: str) -> str:
    """Return a text on one line, in which nothing is markup."""
    # GitHub would tell whoever is called so, and no backslash prevents that.
    return _SPECIAL.sub(r"\\\1", _MENTION.sub("\uff20", " ".join(text.splitlines())))


def fence_of(text: str) -> str:
    """Return a fence that no line of a text can end."""
    longest = max(map(len, _TICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)
