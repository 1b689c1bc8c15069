"""Words in bytes: the longest runs of letters, digits and underscores of ASCII."""

from __future__ import annotations

import re

WORDS = re.compile(rb"\w+")


def has_word(word: bytes, text: bytes) -> bool:
    """Whether a text has a word, and not only as a part of another."""
    # The plain search is much faster than the expression, and nearly always says no.
    return word in text and re.search(rb"(?<!\w)" + re.escape(word) + rb"(?!\w)", text) is not None
