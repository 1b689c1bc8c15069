"""What a rewrite adds or takes away in a row, and how the rest of the row stays as it is."""

from __future__ import annotations

import pytest

from tests.helpers import edited, run

DEF = """\
def f(
    a: int,  # one
    b: str = 'x',
    *,
    c: float,  # three
) -> None:
    pass
"""
CALL = """\
g(
    a,  # one
    b,
    j=2,
)
"""


def rewrite(find, new):
    return {"find": find, "rewrite": new}


@pytest.mark.parametrize(
    ("find", "new", "old", "made"),
    [
        ("(a, b='x', *, c)", "(a, z, b='x', *, c)", "# one\n", "# one\n    z,\n"),
        ("(a, b='x', *, c)", "(z, a, b='x', *, c)", "(\n", "(\n    z,\n"),
        ("(a, b='x', *, c)", "(a, b='x', *, c, d=1)", "# three\n", "# three\n    d=1,\n"),
        ("(a, b='x', *, c)", "(a, b='x', *, d: int, c)", "    c:", "    d: int,\n    c:"),
        ("(a, b='x', *, c)", "(a, b='y', *, c)", "'x'", "'y'"),
        ("(a, b='x', *, c)", "(a, e='x', *, c)", "b:", "e:"),
        ("(a, b: str = 'x', *, c)", "(a, *, c)", "    b: str = 'x',\n", ""),
        ("(a, ...)", "(a, z, ...)", "# one\n", "# one\n    z,\n"),
        ("(...)", "(z, ...)", "(\n", "(\n    z,\n"),
        ("(..., *, c)", "(..., *, c, d=1)", "# three\n", "# three\n    d=1,\n"),
        ("(a, b='x', ...)", "(a, b='x', z=1, ...)", "'x',\n", "'x',\n    z=1,\n"),
    ],
)
def test_parameters(find, new, old, made):
    edit = rewrite(f"def f{find}: ...", f"def f{new}: ...")
    assert edited(edit, DEF) == DEF.replace(old, made)


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        (
            "(a, b)",
            "(a, b, c=None)",
            "def f(a: int,  b: str): pass\n",
            "def f(a: int,  b: str,  c=None): pass\n",
        ),
        ("(a)", "(a, c=None)", "def f(a: int): pass\n", "def f(a: int, c=None): pass\n"),
        ("(a)", "(c, a)", "def f( a: int ): pass\n", "def f( c, a: int ): pass\n"),
        ("()", "(a)", "def f(): pass\n", "def f(a): pass\n"),
        ("(a)", "()", "def f(a): pass\n", "def f(): pass\n"),
        ("(a: int, b)", "(b, c)", "def f(a: int, b: str): pass\n", "def f(b: str, c): pass\n"),
        ("(a, b)", "(b, a)", "def f(a,  b): pass\n", "def f(b,  a): pass\n"),
        # What goes, goes with its annotation; what moves, moves with it.
        ("(a)", "()", "def f(a: int): pass\n", "def f(): pass\n"),
        ("(a, b)", "(b, a)", "def f(a: int, b): pass\n", "def f(b, a: int): pass\n"),
        ("(a, b)", "(b, c)", "def f(a: int, b): pass\n", "def f(b, c): pass\n"),
        ("(a, b)", "(a, *, b)", "def f(a, b: int): pass\n", "def f(a, *, b: int): pass\n"),
        ("(a, *, b)", "(a, b)", "def f(a, *, b: int): pass\n", "def f(a, b: int): pass\n"),
        ("(a, *, b)", "(a)", "def f(a, *, b: int): pass\n", "def f(a): pass\n"),
        ("(a, /, b)", "(b)", "def f(a: int, /, b): pass\n", "def f(b): pass\n"),
        ("(a, b)", "(a, /, b)", "def f(a: int, b): pass\n", "def f(a: int, /, b): pass\n"),
        ("(..., c)", "(..., d, c)", "def f(a, *, c): pass\n", "def f(a, *, d, c): pass\n"),
        ("(...)", "(..., c=1)", "def f(a, /): pass\n", "def f(a, /, c=1): pass\n"),
        ("(...)", "(..., **k)", "def f(a, *b: T): pass\n", "def f(a, *b: T, **k): pass\n"),
        ("(..., **k)", "(...)", "def f(a, **k: T): pass\n", "def f(a): pass\n"),
        ("(..., *k)", "(...)", "def f(a, *k: T, b): pass\n", "def f(a, b): pass\n"),
        ("(..., *k, b)", "(..., *, b)", "def f(a, *k: T, b): pass\n", "def f(a, *, b): pass\n"),
        # Defaults and annotations, in the style of PEP 8.
        ("(..., a)", "(..., a=1)", "def f(b, a): pass\n", "def f(b, a=1): pass\n"),
        ("(..., a)", "(..., a=1)", "def f(b, a: T): pass\n", "def f(b, a: T = 1): pass\n"),
        ("(a=1)", "(a: T = 1)", "def f(a=1): pass\n", "def f(a: T = 1): pass\n"),
        ("(a: T = 1)", "(a=1)", "def f(a: T = 1): pass\n", "def f(a=1): pass\n"),
        ("(..., a=1)", "(..., a)", "def f(*, a: T = 1): pass\n", "def f(*, a: T): pass\n"),
        ("(..., a=$x)", "(..., a=g($x))", "def f(a: T=1): pass\n", "def f(a: T=g(1)): pass\n"),
        # Another order between two gaps.
        (
            "(..., b, a, ...)",
            "(..., a, b, ...)",
            "def f(x, b: B, a: A, y=1): pass\n",
            "def f(x, a: A, b: B, y=1): pass\n",
        ),
        (
            "(..., a, b, c)",
            "(..., c, a, b)",
            "def f(\n    a: A,  # 1\n    b,\n    # 2\n    c  # 3\n): pass\n",
            "def f(\n    c,  # 3\n    a: A,  # 1\n    b\n    # 2\n): pass\n",
        ),
    ],
)
def test_parameters_on_a_line(find, new, before, after):
    assert edited(rewrite(f"def f{find}: ...", f"def f{new}: ..."), before) == after


@pytest.mark.parametrize(
    ("find", "new", "before", "message"),
    [
        ("(a, b)", "(a)", "def f(\n    a,\n    b,  # why\n): pass\n", "drop the comment '# why'"),
    ],
)
def test_parameters_of_which_something_would_be_lost(find, new, before, message):
    result = run(rewrite(f"def f{find}: ...", f"def f{new}: ..."), before)
    assert message in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("find", "new", "old", "made"),
    [
        ("(a, b, j=2)", "(a, x, b, j=2)", "# one\n", "# one\n    x,\n"),
        ("(a, b, j=2)", "(a, b, j=2, k=h())", "j=2,\n", "j=2,\n    k=h(),\n"),
        ("(a, b, j=2)", "(a, j=2)", "    b,\n", ""),
        ("(j=2, ...)", "(j=3, ...)", "j=2", "j=3"),
        ("(a, ...)", "(a, x, ...)", "# one\n", "# one\n    x,\n"),
        ("(a, ...)", "(a, ..., k=1)", "j=2,\n", "j=2,\n    k=1,\n"),
        ("(a, ...)", "(a, k=1, ...)", "j=2,\n", "j=2,\n    k=1,\n"),
        ("(..., j=2)", "(...)", None, None),
    ],
)
def test_arguments(find, new, old, made):
    edit = rewrite(f"g{find}", f"h{new}")
    if old is None:
        after = edited(edit, CALL)
        assert after == "h(\n    a,  # one\n    b,\n)\n"
    else:
        assert edited(edit, CALL) == CALL.replace(old, made).replace("g(", "h(")


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        (
            "if a:\n    b()\n    ...",
            "if a:\n    b()\n    c()\n    ...",
            "if a:\n\n    b( )  # why\n\n    # d\n    d()\nelse:\n    x\n",
            "if a:\n\n    b( )  # why\n    c()\n\n    # d\n    d()\nelse:\n    x\n",
        ),
        (
            "def f():\n    a()\n    b()",
            "def f():\n    b()",
            "def f( ):\n    a()\n\n    # b\n    b( )\n",
            "def f( ):\n\n    # b\n    b( )\n",
        ),
        (
            "class C(A): ...",
            "class C(A, B): ...",
            "class C( A ):\n    x = 1\n",
            "class C( A, B ):\n    x = 1\n",
        ),
    ],
)
def test_statements_and_bases(find, new, before, after):
    assert edited(rewrite(find, new), before) == after


def test_a_generator_that_is_no_more_alone():
    assert edited(rewrite("f($x)", "g($x, 1)"), "f(a for a in b)\n") == "g((a for a in b), 1)\n"


def test_what_would_be_no_python_is_a_problem():
    edit = rewrite("def f(a, ...): ...", "def f(a, b=1, ...): ...")
    assert edited(edit, "def f(a, c=2): pass\n") == "def f(a, b=1, c=2): pass\n"
    result = run(edit, "def f(a, c): pass\n")
    assert "the new code is not Python there" in result.mismatch
