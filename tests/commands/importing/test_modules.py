"""What a module assigns to parts of vLLM becomes their code."""

from __future__ import annotations

import pytest

from tests.helpers import fails, tree_of
from vpatch.changes.stack import Stack
from vpatch.commands.importing.sources.module import from_module

FILES = {
    "vllm/__init__.py": "",
    "vllm/engine/__init__.py": "from .core import Core as Engine\nfrom vllm.tools import helper\n",
    "vllm/engine/core.py": '''\
import os

from vllm.tools import helper

LIMIT = 10  # of requests


@decorated
def start(config):
    return 1


class Core:
    @property
    def size(self):
        return 1

    async def run(self, x):
        """Run."""
        return helper(x)


def last():
    pass
''',
    "vllm/tools.py": "def helper(x):\n    return x\n",
}


@pytest.fixture
def patched(tmp_path):
    def read(text):
        module = tmp_path / "my_patch.py"
        module.write_text(text)
        (change,) = from_module(module, Stack(tree_of(FILES)))
        return {file.path: file.after.decode() for file in change.files}

    return read


def replaced(old, new, path="vllm/engine/core.py"):
    assert FILES[path].count(old) == 1
    return {path: FILES[path].replace(old, new)}


@pytest.mark.parametrize(
    "assigns",
    [
        "from vllm.engine.core import Core\nCore.size = mine",
        "from vllm.engine import core\ncore.Core.size = mine",
        "import vllm.engine.core as core\ncore.Core.size = mine",
        "import vllm.engine.core\nvllm.engine.core.Core.size = mine",
        # Handed on by the package.
        "from vllm.engine import Engine\nEngine.size = mine",
        "def apply():\n    from vllm.engine.core import Core\n    Core.size = mine",
    ],
)
def test_a_method_gets_a_body(patched, assigns):
    found = patched(f"def mine(self):\n    # more\n    return 2\n\n\n{assigns}\n")
    old = "    def size(self):\n        return 1\n"
    assert found == replaced(old, "    def size(self):\n        # more\n        return 2\n")


def test_a_function_gets_a_body_and_keeps_its_decorators(patched):
    text = "from vllm.engine import core\ndef mine(config):\n    return 2\ncore.start = mine\n"
    new = "def start(config):\n    return 2\n"
    assert patched(text) == replaced("def start(config):\n    return 1\n", new)


def test_a_new_method_comes_last(patched):
    text = "from vllm.engine import Engine\ndef stop(self):\n    return 2\nEngine.stop = stop\n"
    old = "        return helper(x)\n"
    assert patched(text) == replaced(old, f"{old}\n    def stop(self):\n        return 2\n")


def test_a_docstring_may_be_indented(patched):
    text = (
        "from vllm.engine import Engine\n"
        'async def run(self, x):\n    """Run.\n\n    More.\n    """\n    return 2\n'
        "Engine.run = run\n"
    )
    (found,) = patched(text).values()
    assert '"""Run.\n\n        More.\n        """\n        return 2\n' in found


def test_what_a_function_uses_is_imported(patched):
    text = (
        "import json\nfrom collections import Counter as C\nimport os\n"
        "from vllm.tools import helper\nfrom vllm.engine import core\n"
        "def mine(config, C2=C):\n    return json.dumps(helper(os.getcwd(), len(C2())))\n"
        "core.start = mine\n"
    )
    (found,) = patched(text).values()
    new = "from vllm.tools import helper\nfrom collections import Counter as C\nimport json\n\n"
    assert found.startswith(f"import os\n\n{new}")


def test_a_constant_gets_a_value(patched):
    text = "from vllm.engine import core\ncore.LIMIT = 20\n"
    assert patched(text) == replaced("LIMIT = 10  # of", "LIMIT = 20  # of")


def test_several_assignments_of_one_file(patched):
    text = (
        "from vllm.engine import core\ndef mine(*args):\n    return 2\n"
        "core.start = mine\ncore.Core.size = mine\ncore.LIMIT = 3\n"
    )
    (found,) = patched(text).values()
    assert found.count("return 2") == 2
    assert "LIMIT = 3" in found


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("core.nothing = mine", "the release has no vllm.engine.core.nothing|is no function"),
        ("core.Nobody.size = mine", "the release has no vllm.engine.core.Nobody"),
        ("core.start = wrap(core.start)", "gets no function of this module"),
        ("core.LIMIT = len('a')", "gets a value that is computed"),
        ("core.LIMIT = mine", "is no function in the release"),
        ("def other():\n    pass\ndef mine2(c):\n    other()\ncore.start = mine2",
         "mine2 uses other of this module"),
        ("from my.tools import helper\ndef mine2(c):\n    return helper(c)\ncore.start = mine2",
         "mine2 uses helper, another thing in vllm/engine/core.py"),
        ("@cached\ndef mine2(c):\n    return 1\ncore.start = mine2", "mine2 has decorators"),
        ('def mine2(c):\n    return """a\n  b"""\ncore.Core.size = mine2', "several lines"),
        ("print(core)", "assigns nothing to a class or a module of vLLM"),
        ("def (", "it is not Python that can be read"),
    ],
)  # fmt: skip
def test_what_is_not_easy_is_an_error(patched, text, said):
    with fails("importing.other-assignment", said):
        patched(f"from vllm.engine import core\ndef mine(config):\n    return 2\n{text}\n")
