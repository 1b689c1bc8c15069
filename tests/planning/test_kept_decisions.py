"""A decision on a patch is made once, and made anew where anything that it follows from differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import patch_of, tree_of
from vpatch.library.loading import load_patch
from vpatch.library.shapes import KnownShape, Shapes, write_shapes
from vpatch.planning.answers import Answers
from vpatch.planning.decider import Decider
from vpatch.planning.plan import plan
from vpatch.planning.state import Change, State
from vpatch.trust.decision import EVERYTHING, Trust
from vpatch.trust.store import Store

FILES = {"vllm/m.py": "f(1)\n", "vllm/n.py": "p(1)\n"}
F = {"find": "f($x)", "rewrite": "g($x)"}
G = {"find": "g($x)", "rewrite": "h($x)"}
P = {"find": "p($x)", "rewrite": "q($x)"}
CODEMOD = """
import libcst as cst
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        self.add(original, todo=updated.value == "1")
        return updated.with_changes(value="2")
"""


@pytest.fixture
def answers(tmp_path):
    return Answers(tmp_path / "answers.db", "code")


@pytest.fixture
def decided(monkeypatch):
    """The ids of the patches that were really decided on."""
    found = []
    decide = Decider.decide

    def noted(self):
        found.append(self.patch.id)
        return decide(self)

    monkeypatch.setattr(Decider, "decide", noted)
    return found


def made(answers, *patches, files=FILES, findings_for="none", tree=None, **options):
    tree = tree or tree_of(files)
    return plan(
        patches, tree, findings_for=findings_for, answers=answers, remember=True, **options
    ).decisions


def test_a_decision_is_made_once(tmp_path, answers, decided):
    first = patch_of(tmp_path, "first", edits=[F])
    second = patch_of(
        tmp_path,
        "second",
        edits=[G, {"add-file": "vllm/new.py", "from": "new.py"}],
        files={"new.py": "\u00e9 = 1\n"},
        concerns={"text": "("},
    )
    found = made(answers, first, second)
    assert [decision.state for decision in found] == [State.NEEDED] * 2
    assert decided == ["first", "second"]
    # As another process finds them.
    answers.close()
    again = made(Answers(tmp_path / "answers.db", "code"), first, second)
    assert decided == ["first", "second"]
    assert again == found
    assert again[1].changes == {
        "vllm/m.py": Change(b"g(1)\n", b"h(1)\n"),
        "vllm/new.py": Change(None, "\u00e9 = 1\n".encode()),
    }


@pytest.mark.parametrize(
    ("files", "state"),
    [
        ({"vllm/m.py": "g(1)\n"}, State.UPSTREAMED),
        ({"vllm/m.py": "print(1)\n"}, State.ABSENT),
        ({"vllm/m.py": "f(1)\nf(2)\n"}, State.CONFLICT),
    ],
)
def test_every_state_is_kept(tmp_path, answers, decided, files, state):
    concerns = {"any": [{"text": "f("}, {"text": "g("}]}
    patch = patch_of(tmp_path, edits=[F], concerns=concerns, effect={"find": "g($x)"})
    found = made(answers, patch, files=files)
    assert found[0].state is state
    assert made(answers, patch, files=files) == found
    assert decided == ["fix"]


def test_only_the_patch_that_was_edited_is_decided_anew(tmp_path, answers, decided):
    first, last = (patch_of(tmp_path, name, edits=[edit]) for name, edit in [("a", F), ("c", P)])
    before = patch_of(tmp_path, "b", edits=[G], concerns={"text": "("})
    made(answers, first, before, last)
    edited = patch_of(tmp_path / "other", "b", edits=[G], concerns={"text": "("}, title="Another")
    decided.clear()
    found = made(answers, first, edited, last)
    assert decided == ["b"]
    assert found[1].patch is edited


def test_a_patch_follows_what_earlier_patches_make(tmp_path, answers, decided):
    first = patch_of(tmp_path, "first", edits=[F])
    second = patch_of(tmp_path, "second", edits=[G], concerns={"text": "("})
    assert made(answers, second)[0].state is State.CONFLICT
    assert made(answers, first, second)[1].state is State.NEEDED
    other = patch_of(tmp_path / "other", "first", edits=[{"find": "f($x)", "rewrite": "g($x, 2)"}])
    decided.clear()
    assert made(answers, other, second)[1].state is State.CONFLICT
    assert "second" in decided


@pytest.mark.parametrize(
    "other",
    [
        lambda tree: replace(tree, pin=replace(tree.pin, digest="sha256:1")),
        lambda tree: replace(tree, pin=replace(tree.pin, version="0.24.0")),
        lambda tree: replace(tree, pin=replace(tree.pin, tree="vllm-other")),
        lambda tree: replace(tree, carried=frozenset(["fix"])),
    ],
)
def test_another_tree_is_decided_anew(tmp_path, answers, decided, other):
    patch = patch_of(tmp_path, edits=[F])
    tree = tree_of(FILES)
    for one in (tree, other(tree), tree):
        made(answers, patch, tree=one)
    assert len(decided) == 2


def test_other_code_decides_anew(tmp_path, decided):
    patch = patch_of(tmp_path, edits=[F])
    for code in ("one", "another", "one"):
        made(Answers(tmp_path / "answers.db", code), patch)
    assert len(decided) == 2


def test_another_record_is_compared_anew(tmp_path, answers):
    patch = patch_of(tmp_path, edits=[F])
    (found,) = made(answers, patch)
    assert found.new_shape
    shape = KnownShape(
        releases=("0.23.0",),
        state="needed",
        variant=None,
        definitions=dict(found.shape.definitions),
        patched={},
    )
    write_shapes(patch.folder, Shapes(patch_digest=patch.digest, shapes={"vllm": (shape,)}))
    (found,) = made(answers, load_patch(patch.folder, EVERYTHING))
    assert not found.new_shape


def test_a_decision_follows_codemod_py(tmp_path, answers, decided):
    edits = [{"codemod": "codemod.py", "contains": ["f"]}]
    patch = patch_of(tmp_path, edits=edits, files={"codemod.py": CODEMOD})
    for _ in range(2):
        assert made(answers, patch)[0].changes["vllm/m.py"].after == b"f(2)\n"
    assert len(decided) == 1
    (patch.folder / "codemod.py").write_text(CODEMOD.replace('value="2"', 'value="3"'))
    patch = load_patch(patch.folder, EVERYTHING)
    assert made(answers, patch)[0].changes["vllm/m.py"].after == b"f(3)\n"
    # It may read more than vpatch knows of.
    (patch.folder / "codemod.py").write_text(f"import os\n{CODEMOD}")
    patch = load_patch(patch.folder, EVERYTHING)
    decided.clear()
    for _ in range(2):
        made(answers, patch)
    assert len(decided) == 2


def test_a_decision_follows_trust(tmp_path, answers, decided):
    edits = [{"codemod": "codemod.py", "contains": ["f"]}]
    folder = patch_of(tmp_path, edits=edits, files={"codemod.py": CODEMOD}).folder
    nobody = Trust(Store(tmp_path / "trust"))
    found = [made(answers, load_patch(folder, trust)) for trust in (nobody, EVERYTHING) * 2]
    assert [one.state for (one,) in found] == [State.UNTRUSTED, State.NEEDED] * 2
    assert len(decided) == 2


def test_findings_are_found_anew(tmp_path, answers):
    patch = patch_of(tmp_path, edits=[F])
    files = {"vllm/m.py": "f(1)\nf(2)\n"}
    for _ in range(2):
        (found,) = made(answers, patch, files=files, findings_for="stopping")
        assert [finding.line for finding in found.findings] == [1, 2]
        (found,) = made(answers, patch, files=files)
        assert found.findings == ()
    for _ in range(2):
        (found,) = made(answers, patch, findings_for="all")
        assert found.findings


def test_nothing_is_remembered_unasked(tmp_path, answers, decided):
    patch = patch_of(tmp_path, edits=[F])
    for _ in range(2):
        plan([patch], tree_of(FILES), answers=answers)
    assert len(decided) == 2
