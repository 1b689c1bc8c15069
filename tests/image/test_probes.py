from __future__ import annotations

from dataclasses import dataclass

import pytest

from vpatch.image.probes import Probe, probes_of
from vpatch.planning.state import Change, Decision, Plan, State

BEFORE = b"""
import os
LIMIT = 1
TWICE = 1
TWICE = 2

class Layer:
    size = 4

    def forward(self):
        return 1

    class Inner:
        def step(self):
            return 1

def outer():
    return 1

def untouched():
    def inner():
        return 1
    return inner
"""


@dataclass
class FakePatch:
    id: str


def plan_of(**changes):
    """A plan of patches that each change one file, by the bytes after."""
    decisions, last = [], BEFORE
    for patch, after in changes.items():
        changed = {"vllm/layer.py": Change(last, after)}
        decisions.append(Decision(FakePatch(patch), State.NEEDED, "", changes=changed))
        last = after
    return Plan(None, tuple(decisions))


def names(after):
    return {(p.name, p.kind) for p in probes_of(plan_of(one=after))["one"]}


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        (b"return 1\n\n    class", b"return 2\n\n    class", ("Layer.forward", "function")),
        (
            b"            return 1\n\ndef",
            b"            return 2\n\ndef",
            ("Layer.Inner.step", "function"),
        ),
        (b"def outer():\n    return 1", b"async def outer():\n    return 1", ("outer", "function")),
        (
            b"def inner():\n        return 1",
            b"def inner():\n        return 2",
            ("untouched", "function"),
        ),
        (b"LIMIT = 1", b"LIMIT = 2", ("LIMIT", "constant")),
        (b"LIMIT = 1", b"LIMIT: int = 2", ("LIMIT", "constant")),
        (b"import os\n", b"import os\nfrom a import b as c\n", ("c", "import")),
        (b"import os\n", b"import os\nimport a.b\n", ("a", "import")),
        (b"def outer():", b"def new():\n    pass\n\ndef outer():", ("new", "function")),
    ],
)
def test_what_a_patch_changed_has_a_name(old, new, found):
    assert BEFORE.count(old) == 1
    assert names(BEFORE.replace(old, new)) == {found}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"LIMIT = 1", b"LIMIT = 1  # the longest"),
        (b"    size = 4", b"    size = 5"),
        (b"TWICE = 2", b"TWICE = 3"),
        (b"LIMIT = 1", b"LIMIT = compute()"),
    ],
)
def test_what_cannot_be_asked_for_by_name(old, new):
    assert names(BEFORE.replace(old, new)) == set()


def test_what_a_later_patch_removes_is_not_asked_for():
    first = BEFORE.replace(b"def outer():\n    return 1", b"def outer():\n    return 2")
    second = first.replace(b"def outer():\n    return 2\n", b"")
    found = probes_of(plan_of(one=first, two=second))
    assert found == {"one": [], "two": []}


def test_probes_of_a_new_file_and_of_one_that_is_not_python():
    changes = {"vllm/new.py": Change(None, b"A = 1\n"), "csrc/a.cu": Change(b"", b"}{")}
    plan = Plan(None, (Decision(FakePatch("one"), State.NEEDED, "", changes=changes),))
    assert probes_of(plan) == {"one": [Probe("vllm.new", "A", "constant")]}
