from __future__ import annotations

import pytest
from pydantic import TypeAdapter, ValidationError

from vpatch.declare.edits import VERBS, Edit, Expect, Predicate

EDIT = TypeAdapter(Edit)
REWRITE = {"find": "f($x)", "rewrite": "g($x)"}


EDITS = [
    ("change", {"change": "  a()\n- b()\n", "within": "f"}),
    ("add-keyword", {"find": "f(...)", "add-keyword": {"k": "1"}}),
    ("rewrite", {**REWRITE, "where": {"$x": ("a", "b")}, "within": "C.*"}),
    ("delete", {"delete": "x = 1", "with-comments": True, "within": "f"}),
    ("insert", {"insert": {"from": "x.py", "name": "f"}, "at-end-of": "class C: ..."}),
    ("add-import", {"add-import": "import a", "beside": "f()"}),
    ("replace-body", {"find": "def f(): ...", "replace-body": "x", "having": "y"}),
    ("set-value", {"set-value": "1", "of": "X", "was": "2"}),
    ("codemod", {"codemod": "codemod.py", "contains": "f", "expect": {"at-least": 2}}),
    ("text", {"text": {"find": "a", "replace": "b"}, "files": "x"}),
    ("diff", {"diff": "x.diff"}),
    ("add-file", {"add-file": "x", "from": "y"}),
]


@pytest.mark.parametrize(("verb", "edit"), EDITS)
def test_verb_picks_the_edit(verb, edit):
    assert type(EDIT.validate_python(edit)) is VERBS[verb]


def test_every_verb_is_an_edit_and_is_tested_here():
    assert [verb for verb, _ in EDITS] == list(VERBS)
    assert len(EDIT.json_schema()["oneOf"]) == len(VERBS)


def test_expect_defaults_to_one():
    edit = EDIT.validate_python(REWRITE)
    assert (edit.expect.count, edit.expect.at_least, edit.expect.per) == (None, None, "tree")
    assert EDIT.validate_python({**REWRITE, "expect": 3}).expect == Expect(count=3)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({"find": "f()"}, "exactly one of the keys change, add-keyword"),
        ({**REWRITE, "add-keyword": {"k": "1"}}, "exactly one of the keys change, add-keyword"),
        ("f()", "exactly one of the keys change, add-keyword"),
        ({**REWRITE, "expect": 0}, "greater than or equal to 1"),
        ({**REWRITE, "expect": {"count": 1, "at-least": 1}}, "count or at-least, not both"),
        ({**REWRITE, "expect": {"per": "folder"}}, "'tree' or 'file'"),
        ({**REWRITE, "expect": {"for-each": "$x"}}, "not a metavariable of where"),
        ({"insert": "f()", "at-end-of": "module"}, "needs files"),
        (
            {**REWRITE, "where": {"$x": "a"}, "expect": {"for-each": "$y"}},
            r"not a metavariable of where \(\$x\)",
        ),
        (
            {"set-value": "1", "of": "X", "was": "2", "expect": {"for-each": "$x"}},
            "not a metavariable of where",
        ),
        ({**REWRITE, "where": {"x": "a"}}, "match pattern"),
        ({**REWRITE, "where": {"$x": ()}}, "at least 1 item"),
        ({**REWRITE, "files": ()}, "at least 1 item"),
        ({"insert": "x", "after": "a", "before": "b"}, "exactly one of before, after"),
        ({"insert": "x"}, "exactly one of before, after"),
        ({"text": {"find": "", "replace": "b"}, "files": "x"}, "at least 1 character"),
        ({"text": {"find": "a", "replace": ""}, "files": "x"}, "at least 1 character"),
        ({"text": {"find": "a", "replace": "b"}}, "Field required"),
        ({"find": "f()", "add-keyword": {}}, "at least 1 item"),
    ],
)
def test_edit_refused(edit, message):
    with pytest.raises(ValidationError, match=message):
        EDIT.validate_python(edit)


@pytest.mark.parametrize("kind", ["find", "text"])
def test_predicate(kind):
    assert Predicate.model_validate({kind: "f()", "files": "x/*"}).files == ("x/*",)


@pytest.mark.parametrize("kind", ["all", "any", "none"])
def test_a_predicate_of_nothing_is_refused(kind):
    with pytest.raises(ValidationError, match="at least 1 item"):
        Predicate.model_validate({kind: ()})


@pytest.mark.parametrize("name", ["a b", "a.", ".a", "1a", ""])
def test_the_name_of_a_variable_is_one(name):
    with pytest.raises(ValidationError):
        EDIT.validate_python({"set-value": "1", "of": name, "was": "2"})


def test_a_misspelt_verb_is_recognised():
    with pytest.raises(ValidationError, match=r"'add-keywrd': did you mean 'add-keyword'\?"):
        EDIT.validate_python({"find": "f()", "add-keywrd": {"k": "1"}})


def test_expect_is_a_number_or_a_mapping():
    with pytest.raises(ValidationError, match="a whole number, or a mapping such as"):
        EDIT.validate_python({**REWRITE, "expect": "two"})
