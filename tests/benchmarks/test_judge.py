"""The judge of benchmarks/import.py: what a tool made of a release, and what the release is."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from tests.helpers import tree_of

FOLDER = Path(__file__).parents[2] / "benchmarks"
PATH = "vllm/worker.py"
MOVED = "vllm/new/worker.py"
BEFORE = """\
import os


def f(x):
    y = os.path.join(x)
    return y


def g(x):
    return x
"""
AFTER = BEFORE.replace("    return y\n", "    log(y)\n    return y\n")
# What neither release of the origin has.
OTHER = BEFORE.replace("join(x)", "join(x, x)")
OTHER_AFTER = AFTER.replace("join(x)", "join(x, x)")
HEAD = "from vllm import log\n"


@pytest.fixture(scope="module")
def imports():
    known = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield {name: importlib.import_module(f"imports.{name}") for name in ("judge", "places")}
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - known:
        if name.partition(".")[0] == "imports":
            del sys.modules[name]


def files(text, path=PATH):
    return {path: (HEAD + text).encode()}


CASES = {
    "as at the origin": (BEFORE, AFTER, "right"),
    "in another definition of the name": (OTHER, OTHER_AFTER, "right"),
    "in another layout": (BEFORE, AFTER.replace("    log(y)", "    log(\n        y)"), "right"),
    "the release has it": (AFTER, AFTER, "nothing"),
    "the release has it beside other code": (OTHER_AFTER, OTHER_AFTER, "nothing"),
    "nothing is done": (BEFORE, BEFORE, "nothing"),
    "twice": (AFTER, AFTER.replace("    return y\n", "    log(y)\n    return y\n"), "wrong"),
    "in another place": (OTHER, OTHER.replace("    y =", "    log(y)\n    y ="), "wrong"),
    "in another function": (
        BEFORE,
        BEFORE.replace("    return x", "    log(y)\n    return x"),
        "wrong",
    ),
    "with other code": (OTHER, OTHER_AFTER.replace("log(y)", "log(x)"), "wrong"),
    "in half of the definition": (OTHER, AFTER, "wrong"),
    "no Python": (BEFORE, "def f(:\n", "wrong"),
    "with a conflict": (BEFORE, AFTER.replace("    log", "<<<<<<< ours\n    log"), "wrong"),
    "with a further import": (BEFORE, "import re\n" + AFTER, "wrong"),
}


@pytest.mark.parametrize("name", CASES)
def test_the_judge_goes_by_what_changes_in_each_definition(imports, name):
    target, made, verdict = CASES[name]
    judged = imports["judge"].judged
    assert judged(files(BEFORE), files(AFTER), files(target), files(made)) == verdict


def test_a_name_that_nothing_defines_is_wrong(imports):
    """The other release calls the function otherwise, which the change uses."""
    helper = "\n\ndef helper():\n    return 1\n\n\n"
    old, new = (f"{HEAD}{helper}value = {value}\n" for value in ("1", "helper()"))
    other, made = (text.replace("def helper", "def aid") for text in (old, new))
    sides = [{PATH: text.encode()} for text in (old, new, other, made)]
    assert imports["judge"].judged(*sides) == "wrong"
    assert imports["judge"].judged(*sides[:2], *sides[:2]) == "right"


def test_a_definition_may_have_moved_to_another_file(imports):
    judged = imports["judge"].judged
    target, made = files(OTHER, MOVED), files(OTHER_AFTER, MOVED)
    assert judged(files(BEFORE), files(AFTER), target, made) == "right"
    wrong = files(OTHER.replace("    return x", "    log(x)\n    return x"), MOVED)
    assert judged(files(BEFORE), files(AFTER), target, wrong) == "wrong"


def test_imports_move_with_the_definitions_of_their_file(imports):
    judged = imports["judge"].judged
    before, after = ({PATH: text.encode()} for text in (BEFORE, HEAD + AFTER))
    target, made = ({MOVED: text.encode()} for text in (OTHER, HEAD + OTHER_AFTER))
    assert judged(before, after, target, made) == "right"
    lacking = {MOVED: f"log = print\n{OTHER_AFTER}".encode()}
    assert judged(before, after, target, lacking) == "wrong"


@pytest.mark.parametrize(
    ("path", "text", "situation"),
    [
        (PATH, BEFORE, "open"),
        (PATH, OTHER, "open"),
        (MOVED, OTHER, "open"),
        (PATH, AFTER, "present"),
        (PATH, OTHER_AFTER, "present"),
        (PATH, BEFORE.replace("def f", "def k"), "gone"),
        # A part of the change is there, and a part is not.
        (
            PATH,
            BEFORE.replace("return y", "return 2 * y").replace("    y =", "    log(y)\n    y ="),
            "present",
        ),
    ],
)
def test_a_release_is_what_its_definitions_are(imports, path, text, situation):
    places = imports["places"].Places(tree_of({path: HEAD + text}))
    assert places.situation(files(BEFORE), files(AFTER)) == situation


def test_a_release_with_half_of_a_change_is_unclear(imports):
    after = AFTER.replace("join(x)", "join(x, y)")
    places = imports["places"].Places(tree_of({PATH: HEAD + AFTER}))
    assert places.situation(files(BEFORE), files(after)) == "unclear"


def test_an_import_of_the_origin_may_come_for_the_new_code(imports):
    """The origin has it already, and without it the code would not run."""
    judged = imports["judge"].judged
    target = {PATH: BEFORE.encode()}
    for code, verdict in ((HEAD + AFTER, "right"), (AFTER, "wrong")):
        assert judged(files(BEFORE), files(AFTER), target, {PATH: code.encode()}) == verdict
    other = {PATH: ("from vllm import log, more\n" + AFTER).encode()}
    assert judged(files(BEFORE), files(AFTER), target, other) == "wrong"
    unused = files(BEFORE), files(BEFORE.replace("return y", "return x"))
    made = {PATH: (HEAD + BEFORE.replace("return y", "return x")).encode()}
    assert judged(*unused, target, made) == "wrong"


def test_a_docstring_is_no_code(imports):
    before = {PATH: b"def f(x):\n    return x\n"}
    after = {PATH: b'def f(x):\n    """Say more."""\n    return x + 1\n'}
    code_alone = {PATH: b"def f(x):\n    return x + 1\n"}
    judge = imports["judge"]
    assert judge.judged(before, after, before, code_alone) == "right"
    assert judge.judged(before, after, before, after) == "right"
