from __future__ import annotations

import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import edited, edits_of, fails, run
from vpatch.source.spec import parse_vllm
from vpatch.workspace.context import Context


def add(item):
    return {"add-import": item, "beside": "f($x)"}


@pytest.mark.parametrize(
    ("item", "before", "after"),
    [
        ("import a", "f(1)\n", "import a\n\nf(1)\n"),
        (
            "from a import b",
            '"""Doc."""\nimport os  # why\n\nf(1)\n',
            '"""Doc."""\nimport os  # why\n\nfrom a import b\n\nf(1)\n',
        ),
        (
            "from a import b",
            "from a import (  # why\n    c,  # c\n)\n\nf(1)\n",
            "from a import (  # why\n    b,\n    c,  # c\n)\n\nf(1)\n",
        ),
        (
            "from .a import b as c",
            "from __future__ import x\n\nf(1)\n",
            "from __future__ import x\n\nfrom .a import b as c\n\nf(1)\n",
        ),
        ("from . import a", "import os\nf(1)\n", "import os\n\nfrom . import a\n\nf(1)\n"),
        (
            "from a import b",
            "import os\r\n\r\nf(1)",
            "import os\r\n\r\nfrom a import b\r\n\r\nf(1)",
        ),
        # An import for the type checker alone is not one.
        (
            "from a import b",
            "if TYPE_CHECKING:\n    from a import b\n\nf(1)\n",
            "from a import b\n\nif TYPE_CHECKING:\n    from a import b\n\nf(1)\n",
        ),
        (
            "from a import b",
            "if TYPE_CHECKING:\n    from a import c\n\nf(1)\n",
            "from a import b\n\nif TYPE_CHECKING:\n    from a import c\n\nf(1)\n",
        ),
    ],
)
def test_add_import(item, before, after):
    assert edited(add(item), before) == after


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("import a.b", "import a.b\nf(1)\n"),
        ("import a as b", "import os, a as b\nf(1)\n"),
        ("from a import b", "from a import c, b\nf(1)\n"),
        ("from ..a import b", "from ..a import (\n    b,\n)\nf(1)\n"),
        # One name, one thing.
        ("import a.b as b", "from a import b\nf(1)\n"),
        ("from a import b", "import a.b as b\nf(1)\n"),
        ("from a.b import c as d", "import a.b.c as d\nf(1)\n"),
        ("import a", "import a.b\nf(1)\n"),
        ("import a.b", "import a.b.c\nf(1)\n"),
        ("from a import b", "try:\n    from a import b\nexcept E:\n    b = None\nf(1)\n"),
        ("from a import b", "if TYPE_CHECKING:\n    from a import b\nelse:\n    b = L()\nf(1)\n"),
        ("from a import b", "from a import b\n\nb = g(b)\nf(1)\n"),
    ],
)
def test_import_that_is_there_is_done(item, source):
    assert edited(add(item), source) == source


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("import a", "import a as b\nf(1)\n"),
        ("from a import b", "from a import b as c\nf(1)\n"),
        ("import a.b", "import a\nf(1)\n"),
        ("import a.b", "import a.c\nf(1)\n"),
        ("import a.b", "from a import b\nf(1)\n"),
        ("import a.bc", "import a.b\nf(1)\n"),
        ("from a import b", "import a.b\nf(1)\n"),
        ("from a import b", "if x:\n    from a import b\nf(1)\n"),
        ("from a import b", "def g():\n    from c import b\nf(1)\n"),
        ("from a import b", "from a import *\nf(1)\n"),
    ],
)
def test_import_under_another_name_is_not(item, source):
    after = edited(add(item), source)
    assert item in after
    assert len(after) > len(source)


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("from c import b\n", "from c import b"),
        ("from c import (\n    b,\n)\n", "from c import ("),
        ("import b\n", "import b"),
        ("import c as b\n", "import c as b"),
        ("b = 1\n", "b = 1"),
        ("b: int = 1\n", "b: int = 1"),
        ("def b(): pass\n", "def b(): pass"),
        ("@d\nclass b:\n    pass\n", "@d"),
        ("if TYPE_CHECKING:\n    from c import b\n", "from c import b"),
        ("if x:\n    from a import b\nelse:\n    b = None\n", "b = None"),
        ("with x() as b: pass\n", "with x() as b: pass"),
        ("for b in c: pass\n", "for b in c: pass"),
        ("try: pass\nexcept E:\n    b = None\n", "b = None"),
    ],
)
def test_a_name_that_is_something_else_is_in_the_way(source, code):
    result = run(add("from a import b"), f"{source}f(1)\n")
    assert f"b is something else there: `{code}`" in result.mismatch
    # It also is where the module binds the name below the place of imports.
    assert run(add("from a import b"), f"import os\n{source}\ndef g(): f(1)\n").mismatch


@pytest.mark.parametrize("there", ["from p.a import b", "from a import b"])
def test_whether_a_relative_import_is_the_same_is_not_known(there):
    mismatch = run(add("from .a import b"), f"{there}\nf(1)\n").mismatch
    assert "whether that is the same b is not known" in mismatch


IMPORTS = """\
# A licence.
\"\"\"Doc.\"\"\"

import os
import sys

import torch
from a10 import x
from numpy import array
from PIL import Image

# About vllm.
import vllm.envs as envs
from vllm.a import MAX, Layer, layer2, layer10
from vllm.b import (
    One,  # one
    # two
    two,
)

from ..up import y
from . import z

f(1)
"""
ITEMS = """
from __future__ import annotations
import abc
import zlib
import ossaudiodev as os2
from os import path
from os.path import join
from ossaudiodev import b
import numpy as np
from a9 import x9
from a11 import x9
from a10 import X
from requests import get
from pil import b
from PIL import Image as I
from vllm.a import layer3
from vllm.a import MIN
from vllm.a import Base
from vllm.a import _private
from vllm.a import b as c
from vllm.a import zoo as c
from vllm.b import zoo
from vllm.b import Two
from vllm.b import Ace
from vllm import c
import vllm.c
import vllm.zoo as zoo
from vllm.a2 import b
from vllm.a.b import c
from .a import b
from ...a import b
from .. import b
from ..up import x2
from vllm.a import a_name_that_is_so_long_that_it_does_not_fit
from vllm.some.package import the_first_name_of_a_module_that_is_so_long_that_it_does_not_fit
""".strip().splitlines()
RUFF = str(Path(sys.executable).with_name("ruff"))


def ruff_refuses(folder, files):
    """What ruff says of the order and the format of files, by its own settings as vLLM has them."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    # In vLLM's own sources, ruff sees that the package is there.
    own = ["--config", 'lint.isort.known-first-party=["vllm"]', "--isolated", "--no-cache", "."]
    for words in (["check", "--select", "I001", "--output-format=concise"], ["format", "--check"]):
        command = [RUFF, *words, *own]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        yield from re.findall(r"[\w/]+\.py", done.stdout)


def test_an_import_goes_where_ruff_has_it(tmp_path):
    sources = [IMPORTS, '"""Doc."""\n\nf(1)\n', "def g():\n    f(1)\n", "import os\n\nf(1)\n"]
    files = {
        f"vllm/m{number}_{place}.py": edited(add(item), source)
        for number, source in enumerate(sources)
        for place, item in enumerate(ITEMS)
    }
    assert all(item in files[f"vllm/m1_{place}.py"] for place, item in enumerate(ITEMS[:-1]))
    assert [*ruff_refuses(tmp_path, files)] == []


@pytest.mark.slow
@pytest.mark.parametrize("version", ["0.20.0", "0.33.0"])
def test_imports_in_files_of_a_release_pass_its_ruff(version, tmp_path):
    chance = random.Random(version)
    with Context().tree(parse_vllm(version)) as tree:
        paths = [p for p in tree.paths() if p.startswith("vllm/") and p.endswith(".py")]
        sources = {path: tree.read(path).decode() for path in chance.sample(sorted(paths), 120)}
    refused = {*ruff_refuses(tmp_path / "a", sources)}
    files = {}
    for path, source in sources.items():
        declared = {"add-import": chance.choice(ITEMS), "beside": "class $C: ..."}
        result = run({**declared, "expect": {"at-least": 1}}, {path: source})
        if path not in refused and result.mismatch is None:
            files[path] = result.view.read(path).decode()
    assert len(files) > 50
    assert [*ruff_refuses(tmp_path / "b", files)] == []


def test_a_line_that_gets_too_long_is_wrapped():
    long = f"from vllm.a import {', '.join(f'name_{n:02}' for n in range(7))}\n\nf(1)\n"
    assert len(long.splitlines()[0]) < 88
    after = edited(add("from vllm.a import name_07x"), long)
    assert after.startswith("from vllm.a import (\n    name_00,\n")
    assert "    name_06,\n    name_07x,\n)\n\nf(1)\n" in after


def test_numbers_of_any_length_are_sorted():
    long = "9" * 5000
    source = f"from vllm.a import a{long}, a{long}0\n\nf(1)\n"
    after = edited(add("from vllm.a import a10"), source)
    names = [line.strip(" ,") for line in after.splitlines()[1:4]]
    assert names == ["a10", f"a{long}", f"a{long}0"]
    assert f"import a{long}1\n" in edited(add(f"import a{long}1"), "import a2\n\nf(1)\n")


@pytest.mark.parametrize(
    ("source", "after"),
    [
        ("def g():\n    f(1)\n", "import a\n\n\ndef g():\n    f(1)\n"),
        ('"""Doc."""\n\nf(1)\n', '"""Doc."""\n\nimport a\n\nf(1)\n'),
        ("# SPDX\n\nf(1)\n", "# SPDX\n\nimport a\n\nf(1)\n"),
        ("# SPDX\nf(1)\n", "# SPDX\nimport a\n\nf(1)\n"),
        ("import os\nf(1)\n", "import os\n\nimport a\n\nf(1)\n"),
        ("# a\nimport z\n\nf(1)\n", "# a\nimport a\nimport z\n\nf(1)\n"),
    ],
)
def test_blank_lines_are_those_of_ruff(source, after):
    assert edited(add("import a"), source) == after


def test_only_beside_the_code():
    result = run(add("import a"), {"vllm/a.py": "f(1)\n", "vllm/b.py": "# f\n"})
    assert set(result.view.files) == {"vllm/a.py"}


def test_two_modules_where_one_was_declared():
    result = run(add("import a"), {"vllm/a.py": "f(1)\n", "vllm/b.py": "f(2)\n"})
    assert result.mismatch == "expected 1, found 2"


@pytest.mark.parametrize("item", ["x = 1", "import a, b", "from a import *", "import a\nimport b"])
def test_one_import_of_one_name(item):
    with fails("codemods.wrong-edit", "one import of one name"):
        edits_of(add(item))
