from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run
from vpatch.codemods.pattern import PatternError

K = {"find": "f(...)", "add-keyword": {"k": "1"}}
D = {"find": "def f(...): ...", "add-keyword": {"k": "None"}}

ANY = {"any-value": True}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()\n", "f(k=1)\n"),
        ("f( )\n", "f( k=1)\n"),
        ("f(a)\n", "f(a, k=1)\n"),
        ("f(a, )\n", "f(a, k=1, )\n"),
        ("f(a,b)\n", "f(a,b,k=1)\n"),
        ("f( a )\n", "f( a, k=1 )\n"),
        ("f(*a, b=2)\n", "f(*a, b=2, k=1)\n"),
        ("f(\n    a,\n    b,\n)\n", "f(\n    a,\n    b,\n    k=1,\n)\n"),
        ("f(\n    a,\n    b\n)\n", "f(\n    a,\n    b,\n    k=1\n)\n"),
        ("f(\n    a,\n)\n", "f(\n    a,\n    k=1,\n)\n"),
        ("f(\n    a, b\n)\n", "f(\n    a, b, k=1\n)\n"),
        ("f(a,\n  b)\n", "f(a,\n  b,\n  k=1)\n"),
        (
            "f(\n    a,\n    b,  # why\n    # last\n)\n",
            "f(\n    a,\n    b,  # why\n    # last\n    k=1,\n)\n",
        ),
        ("f(\n    a,\n    b  # why\n)\n", "f(\n    a,\n    b,  # why\n    k=1\n)\n"),
        ("f(a  # why\n)\n", "f(a,  # why\nk=1\n)\n"),
        ("f(\n    # first\n    a,\n)\n", "f(\n    # first\n    a,\n    k=1,\n)\n"),
        ("if x:\n\tf(\n\t\ta,\n\t)\n", "if x:\n\tf(\n\t\ta,\n\t\tk=1,\n\t)\n"),
        ("f(\r\n    a,\r\n)\r\n", "f(\r\n    a,\r\n    k=1,\r\n)\r\n"),
        ("f(a)", "f(a, k=1)"),
        ("f(\n\n    a,\n\n    b,\n)\n", "f(\n\n    a,\n\n    b,\n    k=1,\n)\n"),
    ],
)
def test_call_layout(before, after):
    assert edited(K, before) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("def f(): pass\n", "def f(k=None): pass\n"),
        ("def f(a, b=1): pass\n", "def f(a, b=1, k=None): pass\n"),
        ("def f(a, *, b): pass\n", "def f(a, *, b, k=None): pass\n"),
        ("def f(*args): pass\n", "def f(*args, k=None): pass\n"),
        ("def f(*args, **kw): pass\n", "def f(*args, k=None, **kw): pass\n"),
        ("def f(a, **kw): pass\n", "def f(a, k=None, **kw): pass\n"),
        ("def f(**kw): pass\n", "def f(k=None, **kw): pass\n"),
        ("def f(a, /): pass\n", "def f(a, /, k=None): pass\n"),
        (
            "def f(\n    a,\n    b: int = 1,  # why\n) -> int:\n    pass\n",
            "def f(\n    a,\n    b: int = 1,  # why\n    k=None,\n) -> int:\n    pass\n",
        ),
        (
            "def f(\r\n\ta,\r\n\t*,\r\n\tb\r\n):\r\n\tpass",
            "def f(\r\n\ta,\r\n\t*,\r\n\tb,\r\n\tk=None\r\n):\r\n\tpass",
        ),
    ],
)
def test_def_layout(before, after):
    assert edited(D, before) == after


@pytest.mark.parametrize(
    "source", ["f(k=2)\n", "f(a, k = 1, b=3)\n", "f(\n    k=None,  # why\n)\n"]
)
def test_call_that_has_the_keyword_is_done(source):
    assert edited(K | ANY, source) == source


@pytest.mark.parametrize("source", ["def f(k): pass\n", "def f(*, k: int = 1): pass\n"])
def test_def_that_has_the_parameter_is_done(source):
    assert edited(D | ANY, source) == source


def test_call_whose_star_arguments_may_hold_the_keyword():
    result = run(K, "f(a, **b)\n")
    assert result.mismatch == "vllm/m.py: has ** arguments that may hold k"
    assert result.view.files == {}
    edit = {"find": "f(...)", "add-keyword": {"k": "1", "m": "2"}}
    assert "may hold m" in run(edit, "f(k=1, **b)\n").mismatch
    assert edited(K | ANY, "f(k=2, **b)\n") == "f(k=2, **b)\n"


def test_half_of_the_keywords():
    edit = {"find": "f(...)", "add-keyword": {"k": "1", "m": "2"}}
    assert edited(edit, "f(a, k=1)\n") == "f(a, k=1, m=2)\n"


def test_metavariable_in_an_f_string():
    edit = {
        "find": "self.$p = L(...)",
        "where": {"$p": ["a", "b"]},
        "add-keyword": {"prefix": 'f"{prefix}.$p"'},
        "expect": {"count": 1, "for-each": "$p"},
    }
    before = "self.a = L(1)\nself.b = L(\n    2,\n)\nself.c = L(3)\n"
    after = (
        'self.a = L(1, prefix=f"{prefix}.a")\n'
        'self.b = L(\n    2,\n    prefix=f"{prefix}.b",\n)\nself.c = L(3)\n'
    )
    assert edited(edit, before) == after


def test_metavariable_bound_to_a_tuple_gets_brackets():
    edit = {"find": "x = f(...)", "add-keyword": {"k": "1"}}
    assert edited(edit, "x = f(\n  a\n)\n") == "x = f(\n  a,\n  k=1\n)\n"
    edit = {"find": "f(g[$i], ...)", "add-keyword": {"k": "$i"}}
    assert edited(edit, "f(g[(a, b)])\n") == "f(g[(a, b)], k=(a, b))\n"


def test_return_of_a_call():
    edit = {"find": "return f(...)", "add-keyword": {"k": "1"}}
    assert edited(edit, "def g():\n    return f()\n") == "def g():\n    return f(k=1)\n"


def test_within_narrows():
    edit = {**K, "within": "C.m"}
    before = "f()\nclass C:\n    def m(self):\n        f()\n    def n(self):\n        f()\n"
    assert edited(edit, before) == before.replace(
        "        f()\n    def n", "        f(k=1)\n    def n"
    )


def test_two_where_one_was_declared():
    result = run(K, "f(1)\nf(2)\n")
    assert result.mismatch == "expected 1, found 2"
    assert result.view.files == {}


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"find": "x = 1", "add-keyword": {"k": "1"}}, "needs a call or a def"),
        ({"find": "f($x)", "add-keyword": {"k": "$y"}}, r"\$y: in the new code"),
        ({"find": "f(...)", "add-keyword": {"k": "1 +"}}, "not Python"),
        ({"find": "f(...)", "add-keyword": {"k": "x = 1"}}, "not one expression"),
        ({"find": "f(...)", "add-keyword": {"k k": "1"}}, "cannot be a keyword"),
        ({"find": "f(...)", "add-keyword": {"if": "1"}}, "cannot be a keyword"),
        ({"find": "f($x)", "add-keyword": {"k": "1"}, "where": {"$y": ["a"]}}, r"has no \$y"),
    ],
)
def test_declaration_is_checked_before_any_tree(edit, message):
    with pytest.raises(PatternError, match=message):
        edits_of(edit)


def test_a_value_of_several_lines_is_indented_with_its_keyword():
    edit = {"find": "f(...)", "add-keyword": {"b": "(\n    x\n    if y\n    else z\n)"}}
    before = "if True:\n    f(\n        a,\n    )\n"
    after = (
        "if True:\n    f(\n        a,\n        b=(\n            x\n            if y\n"
        "            else z\n        ),\n    )\n"
    )
    assert edited(edit, before) == after


@pytest.mark.parametrize(
    ("before", "problem"),
    [
        ("f(a=2)\n", "already has a=2"),
        ("f(a=2, **kw)\n", "already has a=2"),
    ],
)
def test_another_value_is_a_problem(before, problem):
    edit = {"find": "f(...)", "add-keyword": {"a": "1"}}
    assert problem in run(edit, before).mismatch
    done = run({**edit, "any-value": True}, before)
    assert (done.mismatch, done.todo) == (None, False)


@pytest.mark.parametrize(
    ("value", "before", "after"),
    [
        (
            "bool = False",
            "def f(a: int) -> None: pass\n",
            "def f(a: int, k: bool = False) -> None: pass\n",
        ),
        ("False", "def f(a: int) -> None: pass\n", "def f(a: int, k=False) -> None: pass\n"),
        (
            "dict[str, int] | None = None",
            "def f(*, a): pass\n",
            "def f(*, a, k: dict[str, int] | None = None): pass\n",
        ),
        (
            "Callable[..., int] = g",
            "def f(a: int,): pass\n",
            "def f(a: int, k: Callable[..., int] = g,): pass\n",
        ),
        (
            "'C' = ...",
            "def f(\n    a: int,\n): pass\n",
            "def f(\n    a: int,\n    k: 'C' = ...,\n): pass\n",
        ),
        # It is there, formatted in another way.
        ("bool = False", "def f(a, k:bool=False): pass\n", None),
        ("False", "def f(a, k: bool = False): pass\n", None),
    ],
)
def test_the_annotation_of_a_parameter(value, before, after):
    edit = {"find": "def f(...): ...", "add-keyword": {"k": value}}
    assert edited(edit, before) == (after or before)


@pytest.mark.parametrize(
    ("value", "source", "problem"),
    [
        ("bool = False", "def f(k=False): pass\n", "already has k=False"),
        ("bool = False", "def f(k: int = False): pass\n", "already has k: int = False"),
        ("bool = False", "def f(k: bool): pass\n", "already has k: bool"),
        ("False", "def f(k: bool, a): pass\n", "already has k: bool"),
    ],
)
def test_another_annotation_is_a_problem(value, source, problem):
    edit = {"find": "def f(...): ...", "add-keyword": {"k": value}}
    assert run(edit, source).mismatch == f"vllm/m.py: {problem}"
    assert run({**edit, "any-value": True}, source).mismatch is None


@pytest.mark.parametrize(
    "value", ["bool =", "= 1", "1, b", "int = 1, b", "int = 1, *b", "1): pass\ndef g(a"]
)
def test_what_is_no_default_of_a_parameter(value):
    with fails("codemods.wrong-edit", "not a default of the parameter k"):
        edits_of({"find": "def f(...): ...", "add-keyword": {"k": value}})


def test_another_default_is_a_problem():
    edit = {"find": "def f(...): ...", "add-keyword": {"a": "1"}}
    assert "already has a" in run(edit, "def f(a): pass\n").mismatch
    assert "already has a=2" in run(edit, "def f(*, a=2): pass\n").mismatch
    assert run(edit, "def f(*, a = 1): pass\n").mismatch is None


ACCEPTED = {
    "find": "self.$p = f(...)",
    "add-keyword": {"k": '"a.$p"'},
    "any-value": ['f"{$_}.$p"', 'join($_, "$p")'],
}


@pytest.mark.parametrize("value", ['"a.x"', 'f"{b}.x"', 'join(c, "x")'])
def test_a_value_that_a_pattern_accepts_is_done(value):
    result = run(ACCEPTED, f"self.x = f(k={value})\n")
    assert result.mismatch is None
    assert not result.todo


@pytest.mark.parametrize("value", ["None", '""', '"x"', 'f"{b}.y"', 'join(c, "y")'])
def test_a_value_that_no_pattern_accepts_is_a_problem(value):
    result = run(ACCEPTED, f"self.x = f(k={value})\n")
    assert result.mismatch == f"vllm/m.py: already has k={value}"


def test_no_patterns_of_values_for_parameters():
    with pytest.raises(PatternError, match="for the keywords of a call only"):
        edits_of({**D, "any-value": ["1"]})


def calling(*statements):
    return "".join(f"{line}\n" for line in ["def g():", *(f"    {one}" for one in statements)])


@pytest.mark.parametrize(
    ("statements", "added"),
    [
        (["o = {'b': 2}", "f(a, **o)"], "f(a, **o, k=1)"),
        (["o = dict(b=2)", "p = 3", "x = f(p, **o)"], "x = f(p, **o, k=1)"),
        (["o = dict(k=1)", "f(a, **o)"], None),
    ],
)
def test_keywords_of_a_dict_that_a_local_holds_for_the_call_are_known(statements, added):
    after = statements if added is None else [*statements[:-1], added]
    assert edited(K, calling(*statements)) == calling(*after)


@pytest.mark.parametrize(
    "statements",
    [
        ["o = {'b': 2}", "o['k'] = 1", "f(**o)"],
        ["o = dict(b=2)", "o = h()", "f(**o)"],
        ["o = dict(b=2)", "h(a)", "f(**o)"],
        ["if a: o = dict(b=2)", "f(**o)"],
        ["o = dict(**h())", "f(**o)"],
        ["o = dict(b=2)", "def inner():", "    f(**o)"],
    ],
)
def test_keywords_of_a_dict_that_may_have_more_are_not_known(statements):
    assert "has ** arguments that may hold k" in run(K, calling(*statements)).mismatch


def test_a_call_is_found_by_a_keyword_of_a_dict_that_a_local_holds():
    edit = {"find": "f(b=$b, ...)", "add-keyword": {"k": "$b"}}
    before = calling("o = dict(b=2, c=3)", "f(**o)")
    assert edited(edit, before) == calling("o = dict(b=2, c=3)", "f(**o, k=2)")
    assert run(edit, calling("o = dict(b=2)", "o.clear()", "f(**o)")).mismatch is not None
