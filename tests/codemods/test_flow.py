from __future__ import annotations

import libcst as cst
import pytest

from tests.helpers import edited, run, tree_of
from vpatch.codemods.flow import barrier
from vpatch.declare.edits import Predicate
from vpatch.planning.editing import probe
from vpatch.planning.view import View

ENDS = [
    "return x",
    "raise E",
    "a(); return",
    "return 1\ndead()",
    "sys.exit(1)",
    "assert False, 'no'",
    "if a:\n    return 1\nelse:\n    raise E",
    "if a:\n    return 1\nelif b:\n    return 2\nelse:\n    return 3",
    "if True:\n    return 1",
    "if False:\n    pass\nelse:\n    return 1",
    "while True:\n    a()",
    "while 1:\n    for i in x:\n        break",
    "while True:\n    def f():\n        while a:\n            break",
    "while True:\n    return 1\n    break",
    "while True:\n    if False:\n        break",
    "while True:\n    if True:\n        a()\n    else:\n        break",
    "while True:\n    while True:\n        a()\n    else:\n        break",
    "while True:\n    try:\n        break\n    finally:\n        return 1",
    "while True:\n    try:\n        return 1\n    except E:\n        a()\n    else: break",
    "while False:\n    break\nelse:\n    return 1",
    "while a:\n    pass\nelse:\n    return 1",
    "for i in x:\n    pass\nelse:\n    return 1",
    "with a:\n    return 1",
    "try:\n    return 1\nexcept E:\n    raise",
    "try:\n    a()\nexcept E:\n    raise\nelse:\n    return 1",
    "try:\n    return 1\nfinally:\n    a()",
    "try:\n    a()\nfinally:\n    return 1",
    "try:\n    return 1\nexcept* E:\n    raise",
    "match a:\n    case 1:\n        return 1\n    case _:\n        return 2",
    "match a:\n    case other:\n        raise E(other)",
]
GOES_ON = [
    "a()",
    "",
    "if a:\n    return 1",
    "if a:\n    return 1\nelif b:\n    return 2",
    "if a:\n    pass\nelse:\n    return 3",
    "if False:\n    return 1",
    "while a:\n    return 1",
    "while True:\n    if a:\n        break",
    "while True:\n    with a:\n        break",
    "while True:\n    for i in x:\n        pass\n    else:\n        break",
    "while True:\n    while a:\n        pass\n    else:\n        break",
    "while True:\n    if a:\n        pass\n    else:\n        break",
    "while True:\n    if a:\n        pass\n    elif b:\n        break",
    "while True:\n    match a:\n        case 1:\n            break",
    "while a:\n    break\nelse:\n    return 1",
    "for i in x:\n    return 1",
    "for i in x:\n    break\nelse:\n    return 1",
    "with suppress(E):\n    return a()",
    "with a, contextlib.suppress(E):\n    raise E",
    "try:\n    return 1\nexcept E:\n    pass",
    "try:\n    a()\nexcept E:\n    raise",
    "match a:\n    case 1:\n        return 1",
    "match a:\n    case _ if b:\n        return 1",
    "match a:\n    case 1:\n        pass\n    case _:\n        return 1",
    "def g():\n    return 1",
    "class C:\n    raise E",
    "assert a",
    "lambda: exit()",
]


def statements(code):
    return cst.parse_module(code + "\n").body


@pytest.mark.parametrize("code", ENDS)
def test_a_statement_that_the_program_never_gets_past(code):
    assert barrier([*statements("b()"), *statements(code), *statements("c()")]) is not None


@pytest.mark.parametrize("code", GOES_ON)
def test_a_statement_that_the_program_gets_past(code):
    assert barrier(statements(code)) is None


def in_f(code):
    return "def f():\n" + "".join(f"    {line}\n" for line in code.splitlines() or ["pass"])


@pytest.mark.parametrize("code", ENDS)
def test_an_end_that_is_never_reached_is_a_problem(code):
    result = run({"insert": "z()", "at-end-of": "def f(): ..."}, in_f(code))
    assert "code at the end of this block is never reached" in result.mismatch
    assert result.view.files == {}


@pytest.mark.parametrize("code", GOES_ON)
def test_an_end_that_is_reached(code):
    before = in_f(code)
    edit = {"insert": "z()", "at-end-of": "def f(): ..."}
    assert edited(edit, before) == before + "    z()\n"


def test_the_problem_names_the_statement_and_what_to_do():
    result = run(
        {"insert": "z()", "at-end-of": "def f(): ..."}, "def f():\n    a()\n    return g(1)\n"
    )
    assert result.mismatch == (
        "vllm/m.py: code at the end of this block is never reached, because of `return g(1)`; "
        "insert it before that statement"
    )


@pytest.mark.parametrize(
    ("edit", "source"),
    [
        ({"insert": "z()", "after": "return x"}, "def f():\n    return x\n"),
        ({"insert": "z()", "after": "raise E"}, "raise E\n"),
        ({"insert": "z()", "after": "if a: ..."}, "if a:\n    raise E\nelse:\n    raise F\n"),
        ({"insert": "z()", "at-end-of": "for i in x: ..."}, "for i in x:\n    continue\n"),
        ({"insert": "z()", "before": "a()"}, "def f():\n    return x\n    a()\n"),
        # The code is there, where it does nothing.
        ({"insert": "z()", "after": "return x"}, "def f():\n    return x\n    z()\n"),
        ({"insert": "z()", "before": "a()"}, "def f():\n    return x\n    z()\n    a()\n"),
        ({"insert": "z()", "at-end-of": "def f(): ..."}, "def f():\n    return x\n    z()\n"),
    ],
)
def test_no_code_is_put_where_it_is_never_reached(edit, source):
    result = run(edit, source)
    assert "is never reached" in result.mismatch


def test_code_that_leaves_may_be_the_last():
    edit = {"insert": "return x", "at-end-of": "def f(): ..."}
    assert edited(edit, "def f():\n    a()\n") == "def f():\n    a()\n    return x\n"
    edit = {"insert": "return x", "at-start-of": "def f(): ..."}
    assert edited(edit, "def f():\n    a()\n") == "def f():\n    return x\n    a()\n"


DEAD = [
    "if False:\n    {}",
    "if 0:\n    {}",
    "if True:\n    a()\nelse:\n    {}",
    "if True:\n    a()\nelif b:\n    {}",
    "def g():\n    return 1\n    {}",
    "def g():\n    if a:\n        raise E\n    else:\n        return\n    for x in y:\n        {}",
]


@pytest.mark.parametrize("around", DEAD)
def test_code_that_never_runs_is_no_cure(around):
    edit = {"find": "f(...)", "add-keyword": {"k": "1"}, "expect": 1}
    source = around.format("f(k=1)") + "\nf(2)\n"
    assert [site.todo for site in run(edit, source).sites] == [True]
    predicate = Predicate.model_validate({"find": "f(k=1)"}, by_name=True)
    assert not probe(predicate, View(tree_of({"vllm/m.py": source}))).holds


@pytest.mark.parametrize(
    "around",
    [
        "if a:\n    {}",
        "if True:\n    {}",
        "if False:\n    a()\nelse:\n    {}",
        "def g():\n    if a:\n        return 1\n    {}",
    ],
)
def test_code_that_may_run_counts(around):
    edit = {"find": "f(...)", "add-keyword": {"k": "1"}}
    assert [site.todo for site in run(edit, around.format("f(k=1)") + "\n").sites] == [False]
