from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run


def rewrite(find, new, **keys):
    return {"find": find, "rewrite": new, **keys}


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        (
            "$m.off",
            'getattr($m, "off", False)',
            "x = a.b.off\n",
            'x = getattr(a.b, "off", False)\n',
        ),
        # What both sides have in common keeps its layout and comments.
        (
            "f(..., q, ...)",
            "f(..., q.to(d), ...)",
            "f(  # one\n    a, # two\n    q , # three\n    k = 1,\n\n)\n",
            "f(  # one\n    a, # two\n    q.to(d) , # three\n    k = 1,\n\n)\n",
        ),
        (
            "f(..., k=$x)",
            "f(..., k=not $x)",
            "f(k = (1), \\\n j=2)\n",
            "f(k = (not (1)), \\\n j=2)\n",
        ),
        ("f($x)", "g($x)", "f( # why\n a  +\n b\n)\n", "g( # why\n a  +\n b\n)\n"),
        ("f($x)", "g(f($x))", "y = f(1)\n", "y = g(f(1))\n"),
        ("f($a, $b)", "f($b, None, $a)", "f(1, 2)\n", "f(2, None, 1)\n"),
        ("$p = L($x)", '$p = L($x, name=f"m.$p")', "q = L(1)\n", 'q = L(1, name=f"m.q")\n'),
        ("$p = L($x)", '$p = L($x, name="$p")', "q = L(1)\n", 'q = L(1, name="q")\n'),
        ("x = 1", "x = 2", "x   =   1  # why\n", "x   =   2  # why\n"),
        ("return $x", "return g($x)", "def f():\n  return  a\n", "def f():\n  return  g(a)\n"),
        (
            "def f(...): ...",
            "@d\ndef f(...): ...",
            "# why\ndef f(\n  a,  # b\n):\n  # c\n  pass\n",
            "# why\n@d\ndef f(\n  a,  # b\n):\n  # c\n  pass\n",
        ),
        # More operands of one operator bind as they stand.
        (
            "x = a or d",
            "x = (\n    a\n    or b\n    or c\n    or d\n)",
            "x = (\n    a\n    or d\n)\n",
            "x = (\n    a\n    or b\n    or c\n    or d\n)\n",
        ),
        ("x = a + d", "x = a + b + d", "x = a + d\n", "x = a + b + d\n"),
        ("(a or b) and c", "(a or b) and d and c", "(a or b) and c\n", "(a or b) and d and c\n"),
        (
            "(a and b) and c",
            "(a and b) and d and c",
            "(a and b) and c\n",
            "(a and b) and d and c\n",
        ),
        ("x = a - d", "x = (a or b) - d", "x = a - d\n", "x = (a or b) - d\n"),
        # Here nothing but its own brackets allows the line breaks.
        (
            "x = a or d",
            "x = (\n    a\n    or b\n    or d\n)",
            "x = a or d\n",
            "x = (\n    a\n    or b\n    or d\n)\n",
        ),
        ("class C: ...", "class C(B): ...", "class C:\n  x = 1\n", "class C(B):\n  x = 1\n"),
        ("def f(a, ...): ...", "def g(a, ...): ...", "def f(a, *b): x\n", "def g(a, *b): x\n"),
        (
            "if $x:\n  f()\n  ...",
            "if $x:\n  g()\n  ...",
            "if a :\n  f() # 1\n  # 2\n  b\n",
            "if a :\n  g() # 1\n  # 2\n  b\n",
        ),
    ],
)
def test_rewrite(find, new, before, after):
    assert edited(rewrite(find, new), before) == after


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        # A compound expression put into an operator or an attribute.
        ("f($x)", "$x.y", "f(a + b)\n", "(a + b).y\n"),
        ("f($x)", "not $x", "f(a or b)\n", "not (a or b)\n"),
        ("f($x)", "$x * 2", "f((a + b))\n", "(a + b) * 2\n"),
        ("k * f($x)", "m * $x", "y = k * f(a + b)\n", "y = m * (a + b)\n"),
        ("f($x)", "$x[0]", "f(lambda: a)\n", "(lambda: a)[0]\n"),
        ("f($x)", "$x()", "f(await a)\n", "(await a)()\n"),
        # New code that is compound, in code that binds closer.
        ("$m.off", "$m.off_ or b", "y = not a.off\n", "y = not (a.off_ or b)\n"),
        ("f($x)", "$x + 1", "y = 2 * f(a)\n", "y = 2 * (a + 1)\n"),
        ("f($x)", "$x + 1", "y = f(a).b\n", "y = (a + 1).b\n"),
        ("f($x)", "$x + 1", "y = g(f(a))\n", "y = g(a + 1)\n"),
        ("f($x)", "$x + 1", "if f(a): pass\n", "if a + 1: pass\n"),
        ("f($x)", "$x + 1", "y = (f)(a)\n", "y = a + 1\n"),
        ("f($x)", "$x + 1", "y = (f(a)).b\n", "y = (a + 1).b\n"),
        # Another operator.
        ("$a * b", "$a + b", "y = a * b / c\n", "y = (a + b) / c\n"),
        ("$a + b", "$a * b", "y = x - a + b\n", "y = (x - a) * b\n"),
        ("f(a, $x)", "g(b, $x)", "f(a, x - a)\n", "g(b, x - a)\n"),
        # Tuples, generators and assignments need their brackets.
        ("return h($x)", "return g(1, $x)", "return h((a, b))\n", "return g(1, (a, b))\n"),
        ("return $x", "return g($x)", "def f(): return a, b\n", "def f(): return g((a, b))\n"),
        ("f($x)", "g(1, $x)", "f(a for a in b)\n", "g(1, (a for a in b))\n"),
        ("f($x)", "g(1, $x)", "f(a := b)\n", "g(1, a := b)\n"),
        # A line break that only the brackets allowed.
        ("y = f($x)", "z = [$x]", "y = f(\n a +\n b)\n", "z = [(a +\n b)]\n"),
    ],
)
def test_rewrite_keeps_the_meaning(find, new, before, after):
    assert edited(rewrite(find, new), before) == after


@pytest.mark.parametrize(
    ("find", "new"),
    [
        # All of these match before as after: nothing would ever be done.
        ("f($x, $y)", "f($y, $x)"),
        ("f(a)", "f( a )"),
        # No name tells where the new code may be.
        ("f($x) * 2", "$x * 2"),
        ("return f($x)", "return $x"),
        ("@d\ndef $f(...): ...", "def $f(...): ..."),
    ],
)
def test_new_code_that_matches_the_old_is_refused(find, new):
    with fails("codemods.wrong-edit", "nothing would change"):
        edits_of(rewrite(find, new))


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        ("$p = L($x)", "L2($x)", "q = L(1)  # c\n", "L2(1)  # c\n"),
        ("f($x)", "raise E($x)", "y = f(1)\nf(2)\n", "y = f(1)\nraise E(2)\n"),
        ("f($x)", "y = f($x)", "f(2)\nz = f(3)\n", "y = f(2)\nz = f(3)\n"),
    ],
)
def test_expression_that_is_a_statement_becomes_another_one(find, new, before, after):
    assert edited(rewrite(find, new), before) == after


def test_operation_on_one_line_becomes_one_on_several():
    new = "(\n    b\n    and a is None\n    and d\n)"
    source = "def f():\n    if a is None and not b:\n        c()\n"
    after = (
        "def f():\n    if (\n        b\n        and a is None\n        and d\n    ):\n        c()\n"
    )
    assert edited(rewrite("a is None and not b", new), source) == after


def test_unknown_metavariable():
    with fails("codemods.unknown-metavariable", r"\$y: in the new code"):
        edits_of(rewrite("f($x)", "g($y)"))


def test_where_that_the_new_code_forgets():
    with fails("codemods.unknown-metavariable", "could not tell that the edit is done"):
        edits_of(rewrite("f($x)", "g()", where={"$x": ["a"]}))


def test_where_compares_code_and_not_its_spelling():
    edit = rewrite("f($x)", "g($x)", where={"$x": ["'a'", "m [0]"]}, expect=2)
    assert edited(edit, 'f("a"); f(m[0]); f(b)\n') == 'g("a"); g(m[0]); f(b)\n'


def test_done_and_todo_count_alike():
    result = run(rewrite("f($x)", "f($x, a)", expect=2), "f(1)\nf(2, a)\n")
    assert (result.mismatch, [f.todo for f in result.sites]) == (None, [True, False])
    assert run(rewrite("f($x)", "f($x, a)"), "f(1)\nf(2, a)\n").mismatch == "expected 1, found 2"


@pytest.mark.parametrize(
    ("find", "new", "there"),
    [
        ("f($x)", "f($x, a)", "f(1, a)"),
        ("f($x)", "g(f($x))", "g(f(1))"),
        ("f($x)", "g(f(0))", "g(f(0))"),
        ("$m.off", 'getattr($m, "off", False)', 'getattr(a, "off", False)'),
        ("f($x)", "getattr($x, 'f')()", "getattr(a, 'f')()"),
        ("x = f($y)", "x: int = f($y)", "x: int = f(1)"),
        ("x = $y", 'x = f"{$y} $y"', 'x = f"{a} a"'),
        ("def f(...): ...", "@d\ndef f(...): ...", "@d\ndef f(a): b"),
        ("import a", "try:\n  import a\nexcept E:\n  a = 1", "try: import a\nexcept E: a = 1"),
        # A statement inside stays as it is.
        ("if a: x(b)", "if c: x(b)", "if c: x(b)"),
    ],
)
def test_new_code_that_shows_what_it_replaced_is_done(find, new, there):
    assert run(rewrite(find, new), f"{there}\n").mismatch is None


@pytest.mark.parametrize(
    ("find", "new", "there"),
    [
        ("t.no_such_op($a, $b)", "t.permute_cols($a, $b)", "t.permute_cols(1, 2)"),
        ("x = no_such_op()", "pass", "pass"),
        ("if no_such: x", "pass", "pass"),
        ("f($a, $b)", "f($a)", "f(1)"),
        ("f($_, $a)", "f($a)", "f(1)"),
        ("f(f(a), b)", "f(a, b)", "f(a, b)"),
        ("f(1)", "f(2)", "f(2)"),
        ("f('a b')", "f()", "f()"),
        ("$a + f($b)", "$a - f($b)", "1 - f(2)"),
        ("f($a) < b", "f($a) > b", "f(a) > b"),
        ("x += f($a)", "x -= f($a)", "x -= f(1)"),
        ("return f($a)", "raise f($a)", "raise f(1)"),
        ("x = await f($a)", "x = f($a)", "x = f(1)"),
        ('x = f"$a {b}"', "x = f'{b}'", "x = f'{b}'"),
        ("foo(..., old=$k)", "foo(..., new=$k)", "foo(new=1)"),
        ("if a: ...", "if b: ...", "if b: x(a)"),
        ("if a: pass", "if b: pass", "if b: pass"),
    ],
)
def test_new_code_that_may_have_been_there_for_ever_is_not_done(find, new, there):
    found = run(rewrite(find, new), f"{there}\n")
    assert found.mismatch == (
        "expected 1, found 0; 1 more with the new code, but nothing shows that it replaced the old"
    )
    again = run(rewrite(find, new), f"{there}\n", carried=True)
    assert (again.mismatch, again.todo) == (None, False)


def test_the_old_code_is_found_inside_of_new_code_that_shows_nothing():
    assert edited(rewrite("f($x)", "g($x)"), "g(f(1))\n") == "g(g(1))\n"


def test_places_that_show_nothing_are_in_nobodys_way():
    assert edited(rewrite("f($x)", "g($x)"), "g(0)\nf(1)\ng(2)\n") == "g(0)\ng(1)\ng(2)\n"
    edit = rewrite("f($x)", "g($x)", expect={"per": "file"})
    assert edited(edit, "g(0)\nf(1)\n") == "g(0)\ng(1)\n"


def test_a_comment_is_never_dropped():
    result = run(rewrite("f($a, $b)", "g($b)"), "f(\n    a,  # why\n    b,\n)\n")
    assert "would drop the comment '# why'" in result.mismatch
    assert result.view.files == {}


def test_a_comment_is_never_dropped_where_its_twin_stays():
    result = run(rewrite("f($a, $b)", "g($b)"), "f(\n    a,  # x\n    h(b  # x\n    ),\n)\n")
    assert "would drop the comment '# x'" in result.mismatch


@pytest.mark.parametrize(
    ("find", "new"),
    [
        # In the pattern alone: what it stands for would be dropped.
        ("if a: ...\nelse: ...", "if a: ..."),
        ("foo($a, ...)", "bar($a)"),
        ("if $c: ...", "if not $c: pass"),
        ("def f(...): ...", "def g(): return 1"),
        ("f(g(...))", "f(h())"),
        ("x = f(...)", "x = 1"),
        # In the new code alone: it would be written.
        ("foo($a)", "bar($a, ...)"),
        ("x = 1", "x = Field(...)"),
        ("def f(...): ...", "@d(...)\ndef f(...): ..."),
        ("def f(): return 1", "def g(): ..."),
        # Elsewhere, or in something else.
        ("def f(...): ...", "class f: ..."),
        ("f(..., a)", "f(a, ...)"),
        ("f(...)", "g(f(...), f(...))"),
        ("f(...)", "g(f(...), ...)"),
        ("x = f(...)", "y[f(...)] = 1"),
        ("f(...) + a", "g(...) - h(...)"),
        ("f(...) + a", "-f(...)"),
    ],
)
def test_a_gap_on_one_side_is_refused(find, new):
    with fails("codemods.wrong-edit", "would be lost"):
        edits_of(rewrite(find, new))


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        # Another argument behind one that is named.
        ("f(..., a)", "f(..., a, b)", "f(1, a, k=2)\n", "f(1, a, b, k=2)\n"),
        (
            "f(..., a)",
            "f(..., a, b, c)",
            "f(\n    a,  # 1\n)\n",
            "f(\n    a,  # 1\n    b,\n    c,\n)\n",
        ),
        ("f(..., a, ...)", "f(..., a, *b, ...)", "f(1, a, 2)\n", "f(1, a, *b, 2)\n"),
        ("f(..., a)", "f(..., a, **b)", "f(1, a, k=2)\n", "f(1, a, **b, k=2)\n"),
        # Another argument behind a gap, in front of its keywords.
        ("f(a, ...)", "f(a, ..., b)", "f(a, k=2)\n", "f(a, b, k=2)\n"),
        (
            "f(...)",
            "f(..., b)",
            "f(\n    a,  # 1\n    k=2,\n)\n",
            "f(\n    a,  # 1\n    b,\n    k=2,\n)\n",
        ),
        ("f(..., *a)", "f(..., *a, b)", "f(1, *a)\n", "f(1, *a, b)\n"),
        ("f(..., a)", "f(..., b, c)", "f(1, a, k=2)\n", "f(1, b, c, k=2)\n"),
        (
            "class C(...): ...",
            "class C(..., M): ...",
            "class C(B, k=1): x\n",
            "class C(B, M, k=1): x\n",
        ),
        ("class C(...): ...", "class C(..., M): ...", "class C: x\n", "class C(M): x\n"),
        # Another operator.
        ("f(...) + 1", "f(...) - 1", "x = f(2,  3) + 1\n", "x = f(2,  3) - 1\n"),
        ("f(...) + 1", "f(...) * 2", "x = y + (f(3)  +  1)\n", "x = y + (f(3) * 2)\n"),
        ("f(...) * $x", "f(...) + $x", "x = f(3) * a.b * c\n", "x = (f(3) + a.b) * c\n"),
        ("$x * f(...)", "$x ** f(...)", "x = a * b * f(3)\n", "x = (a * b) ** f(3)\n"),
        ("f(...) and a", "f(...) or a", "x = f(3) and a\n", "x = f(3) or a\n"),
        ("not f(...)", "-f(..., k=1)", "x = not f(3)\n", "x = -f(3, k=1)\n"),
        ("f(...) < 1", "f(...) > 1", "x = f(3) < 1\n", "x = f(3) > 1\n"),
        # Another call around it.
        ("f(...)", "g(f(...))", "x = f(  # 1\n  1,\n)\n", "x = g(f(  # 1\n  1,\n))\n"),
        ("f(...)", "f(f(...), 1)", "x = f(2)\n", "x = f(f(2), 1)\n"),
        ("f(..., k=$x)", "g(f(..., k=1), $x)", "(f(2, k=3))\n", "(g(f(2, k=1), 3))\n"),
        ("f(...) + 1", "g(f(...) - 1).h", "x = f(2) + 1\n", "x = g(f(2) - 1).h\n"),
        ("f(...)", "f(...) + 1", "x = 2 * f(3)\n", "x = 2 * (f(3) + 1)\n"),
        ("f(...) + 1", "(f(...) + 1).x", "x = f(3) + 1\n", "x = (f(3) + 1).x\n"),
        ("x = f(...)", "x = g(f(...))", "x = f(2)  # 1\n", "x = g(f(2))  # 1\n"),
        ("a(f(...))", "a(g(f(...)))", "a( f(2) )\n", "a( g(f(2)) )\n"),
        # Another statement.
        (
            "x = f(...)",
            "return f(...)",
            "def m():\n    x = f(2); y\n",
            "def m():\n    return f(2); y\n",
        ),
        (
            "return f(...)",
            "x = g(f(...))",
            "def m():\n    return (f(2))\n",
            "def m():\n    x = (g(f(2)))\n",
        ),
        ("x = f(...)", "x: T = f(...)", "x = f(2,)  # 1\n", "x: T = f(2,)  # 1\n"),
        ("x: $t = f(...)", "x: L[$t] = f(...)", "x: T = f(2)\n", "x: L[T] = f(2)\n"),
    ],
)
def test_what_a_gap_stands_for_is_kept_where_the_code_around_it_changes(find, new, before, after):
    assert edited(rewrite(find, new), before) == after


def test_what_a_gap_stands_for_is_never_dropped():
    result = run(rewrite("class C: ...", "class C(B): ..."), "class C(A):\n    x = 1\n")
    assert "keep what ... matches" in result.mismatch


@pytest.mark.parametrize(
    ("find", "new", "before"),
    [
        ("if a: b", "if c: b", "if a:\n    b\nelse:\n    d\n"),
        ("if $a.x: ...", "if not $a.x: ...", "if a.x:\n    b\nelif c:\n    d\n"),
        ("if a: ...", "if b: ...", "if x:\n    y\nelif a:\n    b\n"),
        ("while a: ...", "while b: ...", "while a:\n    b\nelse:\n    d\n"),
        ("def f(a): ...", "def f(b): ...", "@d\ndef f(a: int) -> int:\n    b\n"),
    ],
)
def test_what_a_pattern_leaves_out_stays(find, new, before):
    after = edited(rewrite(find, new), before)
    assert after != before
    assert len(after.splitlines()) == len(before.splitlines())


@pytest.mark.parametrize(
    ("find", "new", "before"),
    [
        ("if a: b", "while a: b", "if a:\n    b\nelse:\n    d\n"),
        ("def f(a): return a", "class f: pass", "@d\ndef f(a): return a\n"),
        ("def f(a): return a", "class f: pass", "def f(a: int): return a\n"),
        ("def f(a): return a", "class f: pass", "def f(a) -> int: return a\n"),
        ("class f: x = 1", "def f(): pass", "class f(B): x = 1\n"),
    ],
)
def test_what_a_pattern_leaves_out_is_never_dropped(find, new, before):
    result = run(rewrite(find, new), before)
    assert "would drop what the pattern leaves out" in result.mismatch


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        (
            "def f(...): ...",
            "def f(...) -> int: ...",
            "def f(x):  # a\n    y\n",
            "def f(x) -> int:  # a\n    y\n",
        ),
        (
            "def f(...): ...",
            "async def f(...): ...",
            "@d\ndef f(x): y\n",
            "@d\nasync def f(x): y\n",
        ),
        (
            "if a: ...",
            "if a: ...\nelse:\n    b",
            "if a:\n    y  # c\n",
            "if a:\n    y  # c\nelse:\n    b\n",
        ),
        (
            "try: ...\nexcept E: ...",
            "try: ...\nexcept E: ...\nfinally:\n    b",
            "try: y\nexcept E: z\n",
            "try: y\nexcept E: z\nfinally:\n    b\n",
        ),
        *(
            (
                f"try: ...\nexcept{old}: ...",
                f"try: ...\nexcept{new}: ...",
                f"try:\n    y\nexcept{old}:  # c\n    z  # d\n",
                f"try:\n    y\nexcept{new}:  # c\n    z  # d\n",
            )
            for old, new in [("", " E"), (" E", ""), (" E", " E as n"), (" E as n", " E")]
        ),
        # One compound statement becomes another: what stands above it stays.
        (
            "if $a:\n  b",
            "# d\nwhile $a:\n  b",
            "x\n\n# c\nif z:\n  b\n",
            "x\n\n# c\n# d\nwhile z:\n  b\n",
        ),
    ],
)
def test_what_a_pattern_leaves_out_is_added(find, new, before, after):
    assert edited({"find": find, "rewrite": new}, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f(1, b)\n", "f(1)\n"),
        ("f(\n    1,\n    b\n)\n", "f(\n    1\n)\n"),
        ("f(\n    1,\n    b,\n)\n", "f(\n    1,\n)\n"),
    ],
)
def test_the_last_argument_goes(before, after):
    assert edited(rewrite("f($a, b)", "f($a)"), before) == after


def test_an_elif_becomes_no_other_statement():
    result = run(rewrite("if a: b", "while a: b"), "if x:\n    y\nelif a:\n    b\n")
    assert "an elif can become nothing but another elif" in result.mismatch


def test_gap_in_a_body_on_a_line_of_its_own():
    edit = rewrite("def f(...): ...", "@d\ndef f(...):\n    ...")
    assert edited(edit, "def f(a):\n    return a\n") == "@d\ndef f(a):\n    return a\n"


def test_an_ellipsis_that_is_code():
    assert edited(rewrite("x = 1", "x = F(d=(...))"), "x = 1\n") == "x = F(d=...)\n"
    assert edited(rewrite("x[(...), 0]", "x[(...), 1]"), "x[..., 0]\n") == "x[..., 1]\n"
    assert edited(rewrite("f(a)", "f((...))"), "f(a)\n") == "f(...)\n"
    edit = {"insert": "y: tuple[int, ...] = F(d=1, e=...)", "after": "x = 1"}
    assert edited(edit, "x = 1\n") == "x = 1\ny: tuple[int, ...] = F(d=1, e=...)\n"


def test_new_code_has_no_gap():
    with fails("codemods.not-python"):
        edits_of({"insert": "def g(a, ...): pass", "after": "x = 1"})


def test_code_that_still_matches_the_old_is_not_done():
    edit = rewrite("foo(..., old=$k)", "foo(..., new=$k)")
    result = run(edit, "foo(1, new=2, old=3)\n")
    assert (result.mismatch, result.todo) == (None, True)
    done = run(edit, "foo(1, new=2)\n", carried=True)
    assert (done.mismatch, done.todo) == (None, False)


def test_code_that_the_rewrite_leaves_as_it_is_is_done():
    assert not run(rewrite("1 + $x", "$x + 1"), "1 + 1\n").todo


def test_new_code_that_always_matches_the_old_is_done():
    edit = rewrite("f($x)", "f(g($x))", expect=2)
    assert edited(edit, "f(1)\nf(g(2))\n") == "f(g(1))\nf(g(2))\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import n\nfrom a import n\nfrom n import b as n\nn\n", None),
        ("def n(n, a=1): pass\nclass n: pass\nn\n", None),
        ("a.n(n=1).n\nn\n", None),
        ("def f():\n    global n\nn\n", None),
        ("try: pass\nexcept E as n: pass\nn\n", None),
        ("try: pass\nexcept* E as n: pass\nn\n", None),
        ("match a:\n    case [n, *n]: pass\nn\n", None),
        ("x = n\n", "x = m\n"),
        ("n = 1\n", "m = 1\n"),
        ("f(k=n.a)\n", "f(k=m.a)\n"),
        ("with a as n: pass\n", "with a as m: pass\n"),
        ("@n\ndef f(): pass\n", "@m\ndef f(): pass\n"),
    ],
)
def test_a_name_alone_is_an_expression_or_a_target(before, after):
    made = edited(rewrite("n", "m"), before)
    assert made == (after or before.removesuffix("n\n") + "m\n")


def test_a_name_that_is_no_expression_is_not_done():
    assert edited(rewrite("a.n", "n"), "import n\nf(n=a.n)\n") == "import n\nf(n=n)\n"


def test_within_is_the_body_alone():
    edit = rewrite("f($x)", "g($x)", within="m")
    before = "@f(1)\ndef m(a=f(2), b: f(3) = 1) -> f(4):\n    f(5)\n"
    assert edited(edit, before) == before.replace("f(5)", "g(5)")
    edit = rewrite("f($x)", "g($x)", within="C")
    before = "@f(1)\nclass C(f(2)):\n    x = f(3)\n"
    assert edited(edit, before) == before.replace("f(3)", "g(3)")


def test_within_is_the_definition_itself_too():
    source = "@d\ndef m(): f(1)\ndef n(): pass\nclass C:\n    def m(): pass\n"
    edit = rewrite("def $f(): ...", "@e\ndef $f(): ...", within="m")
    assert edited(edit, "def m(): pass\ndef n(): pass\n") == "@e\ndef m(): pass\ndef n(): pass\n"
    edit = {"find": "def m(...): ...", "add-keyword": {"a": "1"}, "within": "C.m"}
    assert edited(edit, source) == source.replace("    def m()", "    def m(a=1)")
    edit = {"find": "def m(): ...", "replace-body": "x", "having": "f($_)", "within": "m"}
    assert edited(edit, source) == source.replace("m(): f(1)", "m():\n    x")
    edit = {"insert": "x", "at-start-of": "def m(): ...", "within": "*.m"}
    assert run(edit, source).mismatch.endswith("its body is on the line of its header")
    edit = {"insert": "x", "before": "def m(): ...", "within": "C.m"}
    assert edited(edit, source) == source.replace("    def m()", "    x\n    def m()")


def test_nothing_is_looked_for_in_new_code():
    edit = rewrite("f($x)", "g(f($x))", expect=2)
    assert edited(edit, "g(f(1))\nf(2)\n") == "g(f(1))\ng(f(2))\n"


def test_within_stops_at_the_scope():
    before = "def a():\n    f(1)\nclass C:\n    def a(self):\n        f(1)\n"
    after = before.replace("        f(1)", "        g(1)")
    assert edited(rewrite("f($x)", "g($x)", within="C.*"), before) == after


def test_tabs_crlf_and_no_final_newline():
    before = "if a:\r\n\tx = f( 1 )\t# b\r\n\ty"
    assert edited(rewrite("f($x)", "g($x)"), before) == before.replace("f(", "g(")


def test_new_code_counts_in_the_definition_that_still_has_the_names_of_the_old():
    edit = rewrite("(w, w.scale_inv)", "(w, scale)", within="f")
    done = "def f(w):\n    scale = w.scale if a else w.scale_inv\n    g((w, scale))\n"
    assert edited(edit, done) == done
    assert "shows" in run(edit, done.replace("scale_inv", "x")).mismatch
    by_glob = {**edit, "within": "*f"}
    assert edited(by_glob, done) == done
    assert "shows" in run(by_glob, f"{done}\n\ndef other_f():\n    pass\n").mismatch
    lost = rewrite("g($x, $y)", "g($x)", within="f")
    assert "shows" in run(lost, "def f():\n    g(1)\n").mismatch


@pytest.mark.parametrize(
    ("edit", "before"),
    [
        (rewrite("g($a)", "try: pass\nexcept E as $a: pass"), "g(q.r)\n"),
        (rewrite("y = g($a)", "import x as $a"), "y = g(1)\n"),
        (rewrite("y = g($a)", "global $a"), "y = g((1, 2))\n"),
        (rewrite("g($a)", "def $a(): pass"), "g((1, 2))\n"),
        (rewrite("g(k=$a)", "'$a'"), "g(k='a' 'b')\n"),
        ({"insert": "import x as $a", "after": "g($a)"}, "g(1)\n"),
        (
            {"find": "def g($a, k=$b): ...", "replace-body": "import x as $b", "having": "q"},
            "def g(a, k=1):\n    q\n",
        ),
    ],
)
def test_code_that_cannot_be_where_the_metavariable_is(edit, before):
    result = run(edit, before)
    assert "vllm/m.py: the new code is not Python there" in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        ("@d\ndef f(...): ...", "def f(...): ...", "# a\n@d\ndef f(x): y\n", "# a\ndef f(x): y\n"),
        (
            "@...\n@d($x)\n@...\nclass C: ...",
            "@...\nclass C: ...",
            "@a\n@d(1)\n@b  # c\nclass C: y\n",
            "@a\n@b  # c\nclass C: y\n",
        ),
        ("class C(B): ...", "class C: ...", "class C(B): y\n", "class C: y\n"),
        ("class C(..., B, ...): ...", "class C(...): ...", "class C(A, B): y\n", "class C(A): y\n"),
        (
            "class C(B, ...): ...",
            "class C(...): ...",
            "class C( B, k=1): y\n",
            "class C( k=1): y\n",
        ),
        ("f(..., k=$x)", "f(...)", "f(1, k=2, j=3)\n", "f(1, j=3)\n"),
        ("f(..., k=$x, ...)", "f(...)", "f(\n    1,\n    k=2,\n)\n", "f(\n    1,\n)\n"),
        ("f(..., a, ..., b, ...)", "f(..., a, ...)", "f(1, a, 2, b, 3)\n", "f(1, a, 2, 3)\n"),
        (
            "def f(..., a, ...): ...",
            "def f(...): ...",
            "def f(\n    self,\n    a: int,\n    b: str = 1,  # b\n) -> T: y\n",
            "def f(\n    self,\n    b: str = 1,  # b\n) -> T: y\n",
        ),
        ("def f(..., a=1): ...", "def f(...): ...", "def f(b, a: int=1, *c): y\n", None),
        (
            "def f(..., a=$_, ...): ...",
            "def f(...): ...",
            "def f(b, *, a: int = 1, c): y\n",
            "def f(b, *, c): y\n",
        ),
        ("def f(...) -> T: ...", "def f(...): ...", "def f(a) -> T:  # b\n    y\n", None),
        ("async def f(...): ...", "def f(...): ...", "async def f(a): y\n", "def f(a): y\n"),
        ("def f(a: T): ...", "def f(a): ...", "def f(a: T): y\n", "def f(a): y\n"),
        (
            "if a: ...\nelse: z",
            "if a: ...",
            "if a:\n    y  # b\nelse:\n    z\n",
            "if a:\n    y  # b\n",
        ),
        (
            "try: ...\nexcept E: ...\nfinally: z",
            "try: ...\nexcept E: ...",
            "try: y\nexcept E: x\nfinally: z\n",
            "try: y\nexcept E: x\n",
        ),
    ],
)
def test_what_a_pattern_says_is_taken_away(find, new, before, after):
    edit = rewrite(find, new)
    after = after or before.replace(" -> T", "").replace(", a: int=1", "")
    assert edited(edit, before) == after
    # Nothing shows that it was ever there.
    assert "nothing shows that it replaced the old" in run(edit, after).mismatch


def test_code_that_has_more_than_the_new_code_is_not_done():
    edit = rewrite("@d\ndef f(...): ...", "def f(...): ...", expect={"at-least": 1})
    source = "@d\ndef f(): x\nclass C:\n    def f(self): d\n"
    result = run(edit, source)
    assert [site.todo for site in result.sites] == [True, False]
    within = rewrite("@d\ndef f(...): ...", "def f(...): ...", within="C.f")
    # Here `d` is a name in the body.
    assert "found 0" in run(within, source).mismatch


@pytest.mark.parametrize(
    ("find", "new", "before"),
    [
        ("@d\ndef f(...): ...", "def f(...): ...", "@d  # why\ndef f(): x\n"),
        ("def f(a, ...): ...", "def f(...): ...", "def f(\n    a,  # why\n    b,\n): x\n"),
        ("class C(B, ...): ...", "class C(...): ...", "class C(\n    B,  # why\n): x\n"),
        ("if a: ...\nelse: z", "if a: ...", "if a:\n    y\nelse:\n    z  # why\n"),
    ],
)
def test_a_comment_is_not_taken_away(find, new, before):
    assert "would drop the comment '# why'" in run(rewrite(find, new), before).mismatch


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        (
            "@...\ndef f(): ...",
            "@d\n@...\ndef f(): ...",
            "@e\ndef f(): x\n",
            "@d\n@e\ndef f(): x\n",
        ),
        (
            "@...\ndef f(): ...",
            "@...\n@d\ndef f(): ...",
            "@e\ndef f(): x\n",
            "@e\n@d\ndef f(): x\n",
        ),
        (
            "@...\ndef f(): ...",
            "@...\n@d\ndef f(): ...",
            "# a\ndef f(): x\n",
            "# a\n@d\ndef f(): x\n",
        ),
        ("@e\nclass C: ...", "@e\n@d\nclass C: ...", "@e\nclass C: x\n", "@e\n@d\nclass C: x\n"),
    ],
)
def test_a_decorator_among_others(find, new, before, after):
    assert edited(rewrite(find, new), before) == after
    assert run(rewrite(find, new), after).mismatch is None


def test_an_argument_that_cannot_be_there_is_a_problem():
    result = run(rewrite("f(..., *a)", "f(..., *a, b)"), "f(k=1, *a)\n")
    assert "Cannot have positional argument after keyword" in result.mismatch


IF_ELSE = "def f(x):\n    if x:\n        a()\n    else:\n        b()\n"


@pytest.mark.parametrize(
    ("edit", "after"),
    [
        ({"rewrite": "if x and y: ..."}, IF_ELSE.replace("if x", "if x and y")),
        ({"rewrite": "with c:\n    if x: ..."}, None),
        (
            {"insert": "c()", "at-end-of": "if x: ..."},
            IF_ELSE.replace("a()\n", "a()\n        c()\n"),
        ),
        ({"insert": "c()", "after": "if x: ..."}, IF_ELSE + "    c()\n"),
    ],
)
def test_an_if_with_an_else_that_the_pattern_leaves_out_keeps_it(edit, after):
    if "rewrite" in edit:
        edit = {"find": "if x: ...", **edit}
    made = edited(edit, IF_ELSE)
    inner = "".join(f"    {line}\n" for line in IF_ELSE.splitlines()[1:])
    assert made == (after or f"def f(x):\n    with c:\n{inner}")


@pytest.mark.parametrize(
    "edit",
    [
        {"find": "if x: ...", "rewrite": "while x: ..."},
        {"find": "if x: ...", "rewrite": "..."},
        {"find": "if x: ...", "rewrite": "if x: ...\nelse: c()"},
        {"delete": "if x: ..."},
    ],
)
def test_an_else_that_would_be_lost_is_a_conflict(edit):
    result = run(edit, IF_ELSE)
    assert result.mismatch is not None
    assert result.view.read("vllm/m.py").decode() == IF_ELSE
