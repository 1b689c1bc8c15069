from __future__ import annotations

import pytest

from tests.helpers import edited, edits_of, fails, run
from vpatch.codemods.pattern import PatternError

EDIT = {"find": "def f(...): ...", "replace-body": "return 2", "having": "return 1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "# a\n@d\ndef f( x, ) -> int:  # b\n    return 1  # c\n\n\ny = 1\n",
            "# a\n@d\ndef f( x, ) -> int:  # b\n    return 2\n\n\ny = 1\n",
        ),
        ("def f(): return 1\n", "def f():\n    return 2\n"),
        (
            "class C:\n\tasync def f(self):\n\t\treturn 1",
            "class C:\n\tasync def f(self):\n\t\treturn 2",
        ),
        ("def f():\r\n  x\r\n  return 1\r\n", "def f():\r\n  return 2\r\n"),
    ],
)
def test_replace_body(before, after):
    assert edited(EDIT, before) == after


def test_body_that_is_there_is_done():
    edit = {"find": "def f(x): ...", "replace-body": "return g(x)", "having": "return 1"}
    source = "def f(x):\n    return  g(x)  # why\n"
    assert edited(edit, source) == source
    assert edited({**edit, "find": "def f(...): ...", "having": "return h(x)"}, source) == source
    edit = {**edit, "find": "def $f(x): ...", "where": {"$f": "f"}}
    assert edited(edit, source) == source


@pytest.mark.parametrize(
    ("edit", "source"),
    [
        # Many functions are like that, and were never anything else.
        ({**EDIT, "replace-body": "pass"}, "def f():\n    pass\n"),
        (EDIT, "def f():\n    return 2\n"),
        (
            {"find": "def $f(x): ...", "replace-body": "return g(x)", "having": "return 1"},
            "def f(x):\n    return g(x)\n",
        ),
    ],
)
def test_body_that_may_have_been_there_for_ever_is_not_done(edit, source):
    wanted = "expected 1, found 0; 1 more with the new code"
    assert run(edit, source).mismatch.startswith(wanted)
    assert (run(edit, source, carried=True).mismatch, run(edit, source).todo) == (None, False)


def test_prefix_of_a_formatted_string_is_code():
    edit = {**EDIT, "replace-body": 'return rf"\\d{x}"', "having": "return $_"}
    assert edited(edit, 'def f():\n    return f"\\d{x}"\n') == 'def f():\n    return rf"\\d{x}"\n'
    source = 'def f():\n    return FR"\\d{x}"\n'
    assert not run(edit, source, carried=True).todo


def test_name_alone_in_having_is_no_keyword():
    edit = {**EDIT, "having": "n"}
    result = run(edit, "def f():\n    return a.n(n=1)\n")
    assert result.mismatch == "vllm/m.py: its body has no n"
    assert edited(edit, "def f():\n    return n\n") == "def f():\n    return 2\n"


def test_body_that_the_patch_was_not_written_against():
    result = run(EDIT, "def f():\n    return 3\n")
    assert result.mismatch == "vllm/m.py: its body has no return 1"
    assert result.view.files == {}


def test_body_that_differs_in_what_patterns_leave_out():
    edit = {**EDIT, "replace-body": "def g(x): pass\nreturn 1"}
    before = "def f():\n    @d\n    def g(x: int): pass\n    return 1\n"
    assert edited(edit, before) == "def f():\n    def g(x): pass\n    return 1\n"


def test_metavariable_in_the_new_body():
    edit = {"find": "def f($x): ...", "replace-body": "return $x", "having": "return 1"}
    assert edited(edit, "def f(a):\n    return 1\n") == "def f(a):\n    return a\n"


def test_definition_of_a_snippet(tmp_path):
    (tmp_path / "new.py").write_text("def f(x):\n  # why\n  if x:\n    return '$x'\n")
    edit = {**EDIT, "replace-body": {"from": "new.py", "name": "f"}}
    assert edited(edit, "def f():\n\treturn 1\n", tmp_path) == (
        "def f():\n\t# why\n\tif x:\n\t\treturn '$x'\n"
    )


SNIPPET = "def f(a, *, b=None):\n    '''Of a.'''\n    x.a = g(a, b, a=a)\n"


@pytest.mark.parametrize(
    ("header", "call", "new"),
    [
        ("a, b, n=1", "h(a, b)", "x.a = g(a, b, a=a)"),
        ("a: int, b: int", "h(a, b)", "x.a = g(a, b, a=a)"),
        ("z, y, *, b=1", "h(z, y)", "x.a = g(z, y, a=z)"),
    ],
)
def test_a_body_from_a_file_takes_the_names_of_the_parameters(tmp_path, header, call, new):
    (tmp_path / "new.py").write_text(SNIPPET)
    edit = {
        "find": "def f($a, $b, ...): ...",
        "replace-body": {"from": "new.py", "name": "f"},
        "having": "h($a, $b)",
    }
    before = f"def f({header}):\n    {call}\n"
    after = before.replace(call, "'''Of a.'''\n    " + new)
    assert edited(edit, before, tmp_path) == after
    assert edited(edit, after, tmp_path) == after


def test_a_body_whose_parameters_have_changed_places(tmp_path):
    (tmp_path / "new.py").write_text(SNIPPET)
    edit = {
        "find": "def f($a, $b): ...",
        "replace-body": {"from": "new.py", "name": "f"},
        "having": "h($a, $b)",
    }
    result = run(edit, "def f(b, a):\n    h(a, b)\n", folder=tmp_path)
    assert "its body has no h($a, $b)" in str(result.mismatch)


@pytest.mark.parametrize(
    ("parameter", "message"),
    [("out", "the new body has another out"), ("len", "the new body has another len")],
)
def test_a_parameter_that_is_called_like_something_in_the_new_body(tmp_path, parameter, message):
    (tmp_path / "new.py").write_text("def f(a):\n    out = len(a)\n    return out + a\n")
    edit = {
        "find": "def f($a): ...",
        "replace-body": {"from": "new.py", "name": "f"},
        "having": "h($a)",
    }
    result = run(edit, f"def f({parameter}):\n    h({parameter})\n", tmp_path)
    assert message in str(result.mismatch)


@pytest.mark.parametrize(
    "body",
    [
        "return sorted(a, key=lambda a: a.x)",
        "return [a for a in x]",
        "def k(a):\n        return a",
        "with x as a:\n        pass",
        "for a in x:\n        pass",
        "try:\n        pass\n    except E as a:\n        pass",
        "match x:\n        case [a]:\n            pass",
        "global a\n    a = 1",
        "import a",
        "def a():\n        pass",
    ],
)
def test_a_parameter_that_is_something_else_in_the_new_body_too(tmp_path, body):
    (tmp_path / "new.py").write_text(f"def f(a):\n    {body}\n")
    edit = {
        "find": "def f($a): ...",
        "replace-body": {"from": "new.py", "name": "f"},
        "having": "h",
    }
    with pytest.raises(PatternError, match="a is a parameter, and a name of something else"):
        edits_of(edit, tmp_path)


def test_a_metavariable_that_is_no_parameter_is_no_name_of_the_new_body(tmp_path):
    (tmp_path / "new.py").write_text("def f(x, name):\n    return name\n")
    edit = {
        "find": "def $name(x, name): ...",
        "where": {"$name": ["foo"]},
        "replace-body": {"from": "new.py", "name": "f"},
        "having": "return 1",
    }
    source = "def foo(x, name):\n    return 1\n"
    assert edited(edit, source, tmp_path) == source.replace("return 1", "return name")


def test_snippet_on_one_line(tmp_path):
    (tmp_path / "new.py").write_text("def f(x): return 2\n")
    with fails("codemods.wrong-edit", "lines of its own"):
        edits_of({**EDIT, "replace-body": {"from": "new.py", "name": "f"}}, tmp_path)


def test_two_where_one_was_declared():
    assert run(EDIT, "def f(): return 1\n" * 2).mismatch == "expected 1, found 2"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        ({**EDIT, "find": "f($x)"}, "needs a def to find"),
        ({**EDIT, "replace-body": "return $y"}, r"\$y is in the new code"),
    ],
)
def test_declaration_is_checked_before_any_tree(edit, message):
    with pytest.raises(PatternError, match=message):
        edits_of(edit)


@pytest.mark.parametrize("having", ["y = g($_)", "return h(y)"])
def test_a_local_that_holds_a_value_is_found_itself(having):
    before = "def f(x):\n    y = g(x)\n    return h(y)\n"
    assert edited({**EDIT, "having": having}, before) == "def f(x):\n    return 2\n"


@pytest.mark.parametrize(
    ("body", "is_same"),
    [
        (["y = g(x)", "return h(y)"], True),
        (["y = g(x)", "z = 1", "return h(y)"], True),
        (["if x:", "    y = g(x)", "    return h(y)"], True),
        # What the value says may be something else by then.
        (["y = g(x)", "x = 2", "return h(y)"], False),
        (["y = g(x)", "x()", "return h(y)"], False),
        (["y = g(x)", "y = 2", "return h(y)"], False),
        (["y: int = g(x)", "return h(y)"], False),
        (["y = g(x)", "for x in y:", "    return h(y)"], False),
    ],
)
def test_a_local_that_holds_a_value_for_the_next_statement_is_the_value(body, is_same):
    edit = {**EDIT, "having": "return h(g(x))"}
    before = "".join(f"{line}\n" for line in ["def f(x):", *(f"    {line}" for line in body)])
    if is_same:
        assert edited(edit, before) == "def f(x):\n    return 2\n"
    else:
        assert run(edit, before).mismatch == "vllm/m.py: its body has no return h(g(x))"
