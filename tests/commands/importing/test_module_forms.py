"""A plugin that patches at run time, and the patch of it: both worlds give the same."""

from __future__ import annotations

import importlib
import sys

import pytest

from tests.helpers import fails, tree_of
from tests.projects import write_tree
from vpatch.changes.stack import Stack
from vpatch.commands.importing.sources.module import from_module

CORE = '''\
"""The core."""
from __future__ import annotations

import os
from enum import Enum
from dataclasses import dataclass

from tinyv.tools import helper, logger_of

logger = logger_of(__name__)
LIMIT = 10  # of requests


def start(config, more=0):
    return ["start", config, more]


class Base:
    limit: int = 4
    name = "base"

    def inherited(self):
        return "inherited"


class Core(Base):
    supports = False

    def __init__(self, x=1):
        self.x = x

    @property
    def size(self):
        return 1

    @staticmethod
    def fixed(x):
        return ["fixed", x]

    @classmethod
    def made(cls, x):
        return [cls.__name__, x]

    def run(self, x):
        """Run."""
        return [helper(x), self.x, os.sep]


@dataclass
class Fields:
    count: int = 1


class Kinds(Enum):
    ONE = 1
'''
FILES = {
    "tinyv/__init__.py": "",
    "tinyv/core.py": CORE,
    "tinyv/tools.py": "def helper(x):\n    return x\n\n\ndef logger_of(name):\n    return 'log'\n",
    "PKG-INFO": "Name: tinyv\n",
}
PLUGIN = {
    "plug/__init__.py": "",
    "plug/impl.py": "import os\n\n\ndef fast(self, x):\n    return ['fast', x, os.sep]\n",
    "plug/again.py": "from plug.impl import fast\n",
}
HEAD = "from tinyv import core\nfrom tinyv.core import Core\n"
MINE = "def mine(self, x):\n    return ['mine', x]\n"
WRAPPED = "def mine(self, x):\n    return ['wrapped', *orig(self, x)]\n"


@pytest.fixture
def plugin(tmp_path):
    def write(text):
        write_tree(tmp_path / "site", {path: code.encode() for path, code in PLUGIN.items()})
        module = tmp_path / "site/plug/patches.py"
        module.write_text(HEAD + text)
        return module

    return write


def read(module, only=()):
    (change,) = from_module(module, Stack(tree_of(FILES, name="tinyv")), only)
    return change


@pytest.fixture
def world(tmp_path, monkeypatch):
    """Evaluates an expression on a tree, with the plugin's module or without."""

    def evaluate(files, expression, *modules):
        for name in [n for n in sys.modules if n.partition(".")[0] in {"tinyv", "plug"}]:
            del sys.modules[name]
        folder = tmp_path / f"world{len(list(tmp_path.iterdir()))}"
        write_tree(folder, {path: text.encode() for path, text in files.items()})
        with monkeypatch.context() as patched:
            patched.setattr(sys, "path", [str(folder), str(tmp_path / "site"), *sys.path])
            patched.setattr(sys, "dont_write_bytecode", True)
            importlib.invalidate_caches()
            core = importlib.import_module("tinyv.core")
            for module in modules:
                plugin = importlib.import_module(module)
                if hasattr(plugin, "register"):
                    plugin.register()
            found = eval(expression, vars(core))  # noqa: S307
        for name in [n for n in sys.modules if n.partition(".")[0] in {"tinyv", "plug"}]:
            del sys.modules[name]
        return found

    return evaluate


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("Core.supports = True", "Core.supports"),
        ("Core.more = 5", "Core().more"),
        ("NEW = -3\nCore.supports = NEW", "Core.supports"),
        ("setattr(core, 'LIMIT', 20)", "LIMIT"),
        (f"{MINE}setattr(Core, 'run', mine)", "Core().run(1)"),
        (f"{MINE}import sys\nsys.modules['tinyv.core'].Core.run = mine", "Core().run(1)"),
        (f"{MINE}import importlib\nm = importlib.import_module('tinyv.core')\nm.Core.run = mine",
         "Core().run(1)"),
        (f"{MINE}cls = core.Core\ncls.run = mine", "Core().run(1)"),
        # Wrappers call what was there.
        (f"orig = Core.run\n{WRAPPED}Core.run = mine", "Core().run(1)"),
        ("orig = core.start\ndef mine(c, **k):\n    return ['w', orig(c, **k)]\ncore.start = mine",
         "start(1, more=2)"),
        (("orig = Core.__init__\ndef mine(self, *a):\n    orig(self, *a)\n    self.x += 1\n"
         "Core.__init__ = mine"), "Core(3).x"),
        ("import functools\norig = Core.run\n@functools.wraps(orig)\n" + WRAPPED
         + "Core.run = mine", "Core().run(1)"),
        (("orig = Core.fixed\ndef mine(x):\n    return ['w', orig(x)]\n"
         "Core.fixed = staticmethod(mine)"), "[Core.fixed(1), Core().fixed(2)]"),
        (("orig = Core.made\ndef mine(cls, x):\n    return ['w', orig(x)]\n"
         "Core.made = classmethod(mine)"), "[Core.made(1), Core().made(2)]"),
        (("orig = Core.size\ndef mine(self):\n    return orig.fget(self) + 1\n"
         "Core.size = property(mine)"), "Core().size"),
        ("orig = getattr(Core, 'run')\n" + WRAPPED + "setattr(Core, 'run', mine)",
         "Core().run(1)"),
        # Lambdas.
        ("Core.run = lambda self, x, y=2: [x,\n    y]", "Core().run(1)"),
        ("core.start = lambda *c, **k: (c, k)", "start(1, a=2)"),
        ("orig = Core.run\nCore.run = lambda self, x: ['w', orig(self, x)]", "Core().run(1)"),
        # Kinds of methods.
        ("Core.size = property(lambda self: 7)", "Core().size"),
        ("def mine(x):\n    return x\nCore.fixed = mine", "Core.fixed(1)"),
        ("@staticmethod\ndef mine(x):\n    return x\nCore.fixed = mine", "Core().fixed(1)"),
        ("@classmethod\ndef mine(cls, x):\n    return [cls.__name__]\nCore.run = mine",
         "Core().run(1)"),
        ("def mine(self):\n    return 'own'\nCore.inherited = mine",
         "[Core().inherited(), Base().inherited()]"),
        # Functions of other modules of the plugin.
        ("from .impl import fast\nCore.run = fast", "Core().run(1)"),
        ("from plug.impl import fast as quick\nCore.run = quick", "Core().run(1)"),
        ("from plug.again import fast\nCore.run = fast", "Core().run(1)"),
        # Names that both modules have.
        (("from tinyv.tools import helper\ndef mine(self, x):\n    return helper(x)\n"
         "Core.run = mine"), "Core().run(1)"),
        (("from tinyv.core import helper\ndef mine(self, x):\n    return helper(x)\n"
         "Core.run = mine"), "Core().run(1)"),
        (("from tinyv.tools import logger_of\nlogger = logger_of(__name__)\n"
         "def mine(self, x):\n    return logger\nCore.run = mine"), "Core().run(1)"),
        ("import json\ndef mine(self, x):\n    json = 1\n    return json\nCore.run = mine",
         "Core().run(1)"),
        # In functions, on a condition.
        (f"def register():\n    def mine(self, x):\n        pass\n    Core.run = mine\n{MINE}",
         "Core().run(1)"),
        (("def register():\n    orig = Core.run\n    def mine(self, x):\n"
         "        return ['in', *orig(self, x)]\n    Core.run = mine"), "Core().run(1)"),
        (f"{MINE}if hasattr(Core, 'run'):\n    Core.run = mine", "Core().run(1)"),
        (f"{MINE}try:\n    Core.run = mine\nexcept AttributeError:\n    pass", "Core().run(1)"),
    ],
)  # fmt: skip
def test_the_patch_does_as_the_module_does(plugin, world, text, expression):
    module = plugin(text)
    patched = FILES | {file.path: file.after.decode() for file in read(module).files}
    assert world(patched, expression) == world(FILES, expression, "plug.patches")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("class Mine:\n    pass\ncore.Core = Mine", "core.Core gets no function of this module"),
        (f"{MINE}core.Core = mine", "is no function in the release"),
        ("core.Fields.count = 2", "tinyv.core.Fields.count is a field"),
        ("core.Kinds.ONE = 2", "tinyv.core.Kinds.ONE is a field"),
        ("Core.limit += 1", "Core.limit is changed in its place"),
        ("del Core.run", "Core.run is deleted"),
        (f"{MINE}Core.run, Core.size = mine, mine", "Core.run is not assigned by itself"),
        ("core.DATA['a'] = 1", "core.DATA is not assigned by itself"),
        (f"{MINE}for name in ['run']:\n    setattr(Core, name, mine)", "a name that is computed"),
        (f"{MINE}for one in (Core, core.Base):\n    one.run = mine", "is assigned in a loop"),
        ("from unittest.mock import patch\npatch('tinyv.core.start', 1).start()",
         "tinyv.core.start is replaced by patch"),
        ("from unittest import mock\nmock.patch.object(Core, 'run').start()",
         "Core is replaced by patch.object"),
        (f"{MINE}Core.run = mine\nCore.run = mine", "Core.run is assigned several times"),
        (f"{MINE}{MINE}Core.run = mine", "mine is defined several times"),
        ("def helper(x):\n    return 2\ndef mine(self, x):\n    return helper(x)\nCore.run = mine",
         "mine uses helper of this module"),
        (("import logging\nlogger = logging.getLogger()\ndef mine(self, x):\n    return logger\n"
         "Core.run = mine"), "mine uses logger of this module"),
        ("from os import path as helper\ndef mine(self, x):\n    return helper\nCore.run = mine",
         "mine uses helper, another thing in tinyv/core.py"),
        ("from .impl import fast\ndef mine(self, x):\n    return fast(self, x)\nCore.run = mine",
         "mine uses fast of this module"),
        ("def register(n=4):\n    def mine(self, x):\n        return n\n    Core.run = mine",
         "mine uses n of this module"),
        ("def mine(self, x):\n    global N\n    N = 1\nCore.run = mine", "changes a variable"),
        ("def mine(self, x):\n    return self.__x\nCore.run = mine", "mine uses __x"),
        ("import torch\n@torch.no_grad()\ndef mine(self, x):\n    return 1\nCore.run = mine",
         r"mine has decorators \(@torch.no_grad\(\)\)"),
        (f"orig = core.start\n{WRAPPED}Core.run = mine", "uses orig of this module, which is"),
        (f"{WRAPPED}Core.run = mine\norig = Core.run", "orig, which need not be the original"),
        ("orig = Core.inherited\ndef mine(self):\n    return orig(self)\nCore.inherited = mine",
         "Core.inherited of this module|uses orig of this module|is not defined in"),
        ("import functools\nCore.run = functools.partial(core.start, 1)", "gets no function"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_refused_by_its_name(plugin, text, said):
    with fails("importing.other-assignment", said):
        read(plugin(text))


def test_one_good_assignment_is_chosen_among_bad_ones(plugin):
    text = f"{MINE}Core.run = mine\ncore.LIMIT = len('abc')\ndel core.start\nCore.supports = True\n"
    change = read(plugin(text), only=["Core.run", "supports"])
    (file,) = change.files
    assert b"['mine', x]" in file.after
    assert b"supports = True" in file.after
    left = [note for note in change.notes if "--only" in note]
    assert [note.partition(" is left out")[0] for note in left] == [
        "line 6: tinyv.core.LIMIT",
        "line 7: tinyv.core.start",
    ]


def test_a_name_that_the_module_does_not_assign_is_wrong_use(plugin):
    with fails("cli.bad-value", "--only names Core.stop"):
        read(plugin(f"{MINE}Core.run = mine\n"), only=["Core.stop"])


@pytest.mark.parametrize(
    ("text", "note"),
    [
        (f"{MINE}if core.LIMIT:\n    Core.run = mine", "Core.run is assigned on a condition"),
        ("def mine(self):\n    return 2\nCore.size = mine", "Core.size keeps its decorators"),
        ("def mine(x):\n    return 2\nCore.fixed = mine", "fixed has no @staticmethod any"),
        ("from plug.more import fast\ndef mine(self, x):\n    return fast(x)\nCore.run = mine",
         "the patched tree imports plug.more.fast"),
        (f"{MINE}Core.run = mine\ncore.DATA.append('a')", "line 6: the call of tinyv.core.DATA"),
        (f"{MINE}Core.run = mine\nimport json\njson.dumps = mine",
         "line 7: json.dumps is of another package, and left out"),
    ],
)  # fmt: skip
def test_what_a_patch_does_otherwise_is_a_note(plugin, text, note):
    assert any(note in one for one in read(plugin(text)).notes)
