"""What an import proposes as `concerns` and `effect`: names that lead to one place."""

from __future__ import annotations

import json

import pytest

from tests.helpers import tree_of
from vpatch.changes.change import FileChange, Message, SourceChange
from vpatch.commands.importing.draft import draft
from vpatch.commands.importing.whole_statements import whole_statements
from vpatch.declare.edits import Predicate
from vpatch.planning.editing import probe
from vpatch.planning.view import View

PATH = "vllm/m.py"
GLOB = "*/m.py"
CODE = """\
import os

LIMIT = 4


def load(x):
    y = g(x)
    return y


class Layer(Base):
    size = 4
    name: str

    def load_the_weights(self, x):
        y = h(x)
        return y

    async def forward(self, x):
        return k(x)
"""
# Classes of other files that have the same methods.
OTHERS = {f"vllm/other{n}.py": CODE.replace("Layer", f"Layer{n}") for n in range(3)}
ALONE = {
    "vllm/other.py": "class LayerNorm:\n    def forward(self, x):\n        return load_all(x)\n"
}


def drafted(after, before=CODE, others=ALONE, path=PATH):
    change = FileChange(path, before.encode(), after.encode())
    changes = SourceChange("fix", "fix.diff", Message(), (change,))
    return draft(changes, tree_of({path: before, **others}))


def changed(old, new, **options):
    assert CODE.count(old) == 1
    return drafted(CODE.replace(old, new), **options)


LAYER = {"find": "class Layer: ..."}


@pytest.mark.parametrize(
    ("old", "new", "alone", "beside"),
    [
        ("g(x)", "g(x, 1)", {"find": "def load(...): ..."},
         {"find": "def load(...): ...", "files": GLOB}),
        ("LIMIT = 4", "LIMIT = 5", {"find": "LIMIT = $_"}, {"find": "LIMIT = $_", "files": GLOB}),
        # A name of several words finds the method in a class of another name, too.
        ("h(x)", "h(x, 1)", {"find": "def load_the_weights(...): ..."},
         {"find": "def load_the_weights(...): ...", "within": "Layer"}),
        ("k(x)", "k(x, 1)", {"find": "def forward(...): ...", "within": "Layer"},
         {"find": "def forward(...): ...", "within": "Layer"}),
        ("size = 4", "size = 5", {"find": "size = $_", "within": "Layer"},
         {"find": "size = $_", "within": "Layer"}),
        ("    name: str\n", "    name: str\n    more: int\n", LAYER, LAYER),
        ("(Base)", "(Base, More)", LAYER, LAYER),
        # Beside a definition, and with an import: a name that the file alone has, if it has one.
        ("\n\nclass", "\n\ndef more(x):\n    return x\n\n\nclass",
         {"find": "def load(...): ..."}, LAYER),
        ("import os", "import os\nimport re", {"find": "def load(...): ..."}, LAYER),
    ],
)  # fmt: skip
def test_concerns_are_names_of_one_file_or_within_a_class(old, new, alone, beside):
    assert changed(old, new).concerns == alone
    assert changed(old, new, others=OTHERS).concerns == beside


def test_a_class_that_several_files_have_is_limited_to_one():
    """A release in which one file of another name has it has the code as well."""
    others = {"vllm/other.py": CODE}
    concerns = changed("k(x)", "k(x, 1)", others=others).concerns
    layer = {"find": "def forward(...): ...", "within": "Layer"}
    assert concerns["any"][0] == {**layer, "files": GLOB}
    assert not holds(concerns, others)
    assert holds(concerns, {"vllm/both.py": CODE})
    many = {f"vllm/other{number}.py": CODE for number in range(5)}
    assert changed("k(x)", "k(x, 1)", others=many).concerns == {**layer, "files": GLOB}


def test_several_places_concern_any_of_their_definitions():
    after = CODE.replace("g(x)", "g(x, 1)").replace("h(x)", "h(x, 1)")
    assert drafted(after).concerns == {
        "any": [{"find": "def load(...): ..."}, {"find": "def load_the_weights(...): ..."}]
    }


def test_a_definition_that_goes_concerns_what_stays():
    after = CODE.replace("    async def forward(self, x):\n        return k(x)\n", "    x = 1\n")
    assert drafted(after).concerns == LAYER


def holds(declared, files):
    predicate = Predicate.model_validate_json(json.dumps(declared))
    return probe(predicate, View(tree_of(files))).holds


@pytest.mark.parametrize(("old", "new"), [("g(x)", "g(x, 1)"), ("k(x)", "k(x, 1)")])
def test_a_tree_without_the_code_is_not_concerned(old, new):
    """Its other files have words that begin like the name, and methods of the same name."""
    concerns = changed(old, new, others=OTHERS).concerns
    assert holds(concerns, {PATH: CODE, **OTHERS})
    assert not holds(concerns, OTHERS)
    assert not holds(concerns, {**OTHERS, **ALONE})


@pytest.mark.parametrize(
    ("path", "before", "after", "concerns"),
    [
        ("tools/x.txt", "a = 1\nmore\n", "b = 2\nmore\n", {"text": "more", "files": "tools/x.txt"}),
        ("csrc/x.cu", "int a = f(\n  1);\nvoid g();\n", "int a = f(\n  2);\nvoid g();\n",
         {"text": "void g();", "files": "*/x.cu"}),
        # Only a line that is a whole statement.
        ("vllm/__init__.py", "from a import (\n    very_long_name_of_a_thing,\n)\nimport os\n",
         "from a import (\n    very_long_name_of_a_thing,\n    other,\n)\nimport os\n",
         {"text": "import os", "files": "vllm/__init__.py"}),
    ],
)  # fmt: skip
def test_a_file_without_definitions_concerns_a_line(path, before, after, concerns):
    made = drafted(after, before, path=path)
    assert made.concerns == concerns


def test_all_of_a_module_tells_nothing():
    code = '__all__ = ["f"]\n\n\ndef f(x):\n    return x\n'
    made = drafted(code.replace('["f"]', '["f", "g"]') + "\n\ndef g(x):\n    return x\n", code)
    assert made.concerns == {"find": "def f(...): ..."}


@pytest.mark.parametrize("statement", ['TABLE["a"] = 1', "first, second = load()", "x.limit = 2"])
def test_an_assignment_without_a_name_of_its_own_is_a_line(statement):
    made = drafted(f"import os\n{statement}\n", f"{statement}\n")
    assert made.concerns == {"text": statement, "files": GLOB}


def test_a_file_of_which_nothing_stays_concerns_its_neighbours():
    made = drafted("import re\n", "import os\n", path="vllm/__init__.py")
    assert made.concerns == {"find": "class LayerNorm: ..."}


def test_an_effect_in_a_class_that_others_have_names_its_file():
    after = CODE.replace("k(x)", "k(x, a=1)")
    assert drafted(after).effect == {"find": "k(..., a=1)", "within": "Layer.forward"}
    effect = {"find": "k(..., a=1)", "within": "Layer.forward", "files": GLOB}
    edited = drafted(after, others={"vllm/other.py": "class Layer:\n    pass\n"})
    assert edited.effect == effect


def test_the_effect_of_a_try_is_what_it_tries():
    """Its head alone is no statement."""
    guard = "    try:\n        log(x)\n    except ValueError:\n        pass\n"
    effect = changed("    y = g(x)\n", f"{guard}    y = g(x)\n").effect
    assert effect == {"find": "log(x)", "within": "load"}
    guard = guard.replace("log(x)", "import z")
    assert changed("    y = g(x)\n", f"{guard}    y = g(x)\n").effect is None


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ('    mode="fast",\n', '    mode="slow",\n', 'a = f(\n    mode="slow",\n    more=1,\n)\n'),
        ("    if x:\n", "    if x and y:\n", "    if x and y:\n        b = 1\n"),
        ("    else:\n", "    else:  # more\n",
         "    if x:\n        b = 1\n    else:  # more\n        b = 2\n"),
        ("        b = 2\n", "        b = 3\n", "        b = 3\n"),
        ("    return b\n", "    return b\n\n\nc = 1\n", "c = 1\n"),
    ],
)  # fmt: skip
def test_a_text_is_made_of_whole_statements(old, new, text):
    before = (
        'a = f(\n    mode="fast",\n    more=1,\n)\n\n\ndef g(x):\n'
        "    if x:\n        b = 1\n    else:\n        b = 2\n    return b\n"
    )
    assert before.count(old) == 1
    after = before.replace(old, new)
    at = after.index(new) + (len(old) if new.startswith(old) else 0)
    first, last = after.count("\n", 0, at), after.count("\n", 0, after.index(new) + len(new))
    assert whole_statements(after, first, last, python=True).lstrip("\n") == text


def test_a_text_that_would_be_long_is_none():
    code = "x = [\n" + 40 * "    1,\n" + "]\n"
    assert whole_statements(code, 3, 4, python=True) is None
    assert whole_statements(code, 3, 4, python=False) == "    1,\n"


def test_a_class_that_only_the_changed_files_have_is_sought_in_all_files():
    """Another release may have them at other places."""
    files = {f"vllm/{name}/m.py": CODE for name in ("a", "b")}
    changes = [
        FileChange(path, text.encode(), text.replace("k(x)", "k(x, 1)").encode())
        for path, text in files.items()
    ]
    tree = tree_of({**files, **ALONE})
    one = draft(SourceChange("fix", "fix.diff", Message(), tuple(changes)), tree)
    assert one.concerns == {"find": "def forward(...): ...", "within": "Layer"}
