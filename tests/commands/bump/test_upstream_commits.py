"""Which commits changed the definitions of a patch."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import pytest

from tests.commands.bump.steps import step
from tests.helpers import patch_of
from vpatch.commands.bump.upstream_commits import with_commits
from vpatch.git.file_history import FileRevision

FILE, OTHER = "vllm/layer.py", "vllm/other.py"
LAYER = """class Layer:
    def __init__(self, prefix):
        self.proj = Linear(4, 4)
        self.scale = scale_of(self)

    def forward(self, x):
        return self.proj(x)


def scale_of(layer):
    width = layer.width
    if layer.is_wide:
        width = width * 2
    return width**-0.5


if FAST:
    REGISTER(scale_of)
"""
EDIT = {
    "find": "self.proj = Linear(...)",
    "add-keyword": {"prefix": 'f"{prefix}.proj"', "scale": "scale_of(self)"},
}


@dataclass
class History:
    """The editions of each file, the oldest first; a commit is called by what it makes."""

    editions: dict[str, list[tuple[str, str | None]]]
    said: str = "a test"

    def changes(self, path):
        editions = self.editions.get(path, [])
        encoded = [(name, text and text.encode()) for name, text in editions]
        return [
            FileRevision(name, name, number, before, after)
            for number, ((_, before), (name, after)) in enumerate(pairwise(encoded))
        ]


@pytest.fixture
def patch(tmp_path):
    return patch_of(tmp_path, edits=[EDIT], concerns={"text": "class Layer"})


def commits(patch, editions, other=()):
    """The names of the commits of each definition, for a step through some editions of the file."""
    history = History({FILE: [("old", LAYER), *editions], OTHER: list(other)})
    after = {FILE: editions[-1][1]} if editions[-1][1] else {}
    if other and other[-1][1]:
        after[OTHER] = other[-1][1]
    (one,) = with_commits([step(patch, {FILE: LAYER}, after)], history)
    return {code.name: code.commits and [c.id for c in code.commits] for code in one.changed}


def test_each_commit_that_changed_a_definition(patch):
    wide = LAYER.replace("Linear(4, 4)", "Linear(4, 8)")
    forward = wide.replace("self.proj(x)", "self.proj(x) * 2")
    both = forward.replace("-0.5", "-0.25").replace("Linear(4, 8)", "Linear(8, 8)")
    found = commits(patch, [("wide", wide), ("forward", forward), ("both", both)])
    assert found == {"Layer.__init__": ["wide", "both"], "scale_of": ["both"]}


def test_a_comment_is_no_change(patch):
    noted = LAYER.replace("Linear(4, 4)", "Linear(4, 4)  # narrow")
    wide = noted.replace("Linear(4, 4)", "Linear(4, 8)")
    assert commits(patch, [("noted", noted), ("wide", wide)]) == {"Layer.__init__": ["wide"]}


def test_a_change_that_was_taken_back(patch):
    wide = LAYER.replace("Linear(4, 4)", "Linear(4, 8)")
    wider = LAYER.replace("Linear(4, 4)", "Linear(8, 8)")
    found = commits(patch, [("wide", wide), ("back", LAYER), ("wider", wider)])
    assert found == {"Layer.__init__": ["wide", "back", "wider"]}


def test_a_definition_that_went_to_another_file_and_changed(patch):
    head, _, function = LAYER.partition("def scale_of")
    moved = f"def scale_of{function}"
    changed = moved.replace("-0.5", "-0.25")
    found = commits(
        patch,
        [("moved", head)],
        [("old", None), ("moved", moved), ("changed", changed)],
    )
    # Both files have the commit that moved it, and its name is the same.
    assert found["scale_of"] == ["moved", "changed"]


def test_a_definition_that_is_gone(patch):
    wide = LAYER.replace("Linear(4, 4)", "Linear(4, 8)")
    head = wide.partition("def scale_of")[0]
    found = commits(patch, [("wide", wide), ("gone", head)])
    assert found["scale_of"] == ["gone"]


def test_a_statement_is_known_by_its_code(tmp_path):
    edit = {"find": "REGISTER($f)", "rewrite": "REGISTER($f, late=True)"}
    patch = patch_of(tmp_path, edits=[edit], concerns={"text": "class Layer"})
    slow = LAYER.replace("if FAST:", "if FAST and WIDE:")
    wide = slow.replace("Linear(4, 4)", "Linear(4, 8)")
    other = wide + "\n\nif SLOW:\n    REGISTER_SLOW(Layer)\n"
    found = commits(patch, [("slow", slow), ("wide", wide), ("other", other)])
    assert found == {"a statement": ["slow"]}


def test_a_patch_to_keep_is_not_asked_about(patch):
    history = History({})
    (one,) = with_commits([step(patch, {FILE: LAYER}, {"vllm/new/layer.py": LAYER})], history)
    assert {code.commits for code in one.changed} == {None}


def test_code_that_no_commit_changed(patch):
    """As of a tag that was made beside the history that a clone has."""
    wide = LAYER.replace("Linear(4, 4)", "Linear(4, 8)")
    history = History({})
    (one,) = with_commits([step(patch, {FILE: LAYER}, {FILE: wide})], history)
    assert [code.commits for code in one.changed] == [()]
