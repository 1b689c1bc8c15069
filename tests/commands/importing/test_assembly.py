"""Edits of several places become the list of a patch."""

from __future__ import annotations

from tests.helpers import tree_of
from vpatch.commands.importing.assembly import assemble
from vpatch.deriving.candidate import one
from vpatch.deriving.derive import DerivedEdit

PATH = "vllm/configs.json"


def test_equal_texts_of_two_places_stay_two_and_equal_imports_become_one():
    """Once the first of two is done, its text may be there again, at the place of the second."""
    text = {"text": {"find": "a\nb\n", "replace": "a\n"}, "files": PATH}
    import_ = {"add-import": "import x", "files": "vllm/m.py"}
    derived = [
        DerivedEdit(path, one("text", edit), (1, 1), None)
        for path, edit in [(PATH, text), ("vllm/m.py", import_)] * 2
    ]
    patch = assemble([], derived, tree_of({PATH: "a\nb\nb\n"}), merge=False)
    assert list(patch.edits) == [text, import_, text]
