from __future__ import annotations

import os

import pytest

from tests.helpers import decide, edited, edits_of, fails, patch_of, run, tree_of
from vpatch.errors import UsageError
from vpatch.planning.state import State

CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        if not self.place.admits(self.scope, None) or updated.value not in ("1", "2"):
            return updated
        self.add(original, todo=updated.value == "1")
        return updated.with_changes(value="2")
"""
EDIT = {"codemod": "codemod.py", "contains": ["f"]}


def test_codemod(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert edited(EDIT, "f( 1 )  # why\n", tmp_path) == "f( 2 )  # why\n"


def test_codemod_within(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    edit = {**EDIT, "within": "g"}
    before = "f(1)\ndef g():\n    f(1)\n"
    assert edited(edit, before, tmp_path) == "f(1)\ndef g():\n    f(2)\n"


def test_a_codemod_may_ask_whether_it_is_within(tmp_path):
    asking = CODEMOD.replace("self.place.admits(self.scope, None)", "self.is_within")
    assert asking != CODEMOD
    (tmp_path / "codemod.py").write_text(asking)
    before = "f(1)\ndef g():\n    f(1)\n"
    assert edited({**EDIT, "within": "g"}, before, tmp_path) == "f(1)\ndef g():\n    f(2)\n"


def test_codemod_is_counted(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert run(EDIT, "f(1, 1)\n", tmp_path).mismatch == "expected 1, found 2"


def test_codemod_sees_only_files_with_the_words(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    assert run(EDIT, "g(1)\n", tmp_path).mismatch == "expected 1, found 0"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "defines no class Codemod"),
        ("class Codemod: pass\n", "defines no class Codemod"),
        ("import nowhere_at_all\n", "cannot be imported"),
        ("x = (\n", "cannot be imported"),
        ("x\n", "cannot be imported"),
        ("raise SystemExit(0)\n", "cannot be imported: SystemExit: 0"),
        ("raise ValueError('no')\n", "cannot be imported: ValueError: no"),
    ],
)
def test_file_without_a_codemod(tmp_path, text, message):
    (tmp_path / "codemod.py").write_text(text)
    with fails("codemods.broken-codemod", message) as caught:
        run(EDIT, "f(1)\n", tmp_path)
    assert caught.value.where == str(tmp_path / "codemod.py")
    assert caught.value.hint


def test_a_codemod_runs_when_an_edit_does_and_not_before(tmp_path):
    (tmp_path / "codemod.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n{CODEMOD}")
    edits_of(EDIT, tmp_path)
    assert not (tmp_path / "ran").exists()


def test_a_codemod_of_the_same_size_and_time_is_read_anew(tmp_path):
    file = tmp_path / "codemod.py"
    for value in ("2", "3"):
        file.write_text(CODEMOD.replace('"2"', f'"{value}"'))
        os.utime(file, (1, 1))
        assert edited(EDIT, "f(1)\n", tmp_path) == f"f({value})\n"
    assert not list(tmp_path.rglob("*.pyc"))


def test_a_change_without_a_place_is_refused(tmp_path):
    (tmp_path / "codemod.py").write_text(CODEMOD.replace("todo=", "todo=False and "))
    with fails("codemods.broken-codemod", "without reporting the place"):
        run(EDIT, "f(1)\n", tmp_path)


PLAIN = """
import libcst as cst
from libcst.codemod import {base}

class {name}({base}):
    def leave_Integer(self, original_node, updated_node):
        if updated_node.value != "1":
            return updated_node
        return updated_node.with_changes(value="2")
"""
TRANSFORMER = PLAIN.replace("from libcst.codemod import {base}", "").replace(
    "{base}", "cst.CSTTransformer"
)
COMMAND = """
import libcst as cst
from libcst.codemod import CodemodCommand

class Replace(CodemodCommand):
    def transform_module_impl(self, tree):
        return tree.visit(_Ones())

class _Ones(cst.CSTTransformer):
    def leave_Integer(self, original_node, updated_node):
        return cst.Integer("2") if updated_node.value == "1" else updated_node

Codemod = Replace
"""
METADATA = """
import libcst as cst
from libcst.metadata import PositionProvider

class Codemod({base}):
    METADATA_DEPENDENCIES = (PositionProvider,)

    def leave_Integer(self, original_node, updated_node):
        line = self.get_metadata(PositionProvider, original_node).start.line
        return updated_node.with_changes(value=str(line + 1))
"""


def written(folder, text, **keys):
    for key, value in keys.items():
        text = text.replace(f"{{{key}}}", value)
    (folder / "codemod.py").write_text(text)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN.format(base="VisitorBasedCodemodCommand", name="Codemod"),
        PLAIN.format(base="ContextAwareTransformer", name="OfAnyName"),
        TRANSFORMER.format(name="Codemod"),
        COMMAND,
        COMMAND.replace("Codemod = Replace", ""),
        METADATA.format(base="cst.CSTTransformer"),
    ],
)
def test_a_plain_codemod(tmp_path, text):
    written(tmp_path, text)
    result = run(EDIT, "f( 1 )  # why\n", tmp_path)
    assert (result.mismatch, result.todo) == (None, True)
    assert result.view.read("vllm/m.py") == b"f( 2 )  # why\n"


CHANGES = [
    ("f(0)\n", []),
    ("f(1)\n", [""]),
    ("f(1); g(1)\n", [""]),
    ("f(1)\ng(1)\nf(0)\n", ["", ""]),
    ("class C:\n    def g(self):\n        f(1)\n        f(0)\n        f(1)\n", ["C.g", "C.g"]),
    ("def g(a=1):\n    f(1)\n", [""]),
    ("def g(a=0):\n    f(1)\n", ["g"]),
    ("if a:\n    f(1)\nelif b:\n    f(0)\nelse:\n    f(1)\n", ["", ""]),
    ("try:\n    f(1)\nexcept E:\n    f(1)\nfinally:\n    f(1)\n", ["", "", ""]),
    ("if a: f(1)\n", [""]),
    ("match f:\n    case 0:\n        f(1)\n    case 1:\n        f(1)\n", [""]),
]


@pytest.mark.parametrize(("source", "scopes"), CHANGES)
def test_each_statement_that_a_plain_codemod_changes_is_a_place(tmp_path, source, scopes):
    written(tmp_path, TRANSFORMER, name="Codemod")
    result = run({**EDIT, "expect": {"at-least": 1}}, source, tmp_path)
    assert [site.scope for site in result.sites] == scopes
    assert result.view.read("vllm/m.py").decode() == source.replace("1", "2")


def test_statements_that_a_plain_codemod_adds_and_removes_are_places(tmp_path):
    code = """
import libcst as cst

class Codemod(cst.CSTTransformer):
    def leave_SimpleStatementLine(self, original_node, updated_node):
        code = cst.Module([updated_node]).code
        if code == "old()\\n":
            return cst.RemoveFromParent()
        if code == "twice()\\n":
            return cst.FlattenSentinel([updated_node, updated_node])
        return updated_node
"""
    written(tmp_path, code)
    result = run({**EDIT, "expect": 2}, "f()\nold()\ndef g():\n    twice()\n", tmp_path)
    assert result.mismatch is None
    assert sorted(site.scope for site in result.sites) == ["", "g"]


def test_a_plain_codemod_that_has_no_effect_is_a_mismatch(tmp_path):
    written(tmp_path, TRANSFORMER, name="Codemod")
    assert run(EDIT, "f(3)\n", tmp_path).mismatch == "expected 1, found 0"


def test_a_plain_codemod_stays_within(tmp_path):
    written(tmp_path, TRANSFORMER, name="Codemod")
    edit = {**EDIT, "within": "g"}
    assert run(edit, "f()\ndef g():\n    h(1)\n", tmp_path).mismatch is None
    result = run(edit, "f(1)\ndef g():\n    h()\n", tmp_path)
    assert result.mismatch == "vllm/m.py: changes code that is not `within`"


def test_where_means_nothing_to_a_plain_codemod(tmp_path):
    written(tmp_path, TRANSFORMER, name="Codemod")
    with fails("codemods.broken-codemod", "`where` has no effect"):
        run({**EDIT, "where": {"$x": ["a"]}}, "f(a)\n", tmp_path)


def test_a_file_that_a_plain_codemod_skips_has_no_place(tmp_path):
    text = PLAIN.format(base="ContextAwareTransformer", name="Codemod")
    text = text.replace(
        "if updated_node",
        "from libcst.codemod import SkipFile; raise SkipFile\n        if updated_node",
    )
    written(tmp_path, text)
    assert run(EDIT, "f(1)\n", tmp_path).mismatch == "expected 1, found 0"


def plan_of(folder, effect, text=TRANSFORMER):
    keys = {"effect": effect} if effect else {}
    files = {"codemod.py": text.replace("{name}", "Codemod")}
    return patch_of(folder, edits=[EDIT], files=files, concerns={"text": "f("}, **keys)


def test_a_plain_codemod_needs_an_effect(tmp_path):
    decision = decide(plan_of(tmp_path, None), tree_of({"vllm/a.py": "f(1)\n"}))
    assert decision.state is State.CONFLICT
    assert "declare an `effect`" in decision.reason


def test_a_patch_with_a_plain_codemod(tmp_path):
    patch = plan_of(tmp_path, {"find": "f(2)"})
    decision = decide(patch, tree_of({"vllm/a.py": "f(1)\n"}))
    assert decision.state is State.NEEDED, decision.reason
    assert decision.changes["vllm/a.py"].after == b"f(2)\n"
    assert decide(patch, tree_of({"vllm/a.py": "f(2)\n"})).state is State.UPSTREAMED
    assert decide(patch, tree_of({"vllm/a.py": "f(3)\n"})).state is State.CONFLICT


def test_a_plain_codemod_that_changes_its_own_result_is_a_conflict(tmp_path):
    text = TRANSFORMER.replace('!= "1"', '== "9"').replace(
        'value="2"', 'value=updated_node.value + "0"'
    )
    decision = decide(plan_of(tmp_path, {"text": "0"}, text), tree_of({"vllm/a.py": "f(1)\n"}))
    assert decision.state is State.CONFLICT
    assert "applied twice, codemod.py changes the file again" in decision.reason


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            CODEMOD + "    def leave_Call(self, o, u):\n        raise ValueError\n",
            "defines leave_Call, which is never called",
            "do it in edit()",
        ),
        (
            CODEMOD + "    def visit_Call(self, o):\n        return False\n",
            "defines visit_Call, which is never called",
            "do it in edit()",
        ),
        (CODEMOD.replace("(cst.Integer,)", "()"), "has no `kinds`", "name the libcst nodes"),
        (CODEMOD.replace("(cst.Integer,)", "('Integer',)"), "has no `kinds`", "name the libcst"),
        (CODEMOD.replace("def edit", "def edits"), "does not define edit()", "define edit"),
        (
            TRANSFORMER.format(name="Codemod").replace("leave_Integer", "leave_Integr"),
            "defines leave_Integr, which libcst never calls",
            "write leave_Integer",
        ),
        (
            TRANSFORMER.format(name="A") + TRANSFORMER.format(name="B"),
            "defines several codemods: A, B",
            "call the one to run Codemod",
        ),
        ("from libcst.codemod import Codemod\n", "defines no class Codemod", "derive it from"),
    ],
)
def test_a_codemod_that_would_have_no_effect_is_refused(tmp_path, text, message, hint):
    written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        run(EDIT, "f(1)\n", tmp_path)
    assert message in caught.value.what
    assert hint in caught.value.hint


def test_a_hook_of_a_matcher_may_have_any_name(tmp_path):
    written(
        tmp_path,
        """
import libcst as cst
import libcst.matchers as m
from libcst.codemod import ContextAwareTransformer

class Codemod(ContextAwareTransformer):
    @m.leave(m.Integer("1"))
    def leave_one(self, original_node, updated_node):
        return cst.Integer("2")
""",
    )
    assert run(EDIT, "f(1)\n", tmp_path).view.read("vllm/m.py") == b"f(2)\n"


@pytest.mark.parametrize(
    ("text", "message", "line"),
    [
        (
            CODEMOD.replace("return updated.with", "raise ValueError('no')\n        return u.with"),
            "ValueError: no",
            12,
        ),
        (
            TRANSFORMER.format(name="Codemod").replace(
                "if updated", "raise KeyError('no')\n        if updated"
            ),
            "KeyError: 'no'",
            7,
        ),
        (
            TRANSFORMER.format(name="Codemod") + "    def __init__(self, x): pass\n",
            "TypeError",
            None,
        ),
        (COMMAND.replace("return tree.visit(_Ones())", "return None"), "TypeError", None),
    ],
)
def test_a_codemod_that_fails_names_its_line(tmp_path, text, message, line):
    written(tmp_path, text)
    with pytest.raises(UsageError) as caught:
        run(EDIT, "f(1)\n", tmp_path)
    assert f"the codemod fails: {message}" in caught.value.what
    if line:
        assert caught.value.where == f"{tmp_path / 'codemod.py'}:{line}"


def test_a_place_to_do_that_is_not_changed_is_refused(tmp_path):
    written(tmp_path, CODEMOD.replace('return updated.with_changes(value="2")', "return updated"))
    with fails("codemods.broken-codemod", "reports a place to change, but changes nothing"):
        run(EDIT, "f(1)\n", tmp_path)


def test_a_place_outside_of_within_is_refused(tmp_path):
    written(tmp_path, CODEMOD.replace("not self.place.admits(self.scope, None) or", ""))
    with fails("codemods.broken-codemod", "which is not within g"):
        run({**EDIT, "within": "g"}, "f(1)\ndef g():\n    f(1)\n", tmp_path)
