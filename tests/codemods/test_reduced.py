"""An edit finds and writes the same in a part of a module as in all of it."""

from __future__ import annotations

import json
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.codemods.modules import write
from tests.helpers import edits_of, tree_of
from tests.planning.reference import slow_way
from vpatch.declare.edits import Predicate
from vpatch.planning.editing import probe, run_edit
from vpatch.planning.view import UnparsableFile, View

PATH = "vllm/m.py"
MANY = {"at-least": 1}
EDITS = {
    "rewrite": {"find": "target($x)", "rewrite": "target($x, more=1)"},
    "rewrite-to-other": {"find": "old($x)", "rewrite": "new($x)"},
    "rewrite-within": {"find": "old($x)", "rewrite": "new($x)", "within": "A.*"},
    "rewrite-within-function": {"find": "old($x)", "rewrite": "new($x)", "within": "f"},
    "rewrite-within-method": {"find": "old($x)", "rewrite": "new($x)", "within": "A.f"},
    "rewrite-statement": {"find": "VALUE = 1", "rewrite": "VALUE = 2"},
    "rewrite-to-block": {"find": "target($x)", "rewrite": "if a:\n    target($x)"},
    "rewrite-block": {"find": "if target(a): ...", "rewrite": "if new(a): ..."},
    "rewrite-from-block": {"find": "if $x:\n    pass", "rewrite": "old($x)"},
    "rewrite-block-within": {
        "find": "for i in $x: ...",
        "rewrite": "for i in new($x): ...",
        "within": "A.m",
    },
    "rewrite-def": {"find": "def target(...): ...", "rewrite": "def target(..., new=1): ..."},
    "rewrite-class": {"find": "class Target(Base): ...", "rewrite": "class Target(New): ..."},
    "rewrite-without-decorator": {
        "find": "@d\n@...\ndef target(...): ...",
        "rewrite": "@...\ndef target(...): ...",
    },
    "rewrite-without-base": {
        "find": "class Target(Base): ...",
        "rewrite": "class Target: ...",
        "within": "Target",
    },
    "rewrite-parameter": {"find": "def m(a, b, ...): ...", "rewrite": "def m(b=1, a=2, ...): ..."},
    "rewrite-run": {"find": "y = target($x)\nVALUE = 1", "rewrite": "VALUE = target($x)"},
    "rewrite-run-longer": {"find": "VALUE = $x", "rewrite": "VALUE = $x\nnew($x)"},
    "rewrite-run-with-gap": {
        "find": "target($x)\n...\nVALUE = $y",
        "rewrite": "if $x:\n    target($x)\n    ...\nVALUE = $y",
    },
    "rewrite-run-in-place": {
        "find": "z = $x\nreturn target($y)",
        "rewrite": "return target($y, $x)",
        "within": "*.f",
    },
    "rewrite-run-within": {
        "find": "y = target($x)\nVALUE = 1",
        "rewrite": "VALUE = target($x)",
        "within": "B.f",
    },
    "rewrite-wrap": {
        "find": "y = target($x)",
        "rewrite": "try:\n    y = target($x)\nfinally: new()",
    },
    "rewrite-unwrap": {"find": "if target(a): ...", "rewrite": "..."},
    "rewrite-run-of-ifs": {"find": "if $x: ...\nold($y)", "rewrite": "old($y)\nif $x: ..."},
    "rewrite-run-of-defs": {"find": "def f(...): ...\nVALUE = 1", "rewrite": "def f(...): ..."},
    "delete": {"delete": "old($x)"},
    "delete-run": {"delete": "y = $x\nVALUE = 1"},
    "delete-within": {"delete": "VALUE = 1", "within": "A"},
    "delete-def": {"delete": "def target(...): ...", "with-comments": True},
    "delete-def-within": {"delete": "def f(...): ...", "within": "A.f"},
    "delete-class": {"delete": "class Target(...): ..."},
    "insert-after": {"insert": "new($x)", "after": "y = target($x)"},
    "insert-before": {"insert": "if $x:\n    new()\nmade()", "before": "target($x)"},
    "insert-import": {"insert": "from pkg import new", "after": "from pkg import anchor"},
    "insert-def": {"insert": "def made(a):\n    return a", "before": "VALUE = $x"},
    "insert-class": {
        "insert": "class Made:\n    def f(a):\n        pass",
        "after": "VALUE = $x",
    },
    "insert-before-def": {"insert": "VALUE = 3", "before": "def target(...): ..."},
    "insert-before-class": {"insert": "VALUE = 3", "before": "class Target(...): ..."},
    "insert-at-start": {"insert": "new(a)", "at-start-of": "def target(...): ..."},
    "insert-at-end": {"insert": "new(a)", "at-end-of": "def target(...): ..."},
    "insert-method": {
        "insert": "def made(self):\n    if self:\n        pass",
        "at-end-of": "class Target(...): ...",
    },
    "insert-within": {"insert": "new(a)", "after": "target(...)", "within": "A.f"},
    "insert-def-within": {
        "insert": "def made(a):\n    return a",
        "after": "def f(...): ...",
        "within": "A.f",
    },
    "insert-at-end-of-class": {"insert": "VALUE = 3", "at-end-of": "class Target(...): ..."},
    "add-import": {"add-import": "from pkg import added", "beside": "target(...)"},
    "add-module": {"add-import": "import added", "beside": "def target(...): ..."},
    "add-import-for-class": {"add-import": "import added", "beside": "class A: ..."},
    "add-import-alias": {"add-import": "from os import path as here", "beside": "VALUE = $x"},
    "add-keyword": {"find": "target(...)", "add-keyword": {"k": "1"}},
    "add-keyword-where": {
        "find": "$f(a)",
        "add-keyword": {"k": "1"},
        "where": {"$f": ["target", "old"]},
    },
    "add-parameter": {"find": "def target(...): ...", "add-keyword": {"k": "1"}},
    "replace-body": {
        "find": "def target(...): ...",
        "replace-body": "return new(a)",
        "having": "target(a)",
    },
    "replace-any-body": {
        "find": "def $f(...): ...",
        "replace-body": "pass",
        "having": "old($x)",
        "within": "A.*",
    },
    "set-value": {"set-value": "3", "of": "VALUE", "was": "1"},
    "set-value-of-class": {"set-value": "3", "of": "A.VALUE", "was": "1"},
}
PREDICATES = {
    "find": {"find": "target(...)"},
    "find-within": {"find": "target($x)", "within": "*.m"},
    "find-unless": {"find": "target(...)", "unless": ["target(a)", "if target(a): ..."]},
    "find-where": {"find": "$f(a)", "where": {"$f": ["old", "pkg.target"]}},
    "find-class": {"find": "class Target(...): ..."},
    "find-class-within": {"find": "class Target(...): ...", "within": "A"},
    "find-block": {"find": "if target(a): ..."},
    "find-def-within": {"find": "def f(...): ...", "within": "A"},
}
NAMES = (*EDITS, *PREDICATES)


@cache
def bound(name):
    """An edit or a predicate, parsed."""
    if name in PREDICATES:
        return TypeAdapter(Predicate).validate_json(json.dumps(PREDICATES[name]))
    return edits_of({**EDITS[name], "expect": MANY})[0]


def found_by(name, code):
    """All that an edit or a predicate finds in a module, and what it writes."""
    view = View(tree_of({PATH: code}))
    try:
        if name in PREDICATES:
            return probe(bound(name), view)
        result = run_edit(bound(name), view)
    except UnparsableFile as error:
        return error.what, error.where
    return result.sites, result.mismatch, dict(result.view.files)


def both_ways(name, code):
    with slow_way():
        slow = found_by(name, code)
    return found_by(name, code), slow


def differences(code):
    """The edits and predicates that do otherwise with a part of a module than with all of it."""
    made = ((name, *both_ways(name, code)) for name in NAMES)
    return [(name, fast, slow) for name, fast, slow in made if fast != slow]


# Each was decided or written otherwise once.
ONCE_WRONG = {
    "brackets around a decorator": "@(\n    d\n)\ndef f(): pass\ntarget(a)\n",
    "a call that never returns, by a strange name": "sys().exit()\nVALUE = 2\n",
    "an index that never returns": "exit[0]()\nVALUE = 2\n",
    "a comment that ends a file": "target(a)\ndef f():\n    def g():\n        pass\n\n      #\n",
    "a comment that ends a function": "def f():\n    pass\n    # c\nVALUE = 1\n",
    "a backslash above": "y = target(a); \\\nVALUE = 2\n",
    "a backslash above, in a class": "class A:\n    y = target(a); \\\n    z = 1\n",
    "tabs in the first block": "VALUE = 2\ndef f():\n\tpass\n",
    "tabs in the first block, two spaces in the next": (
        "def f():\n\tpass\nclass A:\n  def f():\n    target(a)\n    VALUE = 1\nVALUE = 1\n"
    ),
    "a case in the first block": (
        "match x:\n  case 1:\n    pass\nVALUE = 1\ndef target(): return a\n"
    ),
    "two classes of one name": "class A:\n    z = 1\nclass A:\n    VALUE = 1\n",
    "a class in a block, and one of its name": (
        "try:\n    pass\nexcept E:\n    class Made:\n        def target(): pass\nclass Made: pass\n"
    ),
    "the class to insert": "VALUE = 1\nclass Made:\n    def f(a):\n        pass\n",
    "a definition below a new import": "def m():\n    del z\ntarget(a)\n",
    "an if below a new import": "if a:\n    def m():\n        del z\ntarget(a)\n",
    "a byte order mark": "\ufeffdef f():\n    pass\ntarget(a)\n",
    "a cookie behind spaces": (
        "  # coding: latin-1\nx = '\xe9\xe9\xe9\xe9'; raise E\nVALUE = 2\n".encode("latin-1")
    ),
}


@pytest.mark.parametrize("code", ONCE_WRONG.values(), ids=ONCE_WRONG)
def test_code_that_was_once_decided_otherwise(code):
    assert differences(code.encode() if isinstance(code, str) else code) == []


PROPERTY = settings(
    max_examples=12,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@PROPERTY
@given(random=st.randoms(use_true_random=False))
def test_an_edit_finds_and_writes_the_same(random):
    code = write(random)
    assume(code is not None)
    assert differences(code) == []


@pytest.mark.slow
@settings(PROPERTY, max_examples=40)
@given(random=st.randoms(use_true_random=False), size=st.sampled_from([14, 40]))
def test_an_edit_finds_and_writes_the_same_in_large_modules(random, size):
    code = write(random, size=size)
    assume(code is not None)
    assert differences(code) == []


def test_much_is_left_out(monkeypatch):
    """What is compared above are real parts of modules."""
    made = []
    whole = View.reduced
    monkeypatch.setattr(View, "reduced", lambda *args: made.append(whole(*args)) or made[-1])
    for seed in range(8):
        code = write(Random(seed))
        for name in NAMES if code is not None else ():
            found_by(name, code)
    reduced = [one for one in made if one is not None]
    assert len(reduced) > len(made) / 5
    assert sum(len(one[0].left_out) > 1 for one in reduced) > len(reduced) / 10


@pytest.mark.parametrize(
    ("code", "is_reduced"),
    [
        ("import a\n\nb = 1\n\n# Speculative decoding: fast.\ntarget(b)\n", True),
        ("import a\n# coding: latin-1\nb = 1\ntarget(b)\n", False),
        # With the function left out, the comment would be in the second line.
        ("def f():\n    pass\n# Speculative decoding: fast.\ntarget(b)\n", False),
    ],
)
def test_a_comment_is_an_encoding_in_the_first_two_lines_alone(code, is_reduced):
    (edit,) = edits_of({**EDITS["rewrite"], "files": PATH})
    look = edit.codemod.reading, edit.codemod.place
    view = View(tree_of({PATH: code}))
    assert (view.reduced(PATH, look) is not None) is is_reduced
    assert run_edit(edit, view).view.read(PATH) == code.replace("(b)", "(b, more=1)").encode()


@pytest.mark.parametrize(
    "edit",
    [
        {"find": "old($x)", "rewrite": "new($x)"},
        {"find": "if x: ...", "rewrite": "if y: ..."},
        {"delete": "y = 1\nold(y)"},
        {"insert": "y = 2", "after": "old(y)"},
        {"delete": "def g(...): ..."},
    ],
)
def test_the_methods_beside_that_one_which_an_edit_looks_within_are_left_out(edit):
    method = "    def {0}(self):\n        if x:\n            y = 1\n            old(y)\n\n"
    code = "class A:\n" + "".join(map(method.format, "efgh"))
    (one,) = edits_of({**edit, "within": "A.g", "files": PATH})
    reduced = View(tree_of({PATH: code})).reduced(PATH, (one.codemod.reading, one.codemod.place))
    assert [text.count(b"def ") for text in reduced[0].left_out] == [2, 1]


def test_the_methods_of_a_class_are_left_out_for_an_import_beside_it():
    code = "import a\n\n\nclass A:\n    def f(self):\n        pass\n"
    (one,) = edits_of({"add-import": "import b", "beside": "class A: ...", "files": PATH})
    reduced = View(tree_of({PATH: code})).reduced(PATH, (one.codemod.reading, one.codemod.place))
    assert [text.count(b"def ") for text in reduced[0].left_out] == [1]
