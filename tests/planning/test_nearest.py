from __future__ import annotations

import pytest

from tests.helpers import edits_of, tree_of
from vpatch.planning.editing import run_edit
from vpatch.planning.nearest import nearest
from vpatch.planning.view import View

E_PROJ = {"find": "self.e_proj = ReplicatedLinear(...)", "add-keyword": {"k": "1"}}
HEAD = {"find": "self.head = ParallelLMHeadd(...)", "add-keyword": {"k": "1"}}
LAYER = "class Layer:\n    def __init__(self):\n        self.e_proj = ReplicatedLinear(1)\n"


def told(files, edit=E_PROJ, concerned=()):
    (bound,) = edits_of(edit)
    view = View(tree_of(files if isinstance(files, dict) else {"vllm/a.py": files}))
    assert run_edit(bound, view).mismatch is not None
    return [(f.what, f.where) for f in nearest(bound, view, concerned)]


def test_nearest_names_file_and_line():
    files = {
        "vllm/a.py": "x = 1\nself.e_proj2 = ReplicatedLinear(1)\n",
        "vllm/b.py": "self.other = 1\n",
    }
    assert told(files) == [("nearest: self.e_proj2 = ReplicatedLinear(1)", "vllm/a.py:2")]


def test_nearest_looks_where_the_patch_is_concerned():
    edit = {"find": "that(x)", "rewrite": "that(x, y)"}
    files = {f"vllm/{name}.py": "this(x)\nthat(z)\n" for name in "abcdefghijk"}
    found = told(files, edit, ["vllm/k.py"])
    assert [where for _, where in found] == ["vllm/k.py:2", "vllm/a.py:2", "vllm/b.py:2"]


def test_nearest_skips_what_cannot_be_parsed():
    files = {
        "vllm/a.py": "self.e_proj2 = ReplicatedLinear(1\n",
        "vllm/b.py": "self.e_proj3 = ReplicatedLinear(1)\n",
    }
    assert [where for _, where in told(files)] == ["vllm/b.py:1"]


def test_a_misspelt_name_leads_to_the_name_that_is_meant():
    files = {
        "vllm/a.py": "self.head_dim = head\nself.heads = f(head_dim)\n",
        "vllm/b.py": "x = 1\nself.head = ParallelLMHead(\n    1, prefix=p)\n",
    }
    assert told(files, HEAD) == [
        ("nearest: self.head = ParallelLMHead( 1, prefix=p)", "vllm/b.py:2")
    ]


def test_a_call_comes_before_another_that_has_its_name_inside():
    edit = {"find": "ParallelLMHeadd(...)", "add-keyword": {"k": "1"}}
    source = "isinstance(layer, ParallelLMHead)\nParallelLMHead(layer, 1)\n"
    assert told(source, edit)[0] == ("nearest: ParallelLMHead(layer, 1)", "vllm/a.py:2")


def test_what_shares_only_common_names_is_not_near():
    source = "self.head_dim = f(self, head)\nself.headed = self.head\n"
    assert told(source, HEAD) == []
    assert told("self.x = ReplicatedLinear\nself.e = 1\n") == []


def test_of_a_definition_the_head_is_compared():
    edit = {"find": "def forwrd(self, ...): ...", "replace-body": "x", "having": "y"}
    source = "@d\ndef forward(self, x):\n    f()\n    g()\n\n\ndef other(self): forwrd_\n"
    assert told(source, edit) == [("nearest: def forward(self, x): ...", "vllm/a.py:2")]


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        (
            {"within": "Layer.forward"},
            "it is in Layer.__init__, and `within` is Layer.forward",
        ),
        ({"files": "vllm/b*"}, "`files` is vllm/b*"),
        (
            {"find": "self.$p = ReplicatedLinear(...)", "where": {"$p": ["h_proj", "x"]}},
            "$p is e_proj, and `where` has h_proj, x",
        ),
    ],
)
def test_code_that_a_limit_excludes_is_not_called_near(limits, why):
    source = f"{LAYER}    def forward(self): h_proj, x\n"
    assert told(source, {**E_PROJ, **limits}) == [
        (f"not admitted ({why}): self.e_proj = ReplicatedLinear(1)", "vllm/a.py:3")
    ]


@pytest.mark.parametrize("within", ["Layr.__init__", "Layer.__init_", "Layerr"])
def test_a_misspelt_scope(within):
    wanted = "Layer" if "." not in within else "Layer.__init__"
    line = 1 if wanted == "Layer" else 2
    excluded = f"it is in Layer.__init__, and `within` is {within}"
    assert told(LAYER, {**E_PROJ, "within": within}) == [
        (f"nothing is called {within}; nearest for `within`: {wanted}", f"vllm/a.py:{line}"),
        (f"not admitted ({excluded}): self.e_proj = ReplicatedLinear(1)", "vllm/a.py:3"),
    ]


def test_a_scope_that_is_like_none():
    found = told(LAYER, {**E_PROJ, "within": "Something.else_"})
    assert found[0] == ("nothing is called Something.else_, as `within` has it", "")


def test_a_glob_is_no_scope_of_its_own():
    found = told(LAYER, {**E_PROJ, "within": "*.forward"})
    assert [what.partition(" (")[0] for what, _ in found] == ["not admitted"]


@pytest.mark.parametrize("was", ["...", "(...)", "[...]", "f(...)"])
def test_a_value_with_an_ellipsis_is_near_itself_alone(was):
    """In a value, `...` is Python's own, and no gap."""
    edit = {"set-value": "1", "of": "C.X", "was": was}
    (elsewhere,) = told(f"X = f(2)\nX = {was}\n", edit)
    assert elsewhere[1] == "vllm/a.py:2"


@pytest.mark.parametrize(
    "edit",
    [
        {"add-import": "import a", "beside": "load_weights($x, 1)"},
        {"insert": "a()", "after": "load_weights($x, 1)"},
    ],
)
def test_new_code_that_has_no_place(edit):
    assert told("load_weight(x, 1)\n", edit) == [("nearest: load_weight(x, 1)", "vllm/a.py:1")]


def test_a_file_that_cannot_be_parsed_hides_no_other():
    edit = {"find": "load($x)", "rewrite": "load($x, 1)", "within": "C.f"}
    files = {
        "vllm/a.py": "def load(x:\n",
        "vllm/b.py": "def g():\n    load(1)\n    load(2)\n",
    }
    found = told(files, edit, ["vllm/a.py"])
    why = "not admitted (it is in g, and `within` is C.f)"
    assert found[1:] == [(f"{why}: load(1)", "vllm/b.py:2"), (f"{why}: load(2)", "vllm/b.py:3")]


def test_a_call_is_not_like_what_calls_nothing():
    edit = {"find": "load_weights(x).value", "rewrite": "x"}
    source = "x = load_weight.value\nx = load_weight(x).value\n"
    assert told(source, edit)[0] == ("nearest: load_weight(x).value", "vllm/a.py:2")


CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer
class Codemod(SiteTransformer):
    kinds = (cst.Call,)
    def edit(self, original, updated):
        return updated
"""


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (
            {"contains": ["getLoger"]},
            ["no file contains 'getLoger', as `contains` has it; nearest: getLogger"],
        ),
        ({"contains": ["getLogger", "$$"]}, ["no file contains '$$', as `contains` has it"]),
        (
            {"contains": ["getLogger", "other"]},
            ["no file contains all of `contains`: 'getLogger', 'other'"],
        ),
        (
            {"contains": ["other"], "files": ["vllm/a.py"]},
            ["no file among `files` (vllm/a.py) contains all of `contains`: 'other'"],
        ),
        ({"contains": ["getLogger"]}, []),
    ],
)
def test_words_that_keep_a_codemod_from_every_file(tmp_path, edit, said):
    (tmp_path / "codemod.py").write_text(CODEMOD)
    (bound,) = edits_of({"codemod": "codemod.py"} | edit, tmp_path)
    view = View(tree_of({"vllm/a.py": "x = getLogger(1)\n", "vllm/b.py": "other(1)\n"}))
    assert run_edit(bound, view).mismatch is not None
    assert [finding.what for finding in nearest(bound, view, [])] == said


def test_a_text_names_the_first_line_that_differs():
    edit = {"text": {"find": "a = 1\nb = 2\nc = 3\n", "replace": "x\n"}, "files": "vllm/*"}
    files = {"vllm/a.py": "\n\na = 1\nb = 20\nc = 3\n", "vllm/b.py": "nothing\n"}
    assert told(files, edit) == [
        ("the nearest place differs\nexpected  b = 2\nfound     b = 20", "vllm/a.py:4")
    ]


def test_of_many_files_those_count_that_have_a_line_of_the_text():
    edit = {"text": {"find": "x = 1\nlonger = 2\n", "replace": "y\n"}, "files": "vllm/*"}
    files = {f"vllm/{name}.py": "x = 2\n" for name in "abcdef"} | {"vllm/g.py": "longer = 2\n"}
    assert [where for _, where in told(files, edit)] == ["vllm/g.py:1"]
