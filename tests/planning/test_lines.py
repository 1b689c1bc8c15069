from __future__ import annotations

import pytest

from vpatch.planning.lines import pristine_lines


@pytest.mark.parametrize(
    ("pristine", "patched", "lines"),
    [
        ("abc", "abc", [1, 2, 3]),
        ("abc", "xabc", [1, 1, 2, 3]),
        ("abc", "abxc", [1, 2, 3, 3]),
        ("abc", "abcx", [1, 2, 3, 3]),
        ("abc", "ac", [1, 3]),
        ("abc", "axc", [1, 2, 3]),
        ("abc", "axyzc", [1, 2, 2, 2, 3]),
        ("abcd", "axybdz", [1, 2, 2, 2, 4, 4]),
        ("aaa", "aaaa", [1, 2, 3, 3]),
    ],
)
def test_pristine_lines(pristine, patched, lines):
    found = pristine_lines("\n".join(pristine).encode(), "\n".join(patched).encode())
    assert list(found) == lines
