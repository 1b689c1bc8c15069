"""The first line that keeps a hunk from its place."""

from __future__ import annotations

import pytest

from vpatch.util.nearest_lines import first_difference

WANTED = ["def f():", "    a", "", "    b", "    c"]
ABOVE = [f"line {number}" for number in range(30)]


def found(wanted, there, near=1):
    differs = first_difference(wanted, there, near)
    return differs and (differs.line, differs.expected, differs.actual)


@pytest.mark.parametrize(
    ("there", "differs"),
    [
        (["def f():", "    a", "", "    B", "    c"], (34, "    b", "    B")),
        (["def f(x):", "    a", "", "    b", "    c"], (31, "def f():", "def f(x):")),
        (["def f():", "    a", "", "    b", "    C"], (35, "    c", "    C")),
        (["def f():", "    a", "", "    new", "    b", "    c"], (34, "    b", "    new")),
        (["def f():", "    a", "", "    c"], (34, "    b", "    c")),
        (["def f():", "    a", "", "    b"], (35, "    c", None)),
        (["    a", "", "    b", "    c"], (30, "def f():", "line 29")),
        ([*WANTED[:3], "new", "newer", "newest", *WANTED[3:], "d"], (34, "    b", "new")),
        (["def g():", "    B", "", "    b", "    c"], (32, "    a", "    B")),
        (WANTED, None),
    ],
)
def test_the_first_line_that_differs(there, differs):
    assert found(WANTED, ABOVE + there) == differs


def test_lines_that_are_rare_tell_the_place():
    common = ["a", "return", "return", "b"]
    there = [*common, *common, "only(here)", "x", "y", "z"]
    assert found(["only(here)", "return", "return", "end"], there) == (10, "return", "x")


def test_lines_that_are_missing_above_the_first():
    assert found(["a", "b", "c"], ["c"]) == (1, "b", "c")


def test_of_places_that_are_alike_the_nearest_counts():
    there = ["x", "A", *ABOVE, "x", "B"]
    assert found(["x", "a"], there, near=1) == (2, "a", "A")
    assert found(["x", "a"], there, near=33) == (34, "a", "B")


def test_a_single_line_is_compared_with_those_that_are_like_it():
    assert found(["MAX_LEN = 127"], [*ABOVE, "MAX_LEN = 128"]) == (
        31,
        "MAX_LEN = 127",
        "MAX_LEN = 128",
    )
    assert found(["MAX_LEN = 127"], ABOVE) is None
    assert found([], ABOVE) is None


def test_blanks_that_differ_can_be_seen():
    assert str(first_difference(["a", "\tb"], ["a", "    b"])) == (
        "expected  '\\tb'\nfound     '    b'"
    )
