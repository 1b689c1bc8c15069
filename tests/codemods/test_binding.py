"""Python's own parser and libcst read the same of what a module binds."""

from __future__ import annotations

import ast
import warnings
from random import Random

import libcst as cst
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tests.codemods.modules import write
from vpatch.codemods.binding import bindings_of_module, bindings_of_tree
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context


def both_readings(code):
    return bindings_of_tree(ast.parse(code)), bindings_of_module(cst.parse_module(code))


@settings(
    max_examples=100,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(random=st.randoms(use_true_random=False))
def test_both_parsers_read_the_same(random):
    code = write(random)
    assume(code is not None)
    by_python, by_libcst = both_readings(code)
    assert by_python == by_libcst


@pytest.mark.parametrize(
    "code",
    [
        "import a.b, c as d, e.f as g\nfrom . import h\nfrom ..i import j as k, l\n",
        "from m import *\nimport n\n",
        "x = y = z, [u, *v] = w\na.b = c[d] = 1\n(p), (q, r) = s\n",
        "Z = Y\nZ: int = Y\nA = B = Y\n(W) = Y\n",
        "x = None\ny: int = None\nz: int\nx += 1\ndel u, (v, w)\n",
        "for a, (b, *c) in d: e = 1\nelse: f = 1\nwhile g: h = 1\n",
        "with a as b, c as (d, e): f = 1\nwith (g as h,): pass\n",
        "try: a = 1\nexcept E as b: c = 1\nelse: d = 1\nfinally: e = 1\n",
        "try: a = 1\nexcept* E as b: c = 1\n",
        "def f(a, /, b, *c, d, **e): g = 1\nasync def h(i): pass\n@j\ndef k(l): pass\n",
        "class A(B):\n    C = 1\n    def f(self, *, x): y = 1\n    class D: pass\n",
        "match a:\n    case 1: b = 1\n    case [c, *d]:\n        e = 1\n",
        "match a:\n    case {'f': 1, **g}: import h\nA = True\nB = None\n",
        "if (a := 1):\n    def b(): pass\nelif c: import d\nelse: e = lambda f: f\n",
        "async def f():\n    async for a in b: c = 1\n    async with d as e: import g\n",
        "if x: import a; b = 1\nclass C: import d\n",
    ],
)
def test_both_parsers_read_the_same_of(code):
    by_python, by_libcst = both_readings(code)
    assert by_python == by_libcst
    assert by_python.imports or by_python.bound or by_python.aliases


def test_the_modules_by_chance_bind_all_kinds():
    found = [
        bindings_of_tree(ast.parse(code)) for code in map(write, map(Random, range(60))) if code
    ]
    for kind in ("imports", "bound", "functions", "aliases", "defined"):
        assert any(getattr(one, kind) for one in found), kind


@pytest.mark.slow
def test_both_parsers_read_the_same_of_a_release():
    compared = 0
    with Context() as context, context.tree(parse_vllm("0.33.0")) as tree:
        for number, (path, code) in enumerate(sorted(tree.package_files.items())):
            if number % 10 or len(code) > 50_000:
                continue  # a tenth of the files; libcst takes two minutes for all of them
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                by_python, by_libcst = both_readings(code)
            assert by_python == by_libcst, path
            compared += 1
    assert compared > 100
