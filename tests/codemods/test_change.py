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
    # With comments.
    "new comment": (
        "  a = 1\n+ # why\n+ b = 2\n",
        "a = 1  # c\n# d\nd = 3\n",
        "a = 1  # c\n# why\nb = 2\n# d\nd = 3\n",
    ),
    "comment in a new block": (
        "- a()\n+ if x:\n+     # why\n+     b()  # so\n",
        "def f():\n    # old\n    a()\n",
        "def f():\n    # old\n    if x:\n        # why\n        b()  # so\n",
    ),
    "comment above what is replaced": (
        "- x = $v\n+ # why\n+ x = g($v)\n",
        "def f():\n    x = 1  # c\n",
        "def f():\n    # why\n    x = g(1)  # c\n",
    ),
    # As in Coccinelle's documentation: arguments, a field for a function, a check that goes.
    "remove a middle argument": ("- f($a, $_, $b)\n+ f($a, $b)\n", "f(1, 2, 3)\n", "f(1, 3)\n"),
    "field to getter": (
        "- $x.count\n+ $x.get_count()\n",
        "y = a[0].count + 1\n",
        "y = a[0].get_count() + 1\n",
    ),
    "check before free": (
        "- if $x is not None:\n-     free($x)\n+ free($x)\n",
        "if a.b is not None:\n    free(a.b)  # c\n",
        "free(a.b)  # c\n",
    ),
    "result that nobody checks": (
        "  $x = alloc(...)\n+ if $x is None:\n+     raise MemoryError\n",
        "p = alloc(1, n=2)\nuse(p)\n",
        "p = alloc(1, n=2)\nif p is None:\n    raise MemoryError\nuse(p)\n",
    ),
    "temporary that goes": (
        "- $t = g()\n- h($t)\n+ h(g())\n",
        "q = g()\nh(q)\nz()\n",
        "h(g())\nz()\n",
    ),
    "lock around": (
        "+ with lock:\n+     f($x)\n- f($x)\n",
        "a()\nf(1)\nb()\n",
        "a()\nwith lock:\n    f(1)\nb()\n",
    ),
    "two calls in turn": (
        "- begin($x)\n- end($x)\n+ both($x)\n",
        "begin(a)\nend(a)\nbegin(a)\nend(b)\n",
        "both(a)\nbegin(a)\nend(b)\n",
    ),
    "constant for a name": ("- f(0)\n+ f(NONE)\n", "f(0); f(1)\n", "f(NONE); f(1)\n"),
    # As in Semgrep's documentation: dangerous calls, comparisons, keyword arguments, decorators.
    "yaml.load": (
        "- yaml.load($x)\n+ yaml.safe_load($x)\n",
        "import yaml\nd = yaml.load(open('f'))\n",
        "import yaml\nd = yaml.safe_load(open('f'))\n",
    ),
    "keyword that must be there": (
        "- requests.get($url)\n+ requests.get($url, timeout=10)\n",
        "r = requests.get(u)\ns = requests.get(u, timeout=3)\n",
        "r = requests.get(u, timeout=10)\ns = requests.get(u, timeout=3)\n",
    ),
    "keyword of another value": (
        "- f(..., verify=False, ...)\n+ f(..., verify=True, ...)\n",
        "f(1, verify=False, z=2)\n",
        "f(1, verify=True, z=2)\n",
    ),
    "decorator": (
        "- @old\n+ @new\n  def $f(...):\n      ...\n",
        "@old\ndef g(x):\n    return x\n",
        "@new\ndef g(x):\n    return x\n",
    ),
    "decorator with arguments": (
        "- @route($p)\n+ @route($p, methods=['GET'])\n  def $f(...):\n      ...\n",
        "@route('/x')\ndef g():\n    pass\n",
        "@route('/x', methods=['GET'])\ndef g():\n    pass\n",
    ),
    "useless else": (
        "  if $x:\n      return $a\n- else:\n-     return $b\n+ return $b\n",
        "def f(q):\n    if q:\n        return 1\n    else:\n        return 2\n",
        "def f(q):\n    if q:\n        return 1\n    return 2\n",
    ),
    "negated membership": (
        "- not $x in $y\n+ $x not in $y\n",
        "if not a in b:\n    c\n",
        "if a not in b:\n    c\n",
    ),
    "subscript to get": ("- $d['k']\n+ $d.get('k')\n", "x = env['k']\n", "x = env.get('k')\n"),
    "f-string": (
        "- f'{$x}'\n+ str($x)\n",
        "y = f'{a + b}'\n",
        "y = str(a + b)\n",
    ),
    "exception that is named": (
        "  try:\n      ...\n- except:\n+ except Exception:\n      ...\n",
        "try:\n    a()\nexcept:\n    b()\n",
        "try:\n    a()\nexcept Exception:\n    b()\n",
    ),
    "assert to raise": (
        "- assert $c, $m\n+ if not ($c):\n+     raise ValueError($m)\n",
        "assert x > 1, 'no'\n",
        "if not (x > 1):\n    raise ValueError('no')\n",
    ),
    # As in GritQL's documentation: console.log to a logger, imports, props, ternaries.
    "print to a logger": (
        "- print($m)\n+ log.info($m)\n",
        "print('a')  # c\n",
        "log.info('a')  # c\n",
    ),
    "ternary to or": ("- $a if $a else $b\n+ $a or $b\n", "x = q if q else 1\n", "x = q or 1\n"),
    "lambda": ("- lambda $x: f($x)\n+ f\n", "map(lambda q: f(q), y)\n", "map(f, y)\n"),
    "import of several": (
        "- from a import x, y\n+ from a import x\n+ from b import y\n",
        "from a import x, y\nz = 1\n",
        "from a import x\nfrom b import y\nz = 1\n",
    ),
    "augmented": ("- $x = $x + $y\n+ $x += $y\n", "n.a = n.a + 2\n", "n.a += 2\n"),
    "unpacked": ("- $a, $b = f()\n+ $a, $b, _ = f()\n", "x, y = f()\n", "x, y, _ = f()\n"),
    "with several": (
        "- with open($f) as $h:\n+ with open($f, 'rb') as $h:\n      ...\n",
        "with open(p) as q:\n    q.read()\n",
        "with open(p, 'rb') as q:\n    q.read()\n",
    ),
    "comprehension": (
        "- [f($x) for $x in $y]\n+ list(map(f, $y))\n",
        "z = [f(q) for q in w]\n",
        "z = list(map(f, w))\n",
    ),
    "async": (
        "- def $f(...):\n+ async def $f(...):\n      ...\n",
        "def g(a):\n    return a\n",
        "async def g(a):\n    return a\n",
    ),
    "parameter that goes": (
        "- def f($a, old, ...):\n+ def f($a, ...):\n      ...\n",
        "def f(self, old, k=1):\n    return k\n",
        "def f(self, k=1):\n    return k\n",
    ),
    "annotation of the result": (
        "- def f(...):\n+ def f(...) -> int:\n      ...\n",
        "def f(a):\n    return a\n",
        "def f(a) -> int:\n    return a\n",
    ),
    "dict entry": (
        "- D = {..., 'a': 1, ...}\n+ D = {..., 'a': 2, ...}\n",
        "D = {'z': 0, 'a': 1, 'b': 3}\n",
        "D = {'z': 0, 'a': 2, 'b': 3}\n",
    ),
    "elif that is new": (
        "  if $a:\n      f()\n+ elif b:\n+     g()\n  else:\n      h()\n",
        "if a:\n    f()\nelse:\n    h()\n",
        "if a:\n    f()\nelif b:\n    g()\nelse:\n    h()\n",
    ),
    "early return": (
        "+ if not x:\n+     return None\n  y = f(x)\n",
        "def g(x):\n    '''d'''\n    y = f(x)\n    return y\n",
        "def g(x):\n    '''d'''\n    if not x:\n        return None\n    y = f(x)\n    return y\n",
    ),
    "while to for": (
        "- while True:\n+ for _ in range(n):\n      ...\n",
        "while True:\n    a()\n    b()\n",
        "for _ in range(n):\n    a()\n    b()\n",
    ),
    "class that is new": (
        "+ class New:\n+     x = 1\n+ \n+ \n  class Old(...):\n      ...\n",
        "a = 1\n\n\nclass Old(B):\n    y = 2\n",
        "a = 1\n\n\nclass New:\n    x = 1\n\n\nclass Old(B):\n    y = 2\n",
    ),
    "order of statements": ("- a()\n  b()\n+ a()\n", "a()\nb()\nc()\n", "b()\na()\nc()\n"),
}


INSIDE = {
    "end of a function": (
        "  def f(...):\n      ...\n+     # why\n+     b(1)\n",
        "def f(a):\n    '''d'''\n    a()  # c\n\n\nz()\n",
        "def f(a):\n    '''d'''\n    a()  # c\n    # why\n    b(1)\n\n\nz()\n",
    ),
    "start of a function": (
        "  def f($a, ...):\n+     check($a)\n      ...\n",
        "def f(q, r):\n    '''d'''\n    a()  # c\n",
        "def f(q, r):\n    '''d'''\n    check(q)\n    a()  # c\n",
    ),
    "end of a class": (
        "  class C(...):\n      ...\n+ \n+     def g(self):\n+         return 1\n",
        "class C(B):\n    x = 1\n\n    def f(self):\n        pass\n",
        (
            "class C(B):\n    x = 1\n\n    def f(self):\n        pass\n\n"
            "    def g(self):\n        return 1\n"
        ),
    ),
    "end of a loop": (
        "  for $i in range(\n      n\n  ):\n      ...\n+     b($i)\n",
        "for k in range(n):\n    a(k)\nc()\n",
        "for k in range(n):\n    a(k)\n    b(k)\nc()\n",
    ),
}


@pytest.mark.parametrize("name", INSIDE)
def test_new_lines_at_an_end_of_a_block(name):
    change, before, after = INSIDE[name]
    assert edited({"change": change}, before) == after


def test_new_lines_behind_a_return_are_a_conflict():
    change = {"change": "  def f(...):\n      ...\n+     b()\n"}
    assert "never reached" in run(change, "def f():\n    return 1\n").mismatch


def test_comments_of_what_goes_may_go_too():
    change = "  a()\n- if x:\n-     b()\n+ # new\n+ c()\n"
    source = "# a\na()\n# b\nif x:  # d\n    # e\n    b()\n# z\nz()\n"
    assert "drop the comment" in run({"change": change}, source).mismatch
    made = edited({"change": change, "with-comments": True}, source)
    assert made == "# a\na()\n# new\nc()\n# z\nz()\n"


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
        ("- f()\n+ g()  # why\n", "line 2 of the change: the comment '# why' would be lost"),
        (
            "  if x:\n-     a()\n+     # why\n+     b()\n",
            "line 3 of the change: the comment '# why' would be lost",
        ),
        ("- f(1)\n+ f(\n+     2,  # why\n+ )\n", "line 3 of the change: the comment '# why'"),
        ("  a()\n+ b()\n+ # end\n", "line 3 of the change: the comment '# end' would be lost"),
        (
            "  def f(...):\n      ...\n+     b()\n+     # end\n",
            "line 4 of the change: the comment '# end' would be lost",
        ),
        ("- f()  # old\n+ g()\n", "line 1 of the change: the comment '# old' would not"),
        ("  # $why\n- f()\n", "line 1 of the change: the comment"),
        (
            "  def f(...):\n+     g()\n      ...\n-     z()\n",
            "line 2 of the change: a docstring",
        ),
        (
            "  if a:\n      ...\n  else:\n      ...\n+     b()\n",
            "line 4 of the change: '...' may fit in several ways",
        ),
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


# What becomes what, and the same in a kind of edit that was there before `change`.
_SAME = {
    "insert after": ("  a($x)\n+ b()\n", {"insert": "b()\n", "after": "a($x)"}),
    "insert before": ("+ b()\n  a($x)\n", {"insert": "b()\n", "before": "a($x)"}),
    "delete": ("- a($x)\n", {"delete": "a($x)"}),
    "add-keyword": (
        "- a($x, ...)\n+ a($x, ..., k=2)\n",
        {"find": "a($x, ...)", "add-keyword": {"k": "2"}},
    ),
    "rewrite statements": (
        "- a($x)\n+ with b:\n+     a($x)\n",
        {"find": "a($x)\n", "rewrite": "with b:\n    a($x)\n"},
    ),
}
_LINES = st.sampled_from(["x  =  1", "# c", "", "y=f( 2 )  # d", "if x: y", '"t"'])


@PROPERTY
@given(data=st.data(), name=st.sampled_from(sorted(_SAME)))
def test_same_as_the_kind_that_was_there_before(data, name):
    """It changes no line of what is around, gives the same, and nothing the second time."""
    change, other = _SAME[name]
    indent = data.draw(st.sampled_from(["", "    ", "\t"]))
    above, below = (
        "".join(f"{indent if line else ''}{line}\n" for line in lines)
        for lines in (data.draw(st.lists(_LINES, max_size=4)) for _ in range(2))
    )
    place = reformat(data.draw, "a(q)", inside=st.sampled_from(["", " ", "\n"]))
    head = "def f():\n" if indent else ""
    last = f"{indent}z()\n"
    source = f"{head}{above}{indent}{place}\n{below}{last}"
    within = {"within": "f"} if indent else {}
    result = edited({"change": change, **within}, source)
    assert result == edited({**other, **within}, source)
    # New code goes above the comments of the statement below it, and blank lines go with old code.
    lines = iter(result.splitlines())
    around = filter(None, f"{head}{above}{below}{last}".splitlines())
    assert all(line in lines for line in around)
    again = run({"change": change, **within}, result, carried=True)
    assert not again.todo
    assert again.view.files == {} or again.view.read("vllm/m.py").decode() == result
