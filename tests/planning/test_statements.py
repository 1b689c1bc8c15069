from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import tree_of
from vpatch.codemods.extent import Extents
from vpatch.codemods.find_code import FindCode
from vpatch.codemods.pattern import parse_pattern
from vpatch.codemods.scope import Scope
from vpatch.declare.edits import Predicate
from vpatch.planning import view
from vpatch.planning.editing import probe
from vpatch.planning.statements import Statements
from vpatch.planning.view import View

CALL = 'make(model, runner="draft")'


def may_have(source, pattern):
    text = source.encode()
    return Statements(text, ast.parse(text)).may_have(parse_pattern(pattern))


@pytest.mark.parametrize(
    "source",
    [
        CALL,
        "make(\n    model,\n    runner=\n    'draft',\n)",
        "make(model, runner='dra' 'ft')",
        "make(model, runner='\\x64raft')",
        'make(model, **{"runner": "draft"})',
        f"if {CALL}:\n    pass",
        f"while x:\n    pass\nelse:\n    {CALL}",
        f"try:\n    pass\nexcept {CALL}:\n    pass",
        f"match x:\n    case 1 if {CALL}:\n        pass",
        f"@deco({CALL})\ndef f(): pass",
        f"def f(x={CALL}):\n    pass",
        f"class A:\n    async def f(self):\n        async with {CALL}: pass",
        f"a = 1; b = {CALL}",
        f"if x: y = {CALL}",
        "import lib as other\nfrom lib import make as build\nbuild(model, runner='draft')",
        "def make(): pass\n\nbuild = make\nbuild(model, runner='draft')",
        "def f():\n    from lib import make as build\n    build(model, runner='draft')",
    ],
)
def test_a_statement_that_may_match(source):
    assert may_have(source, 'make(..., runner="draft")')


@pytest.mark.parametrize(
    "source",
    [
        "make(model)\nrunner = 'draft'",
        "make(model, runner='other')\nx = 'draft'",
        "make(model, runner='drafts')",
        "def make():\n    runner = 'draft'",
        "make_runner(draft)",
        "if make(model):\n    runner = 'draft'",
        "from lib import run as build\nbuild(model, runner='draft')",
    ],
)
def test_a_file_that_has_the_names_in_several_statements(source):
    assert not may_have(source, 'make(..., runner="draft")')


def test_of_a_pattern_with_blocks_all_lines_count():
    source = "def f(a):\n    if a:\n        return g(a)\n"
    assert may_have(source, "def $_(...):\n    ...\n    if $x: ...\n    ...")
    assert may_have(source, "if $x: return g($x)")
    assert not may_have(source, "while $x: return g($x)")
    assert not may_have(f"{source}\nif a: pass\n", "class $_:\n    if a: ...")


STATEMENTS = [
    CALL,
    "runner = 'draft'",
    "make(model)",
    "from lib import make as build",
    "build(model, runner='draft')",
    "x = lib.make(1, runner='dra' 'ft')",
    "import lib",
    "copy = make",
    "copy(runner='draft')",
]
BLOCKS = ["if make:\n{}", "def make(a, runner):\n{}", "class A:\n{}", "try:\n{}\nfinally: pass"]
PATTERNS = [
    'make(..., runner="draft")',
    'runner = "draft"',
    'lib.make(..., runner="draft")',
    "def make(...): ...",
    'if make:\n    ...\n    make(..., runner="draft")\n    ...',
    "from lib import make",
]


@st.composite
def modules(draw, depth=3):
    lines = draw(st.lists(st.sampled_from(STATEMENTS), min_size=1, max_size=4))
    if depth and draw(st.booleans()):
        inner = draw(modules(depth - 1))
        block = "\n".join(f"    {line}" for line in inner.splitlines())
        lines.append(draw(st.sampled_from(BLOCKS)).format(block))
    return "\n".join(draw(st.permutations(lines)))


@given(modules(), st.sampled_from(PATTERNS))
def test_no_match_is_passed_over(source, pattern):
    sought = parse_pattern(pattern)
    outcome = FindCode(sought, Scope()).apply(view.parse("a.py", source.encode()), Extents())
    assert may_have(source, pattern) or not outcome.sites


def test_libcst_reads_only_what_may_match(monkeypatch):
    files = {
        "a.py": "make(model)\nrunner = 'draft'\n",
        "b.py": f"{CALL}\n",
        "c.py": "make(model, runner=other)\ndraft = 1\n",
    }
    parsed = []
    original = view._parsed
    monkeypatch.setattr(view, "_parsed", lambda *a: parsed.append(a[0]) or original(*a))
    found = probe(Predicate(find='make(..., runner="draft")'), View(tree_of(files))).sites
    assert [one.path for one in found] == ["b.py"]
    assert parsed == ["b.py"]
