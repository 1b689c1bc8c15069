"""What differs for a patch between two releases is found once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.helpers import patch_of, tree_of
from vpatch.commands.bump import comparison_cache as kept_code
from vpatch.commands.bump.changes import ReleaseSide, changed_code
from vpatch.commands.bump.comparison_cache import compared
from vpatch.planning.answers import Answers
from vpatch.planning.plan import plan
from vpatch.planning.view import View
from vpatch.source.memory import MemoryTree
from vpatch.util.digest import digest_of

FILE = "vllm/layer.py"
LAYER = """class Layer:
    def __init__(self, prefix):
        self.proj = Linear(4, 4)
        self.scale = scale_of(self)


def scale_of(layer):
    return layer.width**-0.5
"""
CHANGED = LAYER.replace("Linear(4, 4)", "Linear(4, 8)").replace("-0.5", "-0.25")


EDIT = {"find": "self.proj = Linear(...)", "add-keyword": {"scale": "scale_of(self)"}}


def side(tmp_path, code, answers, edit=EDIT, more=""):
    """A patch in a release, as a run of vpatch reads it; `more` is code of another file."""
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Layer"})
    made = tree_of({FILE: code, "vllm/other.py": more})
    digest = digest_of((code + more).encode())
    tree = MemoryTree(replace(made.pin, digest=digest), made.files)
    return ReleaseSide(plan([patch], tree).decisions[0], View(tree, answers=answers))


@pytest.fixture
def asked(monkeypatch):
    """The comparisons that are made."""
    calls = []

    def count(*sides):
        calls.append(sides)
        return changed_code(*sides)

    monkeypatch.setattr(kept_code, "changed_code", count)
    return calls


@pytest.fixture
def twice(tmp_path):
    """Compare LAYER with some code in two runs, which have one database of answers."""

    def compare(after, edit=EDIT, more=""):
        found = []
        for _ in range(2):
            answers = Answers(tmp_path / "answers.db", "code")
            sides = [
                side(tmp_path, LAYER, answers, edit),
                side(tmp_path, after, answers, edit, more),
            ]
            found.append(compared(*sides))
            assert found[-1] == changed_code(*sides)
            answers.save()
            answers.close()
        assert found[0] == found[1]
        return found[0]

    return compare


@pytest.mark.parametrize(
    ("after", "kinds"),
    [
        (LAYER, []),
        (CHANGED, [("Layer.__init__", "changed"), ("scale_of", "changed")]),
        (LAYER.replace("scale_of", "width_of"), [("Layer.__init__", "changed")]),
        (LAYER.partition("\n\ndef")[0], [("scale_of", "gone")]),
    ],
)
def test_a_second_run_finds_the_same_and_compares_nothing(twice, asked, after, kinds):
    found = twice(after)
    assert [(one.name, one.kind) for one in found][: len(kinds)] == kinds
    assert len(asked) == 1


def test_another_release_is_compared_anew(twice, asked):
    """The patch reads the same of both, but only one has what took the function's place."""
    head, _, function = LAYER.partition("def scale_of")
    kinds = [
        {one.name: one.kind for one in twice(head, more=more)}["scale_of"]
        for more in ("", f"def scale_of{function}")
    ]
    assert kinds == ["gone", "moved"]
    assert len(asked) == 2


def test_another_edition_of_the_patch_is_compared_anew(twice, asked):
    first = twice(CHANGED)
    second = twice(CHANGED, {**EDIT, "add-keyword": {"scale": "scale_of(self) * 2"}})
    assert len(asked) == 2
    assert first[0].patched != second[0].patched
