"""Patterns find the same code in other syntax, and no code that merely looks alike."""

from __future__ import annotations

import ast

import libcst as cst
import pytest

from tests.codemods.test_rewrite import rewrite
from tests.helpers import edited, run
from vpatch.codemods.match import same_code
from vpatch.codemods.pattern import find_in, parse_pattern

SAME = [
    ("x[1, 2]", "x[(1, 2)]"),
    ("x[1,]", "x[(1,)]"),
    ("x[*a]", "x[(*a,)]"),
    ("x[*a, b]", "x[(*a, b)]"),
    ("x[(a, b), c]", "x[((a, b), c)]"),
    ("x[a:b]", "x[a:b:]"),
    ("x[:, 1]", "x[::, (1)]"),
    ("print(1)", "print((1))"),
    ("f('a' 'b')", 'f("ab")'),
    ("f('a' f'{x}b')", 'f(f"a{x}" "b")'),
    ("f(rf'{x}')", "f(F'{x}')"),
    ("f('{' f'{x}')", "f(f'{{{x}')"),
    ("lambda a, *, b: (a)", "(lambda a, *, b: a)"),
    ("a if b else (c if d else e)", "a if b else c if d else e"),
    ("{*a, b}", "{*a, (b)}"),
    ("if a:\n  b\nelif c:\n  d", "if a:\n  b\nelse:\n  if c:\n    d"),
    ("if a: b\nelif c: d\nelse: e", "if a:\n  b\nelse:\n  if c:\n    d\n  else: e"),
    ("match x:\n  case [a, b]: y", "match x:\n  case (a, b): y"),
    ("match x:\n  case a, *b: y", "match x:\n  case [a, *b]: y"),
]
OTHERS = [
    ("x[1]", "x[1,]"),
    ("x[1]", "x[(1,)]"),
    ("x[(a, b), c]", "x[a, b, c]"),
    ("x[a, b]", "x[[a, b]]"),
    ("x[a:b, c]", "x[(a, b), c]"),
    ("x[()]", "x[(),]"),
    ("x[a:b]", "x[a::b]"),
    ("f('a', 'b')", "f('a' 'b')"),
    ("f(b'a')", "f('a')"),
    ("f(f'{x}a')", "f(f'{x}' 'b')"),
    ("f(f'{x}')", "f(f'{x!r}')"),
    ("f(f'{x}')", "f(rf'\\{x}')"),
    ("{1}", "{1: 1}"),
    ("{1}", "(1,)"),
    ("if a:\n  b\nelif c:\n  d", "if a:\n  b\nelse:\n  if c:\n    d\n  e"),
    ("if a:\n  b\nelif c:\n  d", "if a:\n  b\n  if c:\n    d"),
    ("match x:\n  case [a, b]: y", "match x:\n  case (a, b, c): y"),
]


def dumped(code):
    return ast.dump(ast.parse(code))


@pytest.mark.parametrize(("left", "right"), SAME + OTHERS)
def test_code_is_found_if_python_reads_it_alike(left, right):
    is_same = dumped(left) == dumped(right)
    assert is_same == ((left, right) in SAME)
    for one, other in ((left, right), (right, left)):
        assert find_in(parse_pattern(one), cst.parse_module(f"{other}\n")) == is_same
    assert same_code(*(cst.parse_module(code).body[0] for code in (left, right))) == is_same


@pytest.mark.parametrize(
    ("pattern", "code", "finds"),
    [
        ("x = {...}", "x = {1, *a}", True),
        ("x = {...}", "x = {1: 2}", True),
        ("x = {...}", "x = {}", True),
        ("f({..., ...})", "f({1})", True),
        ("{...}", "f({1})", True),
        ("x = {...}", "x = [1]", False),
        ("x = {...}", "x = {i for i in a}", False),
        ("x = {...}", "x = set()", False),
        ("x = {}", "x = {1}", False),
        ("x = {..., **a}", "x = {1, a}", False),
        ("x = {..., *a}", "x = {1, *a}", True),
        ("x[(1, ...)]", "x[1, 2, 3]", True),
        ("x[(1, ...)]", "x[1]", False),
        ("x[$i]", "x[1, 2]", True),
        ("x[$i]", "x[1:2, 2]", False),
        ("f(x[$i], $i)", "f(x[1, 2], (1, 2))", True),
        ("f(x[$i], $i)", "f(x[1, 2], (1, 3))", False),
    ],
)
def test_gaps_and_metavariables(pattern, code, finds):
    assert find_in(parse_pattern(pattern), cst.parse_module(f"{code}\n")) == finds


@pytest.mark.parametrize(
    ("find", "new", "before", "after"),
    [
        ("x = {...}", "x = {..., c}", "x = {\n    a,  # why\n    b,\n}\n", None),
        ("x = {...}", "x = frozenset({...})", "x = {a}\n", "x = frozenset({a})\n"),
        ("x[1, 2]", "x[1, 3]", "y = x[(1, 2)]\n", "y = x[1, 3]\n"),
        ("x[(1, 2)]", "y[(1, 2)]", "z = x[ 1,2]\n", "z = y[ 1,2]\n"),
        ("x[$i]", "f($i)", "y = x[1, 2]\n", "y = f((1, 2))\n"),
        ("f('a' 'bc')", "f('x' 'bc')", "f('ab' 'c')\n", "f('x' 'bc')\n"),
        ("f('ab' f'{x}')", "f('cd' f'{x}')", "f('a' f'b{x}')\n", "f('cd' f'{x}')\n"),
        ("f('ab' f'{x}')", "f('cd' f'{x}')", "f('ab' F'{x}')\n", "f('cd' F'{x}')\n"),
        (
            "if a: ...\nelif c: ...",
            "if b: ...\nelif c: ...",
            "if a:\n    1\nelse:\n    if c:\n        2\n",
            "if b:\n    1\nelse:\n    if c:\n        2\n",
        ),
    ],
)
def test_a_rewrite_of_other_syntax_gives_the_new_code(find, new, before, after):
    after = before.replace("    b,\n", "    b,\n    c,\n") if after is None else after
    assert edited(rewrite(find, new), before) == after


def test_a_rewrite_that_cannot_keep_a_gap_in_other_syntax_is_a_problem():
    edit = rewrite("x = {...}", "x = {..., c}")
    assert "differ too much" in run(edit, "x = {'a': 1}\n").mismatch
    edit = rewrite("if a: ...\nelif c: ...", "if a: ...\nelif d: ...")
    assert run(edit, "if a:\n    1\nelse:\n    if c:\n        2\n").mismatch is not None
