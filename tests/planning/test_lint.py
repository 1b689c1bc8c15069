from __future__ import annotations

import pytest

from vpatch.planning.lint import new_faults


def faults(after, before="", path="vllm/m.py"):
    return [(f.kind, f.name, f.line) for f in new_faults(path, before.encode(), after.encode())]


@pytest.mark.parametrize(
    ("after", "found"),
    [
        ("undefined_thing()\n", [("undefined", "undefined_thing", 1)]),
        ("def f():\n    return undefined_thing\n", [("undefined", "undefined_thing", 2)]),
        ("def f(x: Missing): ...\n", [("undefined", "Missing", 1)]),
        ("def f(x: 'Missing'): ...\n", [("undefined", "Missing", 1)]),
        ("late()\ndef late(): ...\n", [("undefined", "late", 1)]),
        ("__all__ = ['missing']\n", [("undefined", "missing", 1)]),
        ("def f():\n    print(one)\n    one = 1\none = 2\n", [("undefined", "one", 2)]),
        ("import os\n", [("unused", "os", 1)]),
        ("\f\nx\f = 1\rundefined_thing()\r\n", [("undefined", "undefined_thing", 3)]),
        ("def one(): ...\ndef one(): ...\n", [("redefined", "one", 2)]),
        ("import os\nimport os\nos.getcwd()\n", [("redefined", "os", 2)]),
        ("if x:\n    import os\nimport ntpath as os\nos.getcwd()\n", [("redefined", "os", 3)]),
        # Where nothing is wrong.
        ("def f():\n    return late()\ndef late(): ...\n", []),
        ("import os  # noqa\n", []),
        ("import os  # noqa: E402, F401\n", []),
        ("from os import (\n    path,\n)  # noqa: F401\n", []),
        ("from wherever import *\nundefined_thing()\n", []),
        ("try:\n    import os\nexcept ImportError:\n    os = None\nprint(os)\n", []),
        ("if x:\n    import os\nelse:\n    os = None\nprint(os)\n", []),
        ("if x:\n    import os\nif y:\n    import os\nos.getcwd()\n", []),
        ("if x:\n    from os import path\nfrom os import path\npath.sep\n", []),
        ("import os\nif x:\n    import ntpath as os\nos.getcwd()\n", []),
        ("def f(): ...\ntry:\n    from g import f\nexcept ImportError: ...\nf()\n", []),
        ("unused = 1\n", []),
        ("__all__ = ['lazy']\ndef __getattr__(name):\n    return name\n", []),
    ],
)
def test_faults_of_a_new_file(after, found):
    assert faults(after) == found


def test_a_comment_about_something_else_excuses_nothing():
    assert faults("import os  # noqa: E402\n") == [("unused", "os", 1)]


def test_what_an_init_file_imports_is_for_others():
    assert faults("from os import path\n", path="vllm/__init__.py") == []
    assert faults("undefined_thing\n", path="vllm/__init__.py") != []


def test_only_what_is_new_counts():
    before = "import os\nundefined_thing()\n"
    assert faults(before + "undefined_thing()\nundefined_other()\n", before) == [
        ("undefined", "undefined_other", 4)
    ]


def test_an_import_that_loses_its_last_use_is_new():
    assert faults("import os\nprint()\n", "import os\nprint(os)\n") == [("unused", "os", 1)]


def test_a_file_that_was_broken_before_counts_as_empty():
    assert faults("undefined_thing\n", "def (\n") == [("undefined", "undefined_thing", 1)]


def test_a_setting_of_doctests_is_not_followed(monkeypatch):
    monkeypatch.setenv("PYFLAKES_DOCTEST", "1")
    assert faults('"""\n>>> undefined_thing\n"""\n') == []
