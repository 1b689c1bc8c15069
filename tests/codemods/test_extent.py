"""What a statement was parsed from, and that what is passed over by it has no place."""

from __future__ import annotations

import ast
import os
from pathlib import Path

import libcst as cst
import pytest

from tests.helpers import edits_of
from vpatch.codemods.base import SiteTransformer
from vpatch.codemods.extent import Extents
from vpatch.codemods.nesting import measured
from vpatch.codemods.nodes import all_nodes
from vpatch.codemods.scope import Scope
from vpatch.util.words import has_word

SOURCE = '''\
"""About."""
# a comment
import os; import sys

@decorated(
    f
)
class A(B):
    x = 1; y = f(2)

    @property
    def p(self):
        return f(3)

    class Inner:
        z = f(4)

async def q(): return f(5)
if x:
    def r(): f(6)
else: f(7)
match x:
    case 1:
        f(8)
text = """
f(9)
"""
def s():
    options = {"b": W}
    o.k(**options)
    if x:
        f(10)
    elif y:
        z = f(11)
    else:
        with a:
            f(12); g(12)
    try:
        f(13)
    except E:
        for x in y:
            f(14)
    finally:
        f(15)
'''


def extents_of(source):
    extents, module = Extents(), cst.parse_module(source)
    extents.remember(module, source, measured(source))
    return extents, module


def known(extents, module):
    """Each statement that is known, also in others, and its lines."""
    # A node comes before those that are in it.
    for statement in all_nodes(module):
        extents.open(statement)
        if (text := extents.of(statement)) is not None:
            yield statement, text


def meaning(text):
    """What Python reads, of a statement that may stand in a class."""
    nested = text[:1].isspace()
    parsed = ast.parse(f"if 1:\n{text}" if nested else text).body
    return [ast.dump(statement) for statement in (parsed[0].body if nested else parsed)]


def code_of(module, statement):
    return module.code_for_node(statement.with_changes(leading_lines=[]))


@pytest.mark.parametrize("source", [SOURCE, SOURCE.replace("\n", "\r\n"), SOURCE.rstrip("\n")])
def test_each_statement_is_known_by_its_own_lines(source):
    extents, module = extents_of(source.encode())
    found = list(known(extents, module))
    assert len(found) == 27
    for statement, text in found:
        assert meaning(text.decode()) == meaning(code_of(module, statement))


@pytest.mark.slow
def test_the_statements_of_the_standard_library():
    number = 0
    for path in sorted(Path(os.__file__).parent.glob("[a-d]*.py")):
        source = path.read_bytes()
        extents, module = extents_of(source)
        for statement, text in known(extents, module):
            number += 1
            assert meaning(text.decode(module.encoding)) == meaning(code_of(module, statement))
    assert number > 1000


def test_what_python_cannot_parse_is_not_known():
    extents, module = Extents(), cst.parse_module("x = 1\n")
    extents.remember(module, b"x = (\n", measured(b"x = (\n"))
    assert extents.of(module.body[0]) is None
    extents.remember(module, b"x = 1\ny = 2\n", measured(b"x = 1\ny = 2\n"))
    assert extents.of(module.body[0]) is None


@pytest.mark.parametrize(
    "edit",
    [
        {"find": "f($x)", "rewrite": "g($x)", "expect": {"at-least": 1}},
        {"find": "f($x)", "rewrite": "g($x)", "within": "A.p"},
        {"find": "f($x)", "rewrite": "g($x)", "within": "A.Inner"},
        {"find": "f($x)", "rewrite": "g($x)", "within": "A"},
        {"find": "f($x)", "rewrite": "g($x)", "within": "*.p"},
        {"find": "f($x)", "rewrite": "g($x)", "within": "r"},
        {"find": "f($x)", "rewrite": "g($x)", "within": "q"},
        {"find": "z = f(...)", "add-keyword": {"a": "1"}, "expect": {"at-least": 1}},
        {"find": "o.k(b=W)", "add-keyword": {"a": "1"}},
        {"find": "f(12)\ng(12)", "rewrite": "g(12)"},
        {"find": "for x in y:\n    ...", "rewrite": "for x in z:\n    ..."},
        {"find": "f(...)", "add-keyword": {"a": "1"}, "within": "A.Inner"},
        {"insert": "h()", "before": "z = f(4)"},
        {"insert": "h()", "at-start-of": "class Inner: ..."},
        {"insert": "h()", "at-end-of": "def p(...): ...", "within": "A"},
        {"insert": "h()", "after": "import sys"},
        {"insert": "h()", "after": "f(14)", "within": "s"},
        {"delete": "f(15)", "within": "s"},
        {"find": "def p(...): ...", "replace-body": "pass", "having": ["f(3)"]},
        {"set-value": "2", "of": "A.Inner.z", "was": "f(4)"},
        {"set-value": "2", "of": "A.y", "was": "1"},
    ],
    ids=str,
)
def test_passing_over_changes_nothing(edit):
    extents, module = extents_of(SOURCE.encode())
    (bound,) = edits_of(edit)
    seen = bound.codemod.apply(module, Extents())
    short = bound.codemod.apply(module, extents)
    assert seen.sites
    assert short.module.code == seen.module.code
    assert [(s.scope, s.todo, s.problem) for s in short.sites] == [
        (s.scope, s.todo, s.problem) for s in seen.sites
    ]


def test_a_string_may_be_spelt_otherwise():
    source = 'f("norm")\nf("n\\x6frm")\nf("no" "rm")\n'
    extents, module = extents_of(source.encode())
    (bound,) = edits_of({"find": 'f("norm")', "rewrite": "g()", "expect": {"at-least": 1}})
    found = bound.codemod.apply(module, extents).module.code
    assert found == bound.codemod.apply(module, Extents()).module.code
    assert found.count("g()") >= 2


def test_a_codemod_of_ones_own_sees_the_whole_module():
    class Notes(SiteTransformer):
        kinds = (cst.Import,)

        def edit(self, original, updated):
            self.add(original, todo=False)
            return updated

    extents, module = extents_of(SOURCE.encode())
    assert len(Notes(Scope("A.p")).run(module, extents).sites) == 2


def test_what_is_passed_over_stays_the_same_object():
    extents, module = extents_of(SOURCE.encode())
    (bound,) = edits_of({"find": "f(5)", "rewrite": "g(5)", "within": "q"})
    after = bound.codemod.apply(module, extents).module
    same = [a is b for a, b in zip(module.body, after.body, strict=True)]
    assert same == [True, True, True, False, False, False, True, True]


def test_a_long_function_is_passed_over_but_for_the_place(monkeypatch):
    visit, visited = SiteTransformer.on_visit, []
    monkeypatch.setattr(
        SiteTransformer, "on_visit", lambda self, node: visited.append(node) or visit(self, node)
    )
    calls = "".join(f"    if x:\n        f({n}, g(a, b, c))\n" for n in range(200))
    extents, module = extents_of(f"def q():\n{calls}    h(1)\n".encode())
    (bound,) = edits_of({"find": "h($x)", "rewrite": "h($x, 2)", "within": "q"})
    assert bound.codemod.apply(module, extents).sites
    assert len(visited) < 500  # and not each of 4,000


@pytest.mark.parametrize(
    ("within", "scope", "code", "reaches"),
    [
        (None, [], "x = 1", True),
        ("*.p", [], "x = 1", True),
        ("A.p", [], "x = 1", False),
        ("A.p", [], "class A: ...", True),
        ("A.p", [], "class AA: ...", False),
        ("A.p", [], "if x: ...", True),
        ("A.p", ["A"], "def p(): ...", True),
        ("A.p", ["A"], "def pp(): ...", False),
        ("A.p", ["A", "p"], "x = 1", True),
        ("A.p", ["A", "p", "q"], "x = 1", True),
        ("A", ["A"], "def p(): ...", True),
    ],
)
def test_reaches(within, scope, code, reaches):
    assert Scope(within).reaches(scope, cst.parse_statement(code)) is reaches


def test_words_of_a_place():
    assert Scope("A.__init__").words == {b"A", b"__init__"}
    assert Scope("*.__init__").words == {b"__init__"}
    assert Scope("A*").words == set()
    assert Scope().words == set()


def test_has_word():
    assert has_word(b"f", b"x = f(1)")
    assert not has_word(b"f", b"x = of(1)")
