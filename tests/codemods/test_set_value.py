from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run


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
    with fails("codemods.unknown-metavariable", r"\$x is in the new code"):
        edits_of(put("X", "$x"))


@pytest.mark.parametrize(
    ("binding", "said"),
    [
        ("X, Y = 1, 2", "X, Y = 1, 2"),
        ("[Y, (*X, Z)] = a", "[Y, (*X, Z)] = a"),
        ("Y = X = 1", "Y = X = 1"),
        ("X += 0", "X += 0"),
        ("if (X := 5): pass", "(X := 5)"),
        ("y = [(X := i) for i in a]", "(X := i)"),
        ("def f(a=(X := 5)): pass", "(X := 5)"),
        ("for X in a: pass", "for X in a: pass"),
        ("for i, X in a: pass", "for i, X in a: pass"),
        ("with a as X: pass", "as X"),
        ("with a as (Y, X): pass", "as (Y, X)"),
        ("try: pass\nexcept E as X: pass", "as X"),
        ("del X", "del X"),
        ("del Y, X", "del Y, X"),
        ("import X", "X"),
        ("import X.y", "X.y"),
        ("import a as X", "as X"),
        ("from a import X", "X"),
        ("from a import b as X", "as X"),
        ("def X(): pass", "def X(): pass"),
        ("class X: pass", "class X: pass"),
        ("match a:\n    case {'k': X}: pass", "X"),
    ],
)
def test_another_binding_is_a_problem(binding, said):
    for source in (f"X = 1\n{binding}\n", f"{binding}\nX = 2\n"):
        result = run(put("X"), source)
        assert result.mismatch == f"vllm/m.py: its value may also come from {said}"
        assert result.view.files == {}


@pytest.mark.parametrize(
    "other",
    [
        "def f():\n    X, Y = 1, 2\n    X += 1",
        "class C:\n    from a import X",
        "y = [X for X in a]",
        "c.X += 1",
        "X.a += 1",
        "X[0] = 1",
        "import a.X",
        "import X as Y",
        "X: int",
        "f(X=2)",
    ],
)
def test_binding_of_something_else(other):
    assert edited(put("X"), f"X = 1\n{other}\n") == f"X = 2\n{other}\n"


def test_import_of_the_variable_elsewhere_is_no_binding():
    files = {"vllm/a.py": "X = 1\n", "vllm/b.py": "from vllm.a import X\n"}
    result = run(put("X"), files)
    assert (result.mismatch, set(result.view.files)) == (None, {"vllm/a.py"})
