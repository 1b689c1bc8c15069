"""Long, repeated and commented statements become edits by meaning, too."""

from __future__ import annotations

import pytest

from tests.helpers import tree_of
from vpatch.changes.change import FileChange
from vpatch.deriving.derive import BY_TEXT, derive
from vpatch.deriving.texts import texts
from vpatch.deriving.trial import bound_edits
from vpatch.planning.editing import run_edit
from vpatch.planning.view import View

PATH = "vllm/m.py"
LONG = "".join(f"        use({n})\n" for n in range(30))
CASES = {
    "definitions go": (
        f"def f(a):\n    if a:\n{LONG}\n\ndef g():\n    for a in b:\n{LONG}\n\nx = 1\n",
        "x = 1\n",
    ),
    "one of two headers changes": (
        "def f(a):\n    x()\n    if a:\n        b()\n    y()\n    if a:\n        c()\n",
        "def f(a):\n    x()\n    if a:\n        b()\n    y()\n    if d:\n        c()\n",
    ),
    "code has an Ellipsis and gets into a block": (
        "def f(a):\n    x = a[..., 0]\n    y = x\n    return y\n",
        (
            "def f(a):\n    if a:\n        x = a[..., 0]\n        y = x\n    else:\n        "
            "y = a[..., 1]\n    return y\n"
        ),
    ),
    "a comment comes with a new statement": (
        "def f(a):\n    # Old.\n    x = g(a)\n    return x\n",
        "def f(a):\n    # New.\n    a.x, b = h(b)\n    return x\n",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_whole_statement_is_said_by_meaning(name):
    before, after = (text.encode() for text in CASES[name])
    tree = tree_of({PATH: before.decode()})
    found = derive(FileChange(PATH, before, after), tree)
    assert BY_TEXT.isdisjoint(edit.kind for edit in found)
    view = View(tree)
    for edit in found:
        for bound in bound_edits(edit.candidate.edits, edit.candidate.files):
            view = run_edit(bound, view).view
    assert view.read(PATH) == after


def test_a_long_text_is_found_by_the_lines_above_it_alone():
    now = ["above\n", *(f"line {n}\n" for n in range(60)), "below\n"]
    candidates = texts(PATH, now, (1, 61), [], "m.diff")
    hunks = [each.files["m.diff"].decode() for each in candidates if each.kind == "diff"]
    assert any(" above\n-line 0" in hunk and hunk.endswith("-line 59\n") for hunk in hunks)
