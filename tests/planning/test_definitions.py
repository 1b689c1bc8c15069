from __future__ import annotations

import pytest

from vpatch.planning.definitions import changed_names, module_of, names_of
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


def test_what_a_name_is_bound_to_when_a_file_is_imported():
    source = b"""
import a.b, c as d
from e import f as g, h
A: int = 1
B: int
C = f()
D = D2 = 2
class K:
    import inside
    X = 1
    async def m(self): pass
if x:
    E = 1
F = 1
F = 2
"""
    assert set(names_of(source)) == {
        *(("a", "import"), ("d", "import"), ("g", "import"), ("h", "import")),
        *(("A", "constant"), ("K.m", "function")),
    }


def test_what_a_change_defines():
    before = b"A = 1\nclass C:\n    def f(self): return 1\n    def g(self): return 2\n"
    after = b"A = 1\nclass C:\n    def f(self): return 3\n    def g(self): return 2\nB = 2\n"
    found = changed_names(Change(before, after))
    assert set(found) == {("C.f", "function"), ("B", "constant")}
    # Formatting is no change, and the same code elsewhere in a file is the same.
    moved = b"# moved\n\nclass C:\n    def f(self):\n        return 3\nB = 2\n"
    assert changed_names(Change(b"", moved)).items() >= found.items()
    assert changed_names(Change(before, before)) == {}
