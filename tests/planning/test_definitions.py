from __future__ import annotations

import pytest

from vpatch.planning.definitions import changed_names, module_of
from vpatch.planning.state import Change


@pytest.mark.parametrize(
    ("path", "module"),
    [
        ("vllm/__init__.py", "vllm"),
        ("vllm/a/b.py", "vllm.a.b"),
        ("vllm/a/__main__.py", None),
        ("vllm/a.json", None),
    ],
)
def test_the_module_of_a_path(path, module):
    assert module_of(path) == module


def test_what_a_change_defines():
    before = b"A = 1\nclass C:\n    def f(self): return 1\n    def g(self): return 2\n"
    after = b"A = 1\nclass C:\n    def f(self): return 3\n    def g(self): return 2\nB = 2\n"
    found = changed_names(Change(before, after))
    assert set(found) == {("C.f", "function"), ("B", "constant")}
    # Formatting is no change, and the same code elsewhere in a file is the same.
    moved = b"# moved\n\nclass C:\n    def f(self):\n        return 3\nB = 2\n"
    assert changed_names(Change(b"", moved)).items() >= found.items()
    assert changed_names(Change(before, before)) == {}
