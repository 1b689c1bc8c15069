from __future__ import annotations

import unicodedata

import pytest

from vpatch.util.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain\n\ttext, \u00e4\u6f22\U0001f600", "plain\n\ttext, \u00e4\u6f22\U0001f600"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("\x1b]8;;http://a\x07here\x1b]8;;\x1b\\", "\\x1b]8;;http://a\\x07here\\x1b]8;;\\x1b\\"),
        ("\x9b31m\x9d0;title\x9c", "\\x9b31m\\x9d0;title\\x9c"),
        ("over\rwritten\x08", "over\\rwritten\\x08"),
        ("a\r\nb\x85c\u2028d", "a\nb\\x85c\\u2028d"),
        ("safe\u202eexe.txt\u2066\u200f", "safe\\u202eexe.txt\\u2066\\u200f"),
        ("\u200b\ufeff\u2060\U000e0041", "\\u200b\\ufeff\\u2060\\U000e0041"),
        ("\x00\x7f\ud800", "\\x00\\x7f\\ud800"),
    ],
)
def test_what_is_hidden_is_shown(text, shown):
    assert visible(text) == shown


@pytest.mark.slow
def test_no_control_and_no_direction_is_left():
    every = "".join(map(chr, range(0x110000)))
    left = set(visible(every)) - {"\n", "\t"}
    assert not [c for c in left if unicodedata.category(c) in {"Cc", "Cs", "Zl", "Zp"}]
    assert not [c for c in left if unicodedata.bidirectional(c) in _DIRECTIONS]


_DIRECTIONS = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}
