from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run

TRY = "try:\n    import x\nexcept ImportError:\n    x = None"
GROW = {"find": "import x", "rewrite": TRY}
SHRINK = {"find": TRY, "rewrite": "import x"}


def indented(code, by="    "):
    return "".join(f"{by}{line}\n" for line in code.splitlines())


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("import x\n", f"{TRY}\n"),
        ("a\n\n# why\nimport x\nb\n", f"a\n\n# why\n{TRY}\nb\n"),
        ("def f():\n    import x\n    a\n", f"def f():\n{indented(TRY)}    a\n"),
        ("if a:\n\timport x", "if a:\n" + indented(TRY.replace("    ", "\t"), "\t").rstrip("\n")),
        ("import x;\n", f"{TRY}\n"),
        # What is the same in both keeps its comment.
        ("import x  # noqa\n", TRY.replace("import x\n", "import x  # noqa\n") + "\n"),
        # A line that it shares with others is cut.
        ("a; import x; b  # c\n", f"a\n{TRY}\nb  # c\n"),
        ("# why\na;  b; import x\n", f"# why\na;  b\n{TRY}\n"),
        ("# why\nimport x; a; b\n", f"# why\n{TRY}\na; b\n"),
    ],
)
def test_a_simple_statement_becomes_a_compound_one(before, after):
    assert edited(GROW, before) == after


def test_each_statement_of_a_line_counts():
    edit = {"find": "f($x)", "rewrite": "if $x:\n    f($x)", "expect": 3}
    after = edited(edit, "f(1); a; f(2)\nif 3:\n    f(3)\n")
    assert after == "if 1:\n    f(1)\na\nif 2:\n    f(2)\nif 3:\n    f(3)\n"


def test_an_expression_is_a_statement_where_it_becomes_one():
    edit = {"find": "f($x)", "rewrite": "with lock:\n    f($x)"}
    assert edited(edit, "f(1)\ny = f(2)\n") == "with lock:\n    f(1)\ny = f(2)\n"
    edit = {"find": "with lock:\n    f($x)", "rewrite": "f($x)", "within": "g"}
    before = "def g():\n    with lock: f(1)\n"
    assert edited(edit, before) == "def g():\n    f(1)\n"


def test_crlf():
    after = edited(GROW, "import x\r\na\r\n")
    assert after == TRY.replace("\n", "\r\n") + "\r\na\r\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{TRY}\n", "import x\n"),
        (f"a\n\n# why\n{TRY}\nb\n", "a\n\n# why\nimport x\nb\n"),
        (f"def f():\n{indented(TRY)}", "def f():\n    import x\n"),
    ],
)
def test_a_compound_statement_becomes_a_simple_one(before, after):
    assert edited(SHRINK, before) == after


@pytest.mark.parametrize(
    "source", ["a; import x\n", "if a: import x\n", "def f():\n    import x\n"]
)
def test_a_simple_statement_that_is_there_is_done(source):
    result = run(SHRINK, source, carried=True)
    assert (result.mismatch, result.todo) == (None, False)


def test_a_new_comment_comes_along():
    edit = {**GROW, "rewrite": f"# optional\n{TRY}"}
    assert edited(edit, "# why\nimport x\n") == f"# why\n# optional\n{TRY}\n"


@pytest.mark.parametrize(
    ("edit", "source", "message"),
    [
        (GROW, "if a: import x\n", "is on the line of a block's header"),
        (SHRINK, TRY.replace("None", "None  # no") + "\n", "would drop the comment '# no'"),
        (SHRINK, f"{TRY}\nfinally:\n    y\n", "would drop what the pattern leaves out"),
        (
            {"find": "if a: b()", "rewrite": "b()"},
            "if x:\n    y\nelif a:\n    b()\n",
            "an elif can become nothing but another elif",
        ),
    ],
)
def test_what_cannot_be_reshaped_is_a_problem(edit, source, message):
    result = run(edit, source)
    assert message in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("find", "new"),
    [
        ("import x", "try:\n    import x\nexcept E:\n    ..."),
        ("f(...)", "if a:\n    f(..., 1)"),
        ("if a: ...", "f()"),
    ],
)
def test_a_gap_has_no_counterpart(find, new):
    with fails("codemods.wrong-edit", "would be lost"):
        edits_of({"find": find, "rewrite": new})
