from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import edited, edits_of, fails, run
from tests.test_properties import PROPERTY, meaning, reformat

CASES = {
    "argument": ("- f($x)\n+ f($x, k=1)\n", "y = f( a )  # c\n", "y = f( a, k=1 )  # c\n"),
    "callee": ("- old($x)\n+ new($x)\n", "y = old(1)\n", "y = new(1)\n"),
    "swap": ("- f($a, $b)\n+ g($b, $a)\n", "f(1, 2)\n", "g(2, 1)\n"),
    "drop argument": ("- f(..., verbose=$_)\n+ f(...)\n", "f(1, verbose=2)\n", "f(1)\n"),
    "same twice": (
        "- $x == $x\n+ isclose($x, $x)\n",
        "b == a\na == a\n",
        "b == a\nisclose(a, a)\n",
    ),
    "method to function": ("- $o.size()\n+ len($o)\n", "n = a.b.size()\n", "n = len(a.b)\n"),
    "none": ("- $x == None\n+ $x is None\n", "if a == None:\n    b\n", "if a is None:\n    b\n"),
    "import": ("- import a\n+ import b\n", "import a  # c\n", "import b  # c\n"),
    "from": ("- from a import x\n+ from b import x\n", "from a import x\n", "from b import x\n"),
    "delete": ("- import a\n", "import a\nx = 1\n", "x = 1\n"),
    "insert below": ("  a = 1\n+ b = 2\n", "a = 1  # c\nd = 3\n", "a = 1  # c\nb = 2\nd = 3\n"),
    "insert above": ("+ b = 2\n  a = 1\n", "a = 1\n", "b = 2\na = 1\n"),
    "delete behind": ("  a()\n- b()\n", "b()\na()\nb()\n", "b()\na()\n"),
    "two": ("- a()\n- b()\n+ c()\n", "a()\nb()\nd()\n", "c()\nd()\n"),
    "value": ("- X = 128\n+ X = 256\n", "X = 128  # c\n", "X = 256  # c\n"),
    "annotated": ("- X = 1\n+ X = 2\n", "X: int = 1\n", "X: int = 2\n"),
    "return": (
        "- return $x\n+ return g($x)\n",
        "def f():\n\treturn 1\n",
        "def f():\n\treturn g(1)\n",
    ),
    "wrap": (
        "- a()\n+ with lock:\n+     a()\n",
        "def f():\n    a()  # c\n",
        "def f():\n    with lock:\n        a()  # c\n",
    ),
    "condition": (
        "- if $x:\n+ if $x and y:\n      ...\n",
        "if a:\n    b  # c\nelse:\n    d\n",
        "if a and y:\n    b  # c\nelse:\n    d\n",
    ),
    "in a method": (
        "  def $n(self, ...):\n      ...\n-     x = f($a)\n+     x = f($a, s=self.s)\n      ...\n",
        "class C:\n    def g(self, q):\n        x = f( 2 )\n        return x\n",
        "class C:\n    def g(self, q):\n        x = f( 2, s=self.s )\n        return x\n",
    ),
    "delete in a function": (
        "  def f(...):\n      ...\n-     a()\n      ...\n",
        "def f():\n    b()  # c\n    a()\n    c()\n",
        "def f():\n    b()  # c\n    c()\n",
    ),
    "parameter": (
        "- def f(..., a, ...):\n+ def f(..., a, b=1, ...):\n      ...\n",
        "def f(x, a, y=2):\n    pass\n",
        "def f(x, a, b=1, y=2):\n    pass\n",
    ),
    "base": (
        "- class C(...):\n+ class C(..., M):\n      ...\n",
        "class C(A):\n    x = 1\n",
        "class C(A, M):\n    x = 1\n",
    ),
    "entries": (
        "- K = [..., 'a', ...]\n+ K = [..., 'a', 'b', ...]\n",
        "K = ['a']\n",
        "K = ['a', 'b']\n",
    ),
    "loop": (
        "  for $i in $x:\n-     a($i)\n+     b($i)\n",
        "for k in y:\n    a(k)\n",
        "for k in y:\n    b(k)\n",
    ),
    "raise": ("- raise E($m)\n+ raise F($m)\n", "raise E('a')\n", "raise F('a')\n"),
}


@pytest.mark.parametrize("name", CASES)
def test_change(name):
    change, before, after = CASES[name]
    assert edited({"change": change}, before) == after


@pytest.mark.parametrize("name", CASES)
def test_code_that_is_new_stays(name):
    change, _, after = CASES[name]
    result = run({"change": change}, after, carried=True)
    assert not result.todo
    assert result.view.files == {} or result.view.read("vllm/m.py").decode() == after


@pytest.mark.parametrize(
    ("change", "source"),
    [
        (
            "  def f(...):\n      ...\n-     a($x)\n+     a($x, k=1)\n      ...\n",
            "def f():\n    a(1)\n    z()\n    a(3)\n",
        ),
        (
            "  def f(...):\n      ...\n-     a()\n      ...\n",
            "def f():\n    a()\n    z()\n    a()\n",
        ),
        ("  a()\n  ...\n- b()\n+ c()\n", "a()\nb()\nz()\nb()\n"),
    ],
)
def test_gap_that_fits_twice_is_a_conflict(change, source):
    result = run({"change": change}, source)
    assert "more than one place behind '...'" in result.mismatch
    assert result.view.files == {}


def test_two_places_where_one_is_expected():
    change = {"change": "- f(1)\n+ g(1)\n"}
    assert "expected 1, found 2" in run(change, "f(1)\nf(1)\n").mismatch
    assert edited({**change, "expect": 2}, "f(1)\nf(1)\n") == "g(1)\ng(1)\n"


def test_where_and_within():
    change = {"change": "- $x.run()\n+ $x.go()\n", "where": {"$x": "a"}, "within": "f"}
    source = "a.run()\ndef f():\n    a.run()\n    b.run()\n"
    assert edited(change, source) == "a.run()\ndef f():\n    a.go()\n    b.run()\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("f()\n- g()\n", "line 1 of the change: 'f\\(\\)' begins with 'f\\('"),
        ("  f()\n-g()\n", "line 2 of the change: '-g\\(\\)'"),
        ("  f()\n", "no line begins with '- ' or"),
        ("  f()\n- \n", "no line begins with '- ' or"),
        ("+ f()\n", "each line is new"),
        (
            "  def f(...):\n      ...\n      a()\n+     b()\n      ...\n",
            "line [25] of the change: '...' may fit in several ways",
        ),
        ("  f()\n- ...\n", "line 2 of the change: '...' is marked with '-'"),
        ("- f()\n+ g($y)\n", "line 2 of the change: \\$y is in no line that is there"),
        ("- f()\n+ g()  # why\n", "line 2 of the change: the comment '# why'"),
        ("  # $why\n- f()\n", "line 1 of the change: the comment"),
        ("  def f(...):\n+     g()\n      ...\n", "line 2 of the change: a docstring"),
    ],
)
def test_refused(change, message):
    with fails("codemods.wrong-change", message):
        edits_of({"change": change})


@PROPERTY
@given(data=st.data())
def test_same_as_find_and_rewrite(data):
    code = reformat(data.draw, "f(a, k='v')", inside=st.sampled_from(["", " ", "\n"]))
    above = data.draw(st.sampled_from(["", "# c\n", "x  =  1 ;y=2\n", "'''d'''\n"]))
    source = f"{above}z = {code}  # d\n"
    result = edited({"change": "- f($a, ...)\n+ f($a, n=1, ...)\n"}, source)
    assert result == edited({"find": "f($a, ...)", "rewrite": "f($a, n=1, ...)"}, source)
    assert result.startswith(above)
    assert result.endswith("  # d\n")
    assert meaning(result) != meaning(source)
