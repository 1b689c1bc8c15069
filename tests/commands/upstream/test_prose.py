"""Paragraphs, lists and code, joined and broken anew."""

from __future__ import annotations

import pytest

from vpatch.commands.upstream.prose import unwrapped, wrapped


@pytest.mark.parametrize(
    ("text", "joined"),
    [
        ("one\ntwo\n\nthree\nfour\n", "one two\n\nthree four"),
        ("- one\n  more\n- two\n", "- one more\n- two"),
        ("1. one\n2. two\n", "1. one\n2. two"),
        ("see\n```bash\na\nb\n```\nand\nso", "see\n```bash\na\nb\n```\nand so"),
        ("see\n\n    a\n    b\n\nso", "see\n\n    a\n    b\n\nso"),
        ("# Title\ntext\nmore", "# Title\ntext more"),
        ("| a |\n|---|\n| b |\nafter", "| a |\n|---|\n| b |\nafter"),
        ("> said\nmore", "> said\nmore"),
        ("", ""),
    ],
)
def test_unwrapped(text, joined):
    assert unwrapped(text) == joined
    assert unwrapped(joined) == joined


def test_wrapped():
    assert wrapped("aaa bbb\nccc\n\n- d e f g h i j k", 8) == "aaa bbb\nccc\n\n- d e f g h i j k"
    assert (
        wrapped("self.long_name_of_something-else(x)", 8) == "self.long_name_of_something-else(x)"
    )
