from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, run
from vpatch.codemods.pattern import PatternError


def put(of, value="2", was="1"):
    return {"set-value": value, "of": of, "was": was}


@pytest.mark.parametrize(
    ("edit", "before", "after"),
    [
        (put("X"), "X  =  1  # why\n", "X  =  2  # why\n"),
        (put("X"), "X: int=1\n", "X: int=2\n"),
        (put("C.X"), "X = 1\nclass C:\n    X = 1\n", "X = 1\nclass C:\n    X = 2\n"),
        (put("X", was="(1)"), "X = 0x1", "X = 2"),
        (put("X", "[a, 'b']", "[ a ]"), "X = [\r\n\ta,\r\n]\r\n", "X = [a, 'b']\r\n"),
    ],
)
def test_set_value(edit, before, after):
    assert edited(edit, before) == after


def test_value_that_is_there_is_done():
    assert edited(put("X", "f(a, b)"), "X = f(a,b,)\n") == "X = f(a,b,)\n"


def test_value_that_is_neither():
    result = run(put("X"), "X = 3\n")
    assert result.mismatch == "vllm/m.py: its value is 3, expected 1"


def test_ellipsis_is_a_value():
    assert edited(put("X", "F(...)"), "X = 1\n") == "X = F(...)\n"
    assert "expected F(...)" in run(put("X", "1", "F(...)"), "X = F(2)\n").mismatch


@pytest.mark.parametrize("source", ["def f():\n    X = 1\n", "X: int\n", "Y = X\n", "c.X = 1\n"])
def test_variable_elsewhere(source):
    assert run(put("X"), source).mismatch == "expected 1, found 0"


def test_two_where_one_was_declared():
    assert run(put("X"), "X = 1\nX = 1\n").mismatch == "expected 1, found 2"


def test_value_is_plain_code():
    with pytest.raises(PatternError, match=r"\$x stands in the new code"):
        edits_of(put("X", "$x"))
