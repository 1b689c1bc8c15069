from __future__ import annotations

import re

import libcst as cst
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.helpers import fails
from vpatch.codemods.match import same_code
from vpatch.codemods.nodes import between, canonical, code_of, is_gap
from vpatch.codemods.pattern import (
    PatternError,
    find_in,
    parse_code,
    parse_pattern,
)


def matched(pattern, code):
    """What the pattern binds in the code, or None where it does not match."""
    (node,) = cst.parse_module(code).body
    if isinstance(node, cst.SimpleStatementLine):
        (node,) = node.body
        node = node.value if isinstance(node, cst.Expr) else node
    match = parse_pattern(pattern).match(node)
    return None if match is None else match.texts()


@pytest.mark.parametrize(
    ("pattern", "code", "bindings"),
    [
        ("f(x)", "f(x)", {}),
        ("f(x)", "f( # why\n  (x),\n)", {}),
        ("f('a')", 'f("a")', {}),
        ("f('ab')", 'f("a" "b")', {}),
        ("f('ab')", "f('''ab''')", {}),
        ("f(16)", "f(0x10)", {}),
        ("f(1)", "f(1.0)", None),
        ("f(x)", "f(y)", None),
        ("f(x)", "f(x, y)", None),
        ("f(x)", "f(*x)", None),
        ("f(*x)", "f(*x)", {}),
        ("f(a=1, b=2)", "f(b=2, a=1)", {}),
        ("f(a=1)", "f(a=1, b=2)", None),
        ("f(..., a=1)", "f(b=2, a=1)", {}),
        ("f(x, a=1)", "f(a=1)", None),
        ("f(...)", "f()", {}),
        ("f(a=1, ...)", "f(b=2, a=1)", {}),
        ("f(a=$x, ..., b=2)", "f(0, b=2, c=3, a=1)", {"x": "1"}),
        ("f(a=1, ...)", "f(b=2)", None),
        ("f(**k, ...)", "f(1, **k)", None),
        ("f(*a, ...)", "f(*a, 1)", {}),
        ("f(g(a=1, ...), ...)", "f(g(b, a=1), c)", {}),
        ("f(a=(...), ...)", "f(a=..., b=1)", {}),
        ("f((...))", "f(...)", {}),
        ("f((...))", "f(1)", None),
        ("x[(...), $i]", "x[..., 0]", {"i": "0"}),
        ("Callable[(...), $r]", "Callable[..., int]", {"r": "int"}),
        ("f(..., x, ...)", "f(1, x)", {}),
        ("f(..., x, ...)", "f(x, 1, k=2)", {}),
        ("f(..., x)", "f(x, 1)", None),
        ("f($a, ..., $b)", "f(1, 2, 3)", {"a": "1", "b": "3"}),
        ("f($x, $x)", "f(a.b, a . b)", {"x": "a.b"}),
        ("f($x, $x)", "f(a, b)", None),
        ("f($_, $_)", "f(a, b)", {}),
        ("f(a=$x, b=$x)", "f(b=1, a=1)", {"x": "1"}),
        ("$o.f", "a[0].f", {"o": "a[0]"}),
        ("self.$p = f()", "self.q = f()", {"p": "q"}),
        ("self.$p = f()", "self.q: int = f()", {"p": "q"}),
        ('f(f"{p}.$q", $q)', 'f(f"{p}.a", a)', {"q": "a"}),
        ('f(f"{p}.$q", $q)', "f(f'{p}.a', a)", {"q": "a"}),
        ('f(f"{p}.$q", $q)', 'f(f"{p}.a", b)', None),
        ('f(f"{p}.$q")', 'f(f"{p}a")', None),
        ('f("a.$q")', 'f("a.b[0]")', {"q": "b[0]"}),
        ('f("a.$q")', 'f("a.)")', None),
        ('f("$q.$q")', 'f("a.a")', {"q": "a"}),
        ('f("$q.$q")', 'f("a.b")', None),
        ('f(f"{x}")', 'f(f"{x=}")', None),
        ('f(b"a")', 'f("a")', None),
        ("return $x", "return 1 + 1", {"x": "1 + 1"}),
        ("x[1:2]", "x[1 : 2]", {}),
        ("a < $x < c", "a < b < c", {"x": "b"}),
    ],
)
def test_match_expressions_and_statements(pattern, code, bindings):
    assert matched(pattern, code) == bindings


@pytest.mark.parametrize(
    ("pattern", "code", "matches"),
    [
        ("def f(...): ...", "def f(): pass", True),
        ("def f(...): ...", "@d\nasync def f(a, /, *b, c: int = 1, **d) -> int:\n  x\n  y", True),
        ("def f(): ...", "def f(a): pass", False),
        ("def f(self, ...): ...", "def f(self, a, *, b): pass", True),
        ("def f(self, ...): ...", "def f(a, self): pass", False),
        ("def f(*, b, ...): ...", "def f(self, *, a, b=1): pass", False),
        ("def f(*, b=1, ...): ...", "def f(self, *, a, b=1): pass", True),
        ("def f(x=(...)): ...", "def f(x=1): pass", False),
        ("def f(x=(...)): ...", "def f(x=...): pass", True),
        # A gap stands anywhere among the parameters.
        ("def f(..., x): ...", "def f(x): pass", True),
        ("def f(..., x): ...", "def f(a, b: int, x): pass", True),
        ("def f(..., x): ...", "def f(x, a): pass", False),
        ("def f(..., x, ...): ...", "def f(a, x, b, *c, d, **e): pass", True),
        ("def f(..., x, ...): ...", "def f(a, b): pass", False),
        ("def f(self, ..., x, ...): ...", "def f(self, x): pass", True),
        ("def f(self, ..., x, ...): ...", "def f(x, self): pass", False),
        # ... and reaches as far as those that are keywords only.
        ("def f(..., x): ...", "def f(a, *, b, x, c): pass", True),
        ("def f(..., x, y): ...", "def f(a, x, *, y): pass", False),
        ("def f(..., x, ..., y): ...", "def f(a, x, *, y): pass", True),
        ("def f(a, ...): ...", "def f(*, a): pass", False),
        ("def f(a=1, ..., x): ...", "def f(a=1, *args, x): pass", True),
        ("def f(a=1, ..., x): ...", "def f(a=1, *, y, x, z): pass", True),
        ("def f(a=1, ..., x): ...", "def f(a=1, *, y): pass", False),
        ("def f(a=1, ..., x=2): ...", "def f(a=1, b=3, x=2): pass", True),
        ("def f(a=1, ...): ...", "def f(a=1): pass", True),
        ("def f(a=1, ...): ...", "def f(a=1, b=2, *, c): pass", True),
        ("def f(a=1, ...): ...", "def f(a, b=2): pass", False),
        ("def f(a=1, ..., *, k): ...", "def f(a=1, b=2, *, j, k): pass", True),
        ("def f(..., *, k): ...", "def f(a, *, k, j): pass", True),
        ("def f(..., *, k): ...", "def f(a, k): pass", False),
        ("def f(..., *args): ...", "def f(a, *args, b): pass", True),
        ("def f(..., *args): ...", "def f(a): pass", False),
        ("def f(..., *args): ...", "def f(a, *rest): pass", False),
        ("def f(..., **kw): ...", "def f(a, *, b, **kw): pass", True),
        ("def f(..., **kw): ...", "def f(a, *, b): pass", False),
        ("def f(*args, ...): ...", "def f(a, *args, b, **kw): pass", True),
        ("def f(*, ...): ...", "def f(a, *, b): pass", True),
        ("def f(..., /, x): ...", "def f(a, b, /, x): pass", True),
        ("def f(a=(1, 2), ...): ...", "def f(a=(1, 2), b=3): pass", True),
        ("def f(a: g(1, k=2), ..., b): ...", "def f(a: g(1, k=2), c, b): pass", True),
        ("def f(a='...', ...): ...", "def f(a='...', b=1): pass", True),
        ("async def f[T](..., x, ...): ...", "async def f[T](a, x): pass", True),
        ("def $f(..., x, ...): ...", "def g(a, x): pass", True),
        ("def f(\n    ...,\n    x,  # one, ...\n): ...", "def f(a, x): pass", True),
        ("class C(..., B): ...", "class C(A, B): pass", True),
        ("class C(..., B): ...", "class C(B, A): pass", False),
        ("class C(..., metaclass=M): ...", "class C(A, metaclass=M): pass", True),
        ("class C(metaclass=M, ...): ...", "class C(A, metaclass=M): pass", True),
        ("def f(a): ...", "def f(a: int): pass", True),
        ("def f(a: int): ...", "def f(a): pass", False),
        ("@d\ndef f(): ...", "def f(): pass", False),
        ("def f():\n  ...\n  return 1", "def f():\n  a\n  b\n  return 1", True),
        ("def f():\n  ...\n  return 1", "def f(): return 1", True),
        ("def f():\n  ...\n  return 1", "def f():\n  return 1\n  x", False),
        ("class C: ...", "class C(B, metaclass=M):\n  x = 1", True),
        ("class C(B): ...", "class C:\n  x = 1", False),
        ("if $x: ...", "if a and b:\n  pass", True),
        ("if $x: ...", "if a:\n  pass\nelse:\n  pass", True),
        ("if $x: ...", "if a:\n  pass\nelif b:\n  pass", True),
        ("if $x: ...\nelse: ...", "if a:\n  pass\nelse:\n  pass", True),
        ("if $x: ...\nelse: ...", "if a:\n  pass", False),
        ("if $x: ...\nelse: ...", "if a:\n  pass\nelif b:\n  pass", False),
        ("while $x: ...", "while a:\n  pass\nelse:\n  pass", True),
        ("for $i in $x: ...", "for i in a:\n  pass\nelse:\n  pass", True),
        ("for $i in $x: ...", "async for i in a:\n  pass", False),
        ("try: ...\nexcept E: ...", "try: a\nexcept E: b\nelse: c\nfinally: d", True),
        ("try: ...\nexcept E: ...", "try: a\nexcept E: b\nexcept F: b", False),
        ("try: ...\nexcept* E: ...", "try: a\nexcept* E: b\nfinally: d", True),
        ("try: ...\nfinally: ...", "try: a\nexcept E: b\nfinally: d", False),
        ("with $x as y: ...", "with (a as y):\n  pass", True),
        ("for $i in x: ...", "for i in x: pass", True),
    ],
)
def test_match_blocks(pattern, code, matches):
    assert (matched(pattern, code) is not None) == matches


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("$x", "match everything"),
        ("...", "match everything"),
        ("f(", "not Python"),
        ("f($)", "not Python"),
        ("a; b", "one expression or one statement"),
        ("a\nb", "one expression or one statement"),
        ("", "one expression or one statement"),
        ("x[...]", "is not a wildcard there"),
        ('f"{...}"', "is not a wildcard there"),
        ("{x: ...}", "is not a wildcard there"),
        ("[*..., x]", "is not a wildcard there"),
        ("f(a=...)", "is not a wildcard there"),
        ("f(*...)", "is not a wildcard there"),
        ("x = ...", "is not a wildcard there"),
        ("return ...", "is not a wildcard there"),
        ("def f(x=...): ...", "is not a wildcard there"),
        ("def f(x: Callable[..., int]): ...", "is not a wildcard there"),
        ("def f() -> tuple[int, ...]: ...", "is not a wildcard there"),
        ("lambda ...: 1", "not Python"),
        ("def f(**kw, ...): ...", "not Python"),
        ("f(a, ...", "not Python"),
    ],
)
def test_parse_pattern_refuses(source, message):
    with pytest.raises(PatternError, match=message):
        parse_pattern(source)


def test_an_ellipsis_that_is_no_wildcard_says_how_to_write_python_s_own():
    with fails("codemods.wrong-pattern") as caught:
        parse_pattern("x[..., 0]")
    assert "write (...) for Python's own Ellipsis" in caught.value.hint


def test_parse_pattern_quotes_what_was_written():
    with fails("codemods.not-python", r"in 'f\(\$x'"):
        parse_pattern("f($x")


@pytest.mark.parametrize(
    ("source", "needles"),
    [
        ("self.$p = Linear(..., key='word')", {b"self", b"Linear", b"word"}),
        ("x.f(key=1)", {b"x", b"f", b"key"}),
        ("f('two words')", {b"f"}),
        ("f('a' 'b')", {b"f"}),
        ("f('$x', $x)", {b"f"}),
        ("def f(self, ...): ...", {b"f", b"self"}),
    ],
)
def test_needles_are_in_every_match(source, needles):
    assert parse_pattern(source).needles == needles


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        ("f(a, b)", "f(\n  a,  # why\n  b,\n)", True),
        ("f(a=1, b=2)", "f(b=2, a=1)", True),
        # Between two pieces of code nothing is a gap, and nothing may be left out.
        ("f(...)", "f(1)", False),
        ("def f(): ...", "def f(): return 1", False),
        ("def f(): pass", "@d\ndef f(): pass", False),
        ("def f(a): pass", "def f(a: int): pass", False),
        ("class C: pass", "class C(B): pass", False),
        ("f(a)", "f(b)", False),
    ],
)
def test_same_code(left, right, same):
    (one,), (other,) = cst.parse_module(left).body, cst.parse_module(right).body
    assert same_code(one, other) == same


def test_repeated_metavariable_compares_code_not_patterns():
    assert matched("f($x, $x)", "f(g(...), g(1))") is None


def test_find_in_looks_everywhere():
    module = cst.parse_module("class C:\n    def m(self):\n        return g(f(1))\n")
    assert find_in(parse_pattern("f($x)"), module)
    assert not find_in(parse_pattern("h($x)"), module)


def test_is_gap_is_not_a_keyword_or_a_star():
    call = cst.ensure_type(cst.parse_expression("f(..., a=..., *b)"), cst.Call)
    assert [is_gap(argument) for argument in call.args] == [True, False, False]


def test_parse_code_keeps_the_comment_above():
    statements = parse_code("# why\nx = 1")
    assert code_of(statements[0]) == "# why\nx = 1\n"


@pytest.mark.parametrize(
    ("code", "plain"), [("( a.b )", "a.b"), ('"x"', "'x'"), ("*a", "*a"), ("not code", "not code")]
)
def test_canonical(code, plain):
    assert canonical(code) == plain


def test_many_metavariables_in_a_text():
    """Tried in all ways, these would take longer than anybody lives."""
    pattern = "-".join(f"$v{number}" for number in range(12))
    assert matched(f"f('{pattern}!')", f"f('{'a-' * 2000}')") is None
    assert matched(f"f('{pattern}')", f"f('{'-'.join('abcdefghijkl')}')") is not None


@given(st.lists(st.text("a\n-", max_size=2), min_size=1, max_size=4), st.text("ab\n-", max_size=9))
@settings(max_examples=500)
@example(["", ""], "ab")
@example(["a", "a"], "a")
def test_what_is_between_the_parts_of_a_text(parts, text):
    found = re.fullmatch("(.+)".join(map(re.escape, parts)), text)
    assert between(parts, text) == (None if found is None else list(found.groups()))


@pytest.mark.parametrize("separator", ["\u2028", "\x85", "\x0c", "\x1c"])
def test_a_separator_in_a_text_ends_no_line_of_a_pattern(separator):
    text = f'"{separator}"'
    assert matched(f"f(a={text}, ...)", f"f(a={text}, b=1)") == {}
    assert matched(f"f(a={text}, ...)", 'f(a="", b=1)') is None


def test_a_long_table_is_compared():
    """It may have more rows than Python has levels of recursion."""
    table = f"[{', '.join(map(str, range(3000)))}]"
    assert matched("f($x, $x)", f"f({table}, {table})") is not None
    assert matched("f($x, $x)", f"f({table}, {table[:-1]}, 0])") is None
    assert matched(f"x = {table}", f"x = {table}") == {}


def test_gaps_that_can_be_filled_in_very_many_ways():
    gaps = ", ".join(f"..., $a{number}" for number in range(12))
    names = ", ".join(f"x{number}" for number in range(60))
    with fails("codemods.too-many-gaps"):
        matched(f"f({gaps}, ..., zz)", f"f({names})")
    assert matched("f(..., $a, ..., zz)", f"f({names})") is None
