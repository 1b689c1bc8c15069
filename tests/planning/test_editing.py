from __future__ import annotations

import pytest

from tests.helpers import run, tree_of
from vpatch.declare.edits import Expect, Predicate
from vpatch.planning.editing import FoundSite, count, describe, findings, probe
from vpatch.planning.view import View

WHERE = {"p": ["a", "b"]}


def found(*places):
    """Found places from `path` or `path:value of $p`."""
    split = [place.partition(":") for place in places]
    return [FoundSite(path, todo=True, bindings={"p": value}) for path, _, value in split]


@pytest.mark.parametrize(
    ("expect", "places", "message"),
    [
        ({}, ["x"], None),
        ({}, [], "expected 1, found 0"),
        ({}, ["x", "x"], "expected 1, found 2"),
        ({}, ["x", "y"], "expected 1, found 2"),
        ({"count": 2}, ["x", "y"], None),
        ({"at_least": 2}, ["x"], "expected at least 2, found 1"),
        ({"at_least": 2}, ["x", "x", "y"], None),
        ({"per": "file"}, ["x", "y"], None),
        ({"per": "file"}, ["x", "y", "y"], "expected 1, found 2 in y"),
        ({"per": "file"}, [], "expected 1, found 0"),
        ({"per": "file", "at_least": 2}, ["x", "x", "y"], "expected at least 2, found 1 in y"),
        ({"for_each": "$p"}, ["x:a", "y:b"], None),
        (
            {"for_each": "$p"},
            ["x:a", "y:a"],
            "expected 1 for $p = a, found 2; expected 1 for $p = b, found 0",
        ),
        ({"for_each": "$p", "per": "file"}, ["x:a", "x:b", "y:a", "y:b"], None),
        (
            {"for_each": "$p", "per": "file"},
            ["x:a", "x:b", "y:a"],
            "expected 1 for $p = b, found 0 in y",
        ),
        ({"for_each": "$p"}, [], "expected 1 for $p = a, found 0; expected 1 for $p = b, found 0"),
    ],
)
def test_count(expect, places, message):
    assert count(Expect.model_validate(expect, by_name=True), found(*places), WHERE) == message


def test_mismatch_leaves_the_view_alone():
    result = run({"find": "f($x)", "rewrite": "g($x)"}, "f(1)\nf(2)\n")
    assert result.mismatch == "expected 1, found 2"
    assert result.view.files == {}


def test_findings_have_lines_and_scopes():
    source = "\n\nclass C:\n    def m(self):\n        f(1, a)\n        f(2)\n"
    result = run({"find": "f($x)", "rewrite": "f($x, a)", "expect": 2}, source, located=True)
    assert [(f.what, f.where) for f in findings("edit", result.sites)] == [
        ("edit in C.m: there", "vllm/m.py:5"),
        ("edit in C.m: to do", "vllm/m.py:6"),
    ]


def test_findings_in_text_have_lines():
    result = run({"text": {"find": "b", "replace": "c"}, "files": "x"}, {"x": "a\nb"})
    assert [f.where for f in findings("edit", result.sites)] == ["x:2"]


FILES = {
    "vllm/a.py": "x = 1\nclass A:\n    def m(self):\n        self.p = Linear(1, 2)\n",
    "vllm/b.py": "# Linear\nself.q = Linear(3)\n",
    "notes.txt": "one\nLinear\n",
}


@pytest.mark.parametrize(
    ("predicate", "places"),
    [
        ({"find": "Linear(...)"}, ["vllm/a.py", "vllm/b.py"]),
        ({"find": "Linear($x)"}, ["vllm/b.py"]),
        ({"find": "self.$p = Linear(...)", "where": {"$p": "p"}}, ["vllm/a.py"]),
        ({"find": "Linear(...)", "within": "A.m"}, ["vllm/a.py"]),
        ({"find": "Linear(...)", "within": "B"}, None),
        ({"find": "Linear(...)", "files": "vllm/b*"}, ["vllm/b.py"]),
        ({"text": "# Linear"}, ["vllm/b.py"]),
        ({"text": "Linear", "files": "*.txt"}, ["notes.txt"]),
        ({"text": "linear"}, None),
        ({"all": [{"text": "x = 1"}, {"text": "# Linear"}]}, ["vllm/a.py", "vllm/b.py"]),
        ({"all": [{"text": "x = 1"}, {"text": "x = 2"}]}, None),
        ({"any": [{"text": "x = 2"}, {"text": "# Linear"}]}, ["vllm/b.py"]),
        ({"any": [{"text": "x = 2"}]}, None),
        ({"none": [{"text": "x = 2"}, {"find": "g()"}]}, []),
        ({"none": [{"text": "x = 2"}, {"text": "x = 1"}]}, None),
    ],
)
def test_probe(predicate, places):
    parsed = Predicate.model_validate(predicate, strict=False)
    result = probe(parsed, View(tree_of(FILES)))
    assert result.holds == (places is not None)
    if result.holds:
        assert [f.path for f in result.sites] == places


def test_probe_of_text_has_a_line():
    result = probe(Predicate(text="Linear", files=("*.txt",)), View(tree_of(FILES)))
    assert [f.line for f in result.sites] == [2]


@pytest.mark.parametrize(
    ("predicate", "words"),
    [
        ({"find": "f( $x,\n $y )", "within": "C"}, "the code f( $x, $y ) within C"),
        ({"text": "a b", "files": ["x", "y"]}, "the text 'a b' in x, y"),
        (
            {"all": [{"text": "a"}, {"none": [{"text": "b"}]}]},
            "the text 'a' and nothing of: the text 'b'",
        ),
        ({"any": [{"text": "a"}, {"text": "b"}]}, "the text 'a' or the text 'b'"),
    ],
)
def test_describe(predicate, words):
    assert describe(Predicate.model_validate(predicate, strict=False)) == words


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("vllm/a.py/n.txt", "vllm/a.py/n.txt: vllm/a.py is a file"),
        ("vllm", "vllm: vllm is a folder"),
    ],
)
def test_a_new_file_takes_no_others_place(tmp_path, path, problem):
    (tmp_path / "in.txt").write_text("x")
    edit = {"add-file": path, "from": "in.txt"}
    assert run(edit, {"vllm/a.py": "x = 1\n"}, tmp_path).mismatch == problem


def test_python_edits_look_at_python_alone():
    edit = {"find": "f(1)", "rewrite": "f(2)", "files": "vllm/*"}
    assert run(edit, {"vllm/a.py": "f(1)\n", "vllm/a.md": "f(1) is what\n"}).mismatch is None


@pytest.mark.parametrize(
    ("source", "holds"),
    [
        ("self.a = f(1)\n", True),
        ("self.a = g(1)\n", False),
        ("self.a = g(1)\nself.b = f()\n", True),
        ('self.a = h("a")\n', False),
        ('self.a = h("b")\n', True),
    ],
)
def test_unless_leaves_out_what_its_patterns_match(source, holds):
    """They match with what `find` has bound."""
    predicate = Predicate.model_validate(
        {"find": "self.$p = $_(...)", "unless": ["$_ = g(...)", '$_ = h("$p")']}, by_name=True
    )
    assert probe(predicate, View(tree_of({"vllm/m.py": source}))).holds is holds
    assert describe(predicate) == (
        'the code self.$p = $_(...), other than $_ = g(...) or $_ = h("$p"),'
    )


def test_unless_needs_find():
    with pytest.raises(ValueError, match="unless needs find"):
        Predicate.model_validate({"text": "a", "unless": "b"}, by_name=True)
