from __future__ import annotations

import builtins
import importlib
import os
import py_compile
import sys
import types

import pytest

import vpatch.codemods
from tests.helpers import edited, patch_of, run
from vpatch.codemods import allowed
from vpatch.codemods.custom import Custom
from vpatch.codemods.inputs import _hiding, inputs_of
from vpatch.library.catalog import installed
from vpatch.library.loading import load_patch
from vpatch.trust.decision import EVERYTHING, NOTHING

CODEMOD = """\
from __future__ import annotations
import re
import libcst as cst
import libcst.matchers as m
from libcst.codemod import VisitorBasedCodemodCommand
from libcst.metadata import PositionProvider
from vpatch.codemods import SiteTransformer

class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        self.add(original, todo=updated.value == "1")
        return updated.with_changes(value="2")
"""
EDIT = {"codemod": "codemod.py", "contains": ["f"]}


def inputs(folder, text):
    return inputs_of(text.encode(), folder / "codemod.py")


@pytest.fixture
def packages(tmp_path, monkeypatch):
    """A folder of modules that codemods import."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(folder)
    return folder


@pytest.mark.parametrize(
    "text",
    [
        CODEMOD,
        CODEMOD + "x = getattr(cst, 'Name')\ny = {}\ny['a'] = 1\n",
        CODEMOD + "import collections.abc, typing\nfrom collections import abc\n",
        CODEMOD + "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import pathlib\n",
        CODEMOD + "from libcst.codemod.visitors import AddImportsVisitor\n",
        CODEMOD + "import libcst\nlibcst.matchers.Name()\n",
        CODEMOD + "class A:\n    x = 1\n    def f(self):\n        self.y = self.x\n",
        CODEMOD + "import vpatch.codemods\nvpatch.codemods.SiteTransformer\n",
    ],
)
def test_what_a_codemod_may_use(tmp_path, text):
    found = inputs(tmp_path, text)
    assert found.reason is None
    assert found.digest


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("import os", "it imports os"),
        ("from pathlib import Path", "it imports pathlib"),
        ("import time", "it imports time"),
        ("import random", "it imports random"),
        ("def f():\n    import datetime", "it imports datetime"),
        ("open('x')", "it uses open"),
        ("f = open", "it uses open"),
        ("eval('1')", "it uses eval"),
        ("print(1)", "it uses print"),
        ("__file__", "it uses __file__"),
        ("__builtins__", "it uses __builtins__"),
        ("__import__('os')", "it uses __import__"),
        ("re.sys.path", "it uses sys"),
        ("from ast import sys", "it uses sys"),
        ("import contextlib as c\nc.os.environ", "it uses os"),
        ("getattr(re, 'sys')", "it uses sys"),
        ("name = 'a'\ngetattr(re, name)", "it uses getattr with a name that is not written"),
        ("g = getattr", "it uses getattr"),
        ("match re:\n    case object(sys=s): pass", "it uses sys"),
        ("().__class__.__base__", "it uses __base__"),
        ("from ast import *", "it imports all names of ast"),
        ("import libcst.tool", "it imports libcst.tool"),
        ("from libcst import tool", "it imports libcst.tool"),
        ("cst.tool.main", "it uses libcst.tool"),
        ("getattr(cst, 'tool')", "it uses libcst.tool"),
        ("from libcst.metadata import FullRepoManager", "it uses FullRepoManager"),
        ("import vpatch.source.tree", "it imports vpatch.source.tree"),
        ("from vpatch.codemods import custom", "it imports vpatch.codemods.custom"),
        ("import vpatch.codemods as v\nv.custom", "it uses vpatch.codemods.custom"),
        ("cst.Name.seen = 1", "it changes cst.Name.seen, which other code shares"),
        ("cst.Name.seen['a'] = 1", "it changes cst.Name.seen['a']"),
        ("del SiteTransformer.edit", "it changes SiteTransformer.edit"),
        ("from . import other", "it has a relative import"),
        ("import nowhere_at_all", "it imports nowhere_at_all, which cannot be found"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    import os", "it imports os"),
    ],
)
def test_what_may_read_more(tmp_path, line, what):
    found = inputs(tmp_path, CODEMOD + line + "\n")
    assert found.digest is None
    file, number, reason = found.reason.split(":", 2)
    assert file == str(tmp_path / "codemod.py")
    assert reason.strip().startswith(what), reason
    assert int(number) > len(CODEMOD.splitlines())


def test_the_first_use_is_named(tmp_path):
    found = inputs(tmp_path, "import re\nimport time\nimport os\n")
    assert found.reason == f"{tmp_path / 'codemod.py'}:2: it imports time"


def test_what_is_no_python_has_no_digest(tmp_path):
    for text in ("x = (\n", "\0", "-" * 100_000 + "1"):
        assert inputs(tmp_path, text).digest is None


def test_no_allowed_module_leads_to_another():
    """The lists are complete for this Python and this libcst."""
    known = {"_sre", "_string", "re._constants", "re._parser", "re._casefix", "re._compiler"}
    known |= {"json.scanner", "json.decoder", "json.encoder"}
    names = sorted(allowed.PURE | allowed.LIBCST)
    modules = [(name, importlib.import_module(name)) for name in names]
    seen = set()
    strange = set()
    while modules:
        name, module = modules.pop()
        if name in seen:
            continue
        seen.add(name)
        for attribute, value in vars(module).items():
            if not isinstance(value, types.ModuleType) or attribute in allowed.ATTRIBUTES:
                continue
            other = value.__name__
            # Those inside libcst are refused by their whole names.
            if other in allowed.PURE | known:
                modules.append((other, value))
            elif not other.startswith("libcst"):
                strange.add(f"{name}.{attribute}")
    assert not strange


def test_every_builtin_is_decided():
    words = (
        "abs aiter all anext any ascii bin bool bytearray bytes callable chr classmethod complex "
        "dict dir divmod enumerate filter float format frozenset hash hex id int isinstance "
        "issubclass iter len list map max memoryview min next object oct ord pow property range "
        "repr reversed round set slice sorted staticmethod str sum super tuple type zip"
    )
    harmless = set(words.split())
    constants = {"False", "None", "True", "Ellipsis", "NotImplemented", "getattr", "hasattr"}
    for name in dir(builtins):
        value = getattr(builtins, name)
        if (isinstance(value, type) and issubclass(value, BaseException)) or name == "_":
            continue
        decided = allowed.BUILTINS | harmless | constants
        assert name in decided or allowed._is_special(name) or name in allowed.SPECIAL, name
    assert not allowed.BUILTINS & harmless


def test_the_names_of_vpatch_are_all_there():
    assert set(vpatch.codemods.__all__) == allowed.OF_VPATCH


def test_the_librarys_codemods_may_be_remembered():
    codemods = [
        edit.codemod
        for folder in installed("patches").iterdir()
        if (folder / "patch.yaml").exists()
        for variant in load_patch(folder, EVERYTHING).variants
        for edit in variant.edits
        if isinstance(edit.codemod, Custom)
    ]
    assert codemods
    assert all(codemod.remembered_as for codemod in codemods)


# --- imported modules ------------------------------------------------------------------------

IMPORTING = CODEMOD.replace("import re\n", "from myhelp.values import VALUE\n").replace(
    'value="2"', "value=VALUE"
)


@pytest.fixture
def helping(packages):
    (packages / "myhelp").mkdir()
    (packages / "myhelp" / "__init__.py").write_text("")
    (packages / "myhelp" / "values.py").write_text("from .base import VALUE\n")
    (packages / "myhelp" / "base.py").write_text('VALUE = "2"\n')
    return packages / "myhelp"


def test_the_digest_follows_what_is_imported(tmp_path, helping, monkeypatch):
    digests = {inputs(tmp_path, CODEMOD).digest, inputs(tmp_path, IMPORTING).digest}
    for name in ("__init__", "values", "base"):
        file = helping / f"{name}.py"
        file.write_text(file.read_text() + "A = 1\n")
        digests.add(inputs(tmp_path, IMPORTING).digest)
    # Another one that is found first, with other code in it.
    hiding = tmp_path / "first"
    (hiding / "myhelp").mkdir(parents=True)
    (hiding / "myhelp" / "__init__.py").write_text("")
    (hiding / "myhelp" / "values.py").write_text("VALUE = '3'\n")
    monkeypatch.syspath_prepend(hiding)
    digests.add(inputs(tmp_path, IMPORTING).digest)
    digests.add(inputs(tmp_path / "elsewhere", IMPORTING).digest)
    assert len(digests) == 7
    assert None not in digests
    assert "myhelp" not in sys.modules


def test_what_is_imported_may_not_read_more_either(tmp_path, helping):
    (helping / "base.py").write_text("import re\nimport os\n")
    assert inputs(tmp_path, IMPORTING).reason == f"{helping / 'base.py'}:2: it imports os"
    (helping / "__init__.py").write_text("raise SystemExit\n")  # not executed
    (helping / "base.py").write_text("")
    assert inputs(tmp_path, IMPORTING).digest
    (helping / "base.py").unlink()
    assert "which cannot be found" in inputs(tmp_path, IMPORTING).reason


def test_a_module_that_hides_one_of_python(tmp_path, packages):
    every = "".join(f"import {name}\n" for name in sorted(allowed.PURE - {"__future__"}))
    assert inputs(tmp_path, every).reason is None
    _hiding.cache_clear()
    file = packages / "numbers.py"
    file.write_text("NEW = 1\n")
    importlib.invalidate_caches()
    found = inputs(tmp_path, "import re\nimport numbers\n")
    assert found.reason == f"{tmp_path / 'codemod.py'}:2: it imports numbers, and gets {file}"
    _hiding.cache_clear()


def test_a_module_without_a_source(tmp_path, packages):
    (packages / "myext.so").write_bytes(b"")
    assert inputs(tmp_path, "import myext\n").digest is None
    (packages / f"myext2{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert "which has no Python source" in inputs(tmp_path, "import myext2\n").reason
    (packages / "mynamespace").mkdir()
    assert "which has no Python source" in inputs(tmp_path, "import mynamespace\n").reason


STATE = """
import libcst as cst
from vpatch.codemods import SiteTransformer
{imports}
class Codemod(SiteTransformer):
    kinds = (cst.Integer,)

    def edit(self, original, updated):
        {seen}.append(1)
        if updated.value != "1":
            self.add(original, todo=False)
            return updated
        self.add(original, todo=True)
        return updated.with_changes(value=str(1 + len({seen})))
"""


@pytest.mark.parametrize(
    ("imports", "seen"),
    [("SEEN = []", "SEEN"), ("import mystate", "mystate.SEEN"), ("import mystate", "mystate.A.b")],
)
def test_nothing_is_kept_from_one_file_to_the_next(tmp_path, packages, imports, seen):
    (packages / "mystate.py").write_text("SEEN = []\nclass A:\n    b = []\n")
    kept = importlib.import_module("mystate")
    text = STATE.format(imports=imports, seen=seen)
    files = {"vllm/a.py": "f(1)\n", "vllm/b.py": "f(1)\n"}
    edit = {**EDIT, "expect": {"at-least": 2}}
    (tmp_path / "codemod.py").write_text(text)
    result = run(edit, files, tmp_path)
    assert [result.view.read(path) for path in files] == [b"f(2)\n", b"f(2)\n"]
    assert sys.modules.pop("mystate") is kept
    assert not kept.SEEN
    assert not any(type(finder).__module__.startswith("vpatch") for finder in sys.meta_path)


def test_the_bytes_of_the_digest_run(tmp_path, packages):
    """Python would take bytecode that it kept for a file of the same size and time."""
    for value in ("2", "3"):
        file = packages / "myold.py"
        file.write_text(f'VALUE = "{value}"\n')
        os.utime(file, (1, 1))
        importlib.invalidate_caches()
        text = IMPORTING.replace("myhelp.values", "myold")
        (tmp_path / "codemod.py").write_text(text.replace('== "1"', "!= VALUE"))
        assert edited(EDIT, "f(1)\n", tmp_path) == f"f({value})\n"
        if value == "2":
            py_compile.compile(str(file))
    assert importlib.import_module("myold").VALUE == "2"
    sys.modules.pop("myold")


def test_code_that_is_not_trusted_is_not_remembered(tmp_path):
    patch = patch_of(tmp_path, edits=[EDIT], files={"codemod.py": CODEMOD})
    for trust, remembered in ((NOTHING, False), (EVERYTHING, True)):
        codemod = load_patch(patch.folder, trust).variants[0].edits[0].codemod
        assert (codemod.remembered_as is not None) is remembered
        assert (codemod.refusal is None) is remembered


def test_where_it_lies_is_a_part(tmp_path):
    assert inputs(tmp_path / "a", CODEMOD).digest != inputs(tmp_path / "b", CODEMOD).digest
