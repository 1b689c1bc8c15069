"""Proofs with a vLLM of three files: what is counted as one, and what is not."""

from __future__ import annotations

import sys

import pytest

from tests.helpers import fails
from tests.projects import NAME_PROJ, folder_plan, write_patch, write_tree
from vpatch.declare.patch import Proof
from vpatch.engine.environment import Engine
from vpatch.harness.behaviour import ProofPlans, run_behaviour_test
from vpatch.library.loading import load_patch
from vpatch.trust.decision import EVERYTHING
from vpatch.util import matching

pytestmark = pytest.mark.slow

LLAMA = """
class Linear:
    def __init__(self, *sizes, prefix=""):
        self.prefix = prefix


class Llama:
    def __init__(self, prefix):
        self.proj = Linear(4, 4)  # narrow
        self.head = Linear(4, 8)
"""
FILES = {
    "vllm/__init__.py": b"",
    "vllm/version.py": b"",
    "vllm/models/__init__.py": b"",
    "vllm/models/llama.py": LLAMA.encode(),
}
PLUGIN = {
    "vllm_plugin/__init__.py": b"",
    "vllm_plugin/version.py": b"",
    "vllm_plugin/copy.py": LLAMA.encode(),
}
TEST = """
import pytest
from vllm.models.llama import Llama

def test_prefix():
    assert Llama("layer").proj.prefix == "layer.proj"

def test_head():
    assert Llama("layer").head.prefix == ""
"""
DECLARED = {"test_prefix": "AssertionError: assert '' == 'layer.proj'"}


@pytest.fixture
def tree(tmp_path):
    return write_tree(tmp_path / "tree", FILES)


def behaviour(
    tmp_path, tree, test=TEST, declared=DECLARED, more=None, installed=None, packages=None, **keys
):
    folder = write_patch(tmp_path, "name-proj", NAME_PROJ)
    (folder / "test_it.py").write_text(test)
    proof = Proof.model_validate(
        {"test": "test_it.py", "engine": "cpu", "vllm": "0.50.0", "fails-before": declared} | keys
    )
    patch = load_patch(folder, EVERYTHING)
    engine = Engine(sys.executable, (installed or tree) / "vllm", "cpu", "0.50.0")
    before, after = folder_plan(tree, [], tmp_path), folder_plan(tree, [patch], tmp_path)
    references = {"UPSTREAM": tmp_path / "reference"}
    plans = ProofPlans(before, after, more or (), references)
    return run_behaviour_test(patch.folder, proof, engine, plans.trees(packages))


def outcomes(run):
    return {test.name: test.outcome for test in run.tests}


def test_a_proof_that_holds(tmp_path, tree):
    found = behaviour(tmp_path, tree)
    assert found.problems == ()
    assert outcomes(found.pristine) == {"test_prefix": "failed", "test_head": "passed"}
    assert outcomes(found.patched) == {"test_prefix": "passed", "test_head": "passed"}
    assert found.pristine.tests[0].message.startswith(DECLARED["test_prefix"])


def test_packages_beside_the_engine(tmp_path, tree):
    packages = write_tree(tmp_path / "beside", {"further.py": b"", "vllm.py": b"1 / 0"})
    found = behaviour(tmp_path, tree, f"import further\n{TEST}", packages=packages)
    assert found.problems == ()


@pytest.mark.parametrize("name", ["triton", "triton>=3", "triton==3.*", "triton==3.6,!=3.5", "=="])
def test_packages_are_pinned(name):
    with pytest.raises(ValueError, match=r"exact version|not a requirement"):
        Proof.model_validate(
            {"test": "t.py", "engine": "cpu", "vllm": "1", "fails-before": DECLARED}
            | {"packages": (name,)}
        )


def test_the_installed_package_is_left_alone(tmp_path, tree):
    behaviour(tmp_path, tree)
    assert (tree / "vllm/models/llama.py").read_bytes() == FILES["vllm/models/llama.py"]
    assert not list(tree.rglob("*.pyc"))


PARAMETERS = """
import pytest
from vllm.models.llama import Llama

@pytest.mark.parametrize('name', ['layer', 'x'])
def test_prefix(name):
    assert Llama("layer").proj.prefix == name + ".proj"
"""


@pytest.mark.parametrize(
    ("test", "declared", "problem"),
    [
        (TEST, DECLARED | {"test_none": "x"}, "names test_none, and there is no such test"),
        (TEST, DECLARED | {"test_head": "x"}, "test_head passed on the pristine tree, and must"),
        (TEST, {"test_head": "x"}, "test_prefix failed on the pristine tree, undeclared: Asser"),
        # The words stand in the source of the test, not in what was raised.
        (TEST, {"test_prefix": "Llama"}, "test_prefix failed otherwise than declared (Llama): As"),
        (
            TEST + "    assert Llama('x').proj.prefix == ''",
            DECLARED,
            "test_head failed on the patched",
        ),
        (
            TEST + "    pytest.skip('no GPU')",
            DECLARED,
            "test_head skipped on the pristine tree, un",
        ),
        (
            TEST + "    pytest.skip('no GPU')",
            DECLARED,
            "test_head skipped on the patched tree: no",
        ),
        (PARAMETERS, DECLARED, "test_prefix[x] failed on the patched tree: "),
        (TEST + "\n1 / 0\n", DECLARED, "undeclared: "),
        ("", DECLARED, "on the patched tree it has no test"),
        (
            "import os; os.abort()",
            DECLARED,
            "on the patched tree it ended with -6, without a report",
        ),
        (
            TEST + "if Llama('x').proj.prefix:\n    def test_more():\n        pass\n",
            DECLARED,
            "the two runs have not the same tests: test_more",
        ),
    ],
)
def test_what_is_no_proof(tmp_path, tree, test, declared, problem):
    found = behaviour(tmp_path, tree, test, declared)
    assert problem in "\n".join(found.problems)


def test_a_message_that_is_looked_for_without_an_end(tmp_path, tree, monkeypatch):
    monkeypatch.setattr(matching, "_CHILD", matching._CHILD.replace("(10, 11)", "(1, 2)"))
    test = TEST + f"\n\ndef test_long():\n    assert False, {'a' * 60 + '!'!r}\n"
    found = behaviour(tmp_path, tree, test, DECLARED | {"test_long": "(a+)+$"})
    assert "what fails-before declares of test_long cannot be looked for: it is not matched" in (
        "\n".join(found.problems)
    )


def test_a_test_that_hangs(tmp_path, tree):
    found = behaviour(tmp_path, tree, "import time; time.sleep(60)", timeout=1)
    assert found.problems[0].startswith("on the pristine tree it did not end within 1.0 s:")
    assert len(found.problems) == 2


def test_what_a_test_is_given(tmp_path, tree):
    more = f"""
    import importlib.util, os
    assert os.environ["UPSTREAM"] == {str(tmp_path / "reference")!r}
    assert os.environ["MORE"] == "1"
    assert importlib.util.find_spec("tiny_mtp")
"""
    assert behaviour(tmp_path, tree, TEST + more, environment={"MORE": "1"}).problems == ()


def test_tests_of_one_name_in_two_classes_are_two(tmp_path, tree):
    test = TEST.partition("def test_head")[0] + (
        "class TestA:\n    def test_head(self): pass\n"
        "if not Llama('x').proj.prefix:\n"
        "    class TestB:\n        def test_head(self): pass\n"
    )
    found = behaviour(tmp_path, tree, test)
    assert [t.name for t in found.pristine.tests] == [
        "test_prefix",
        "TestA.test_head",
        "TestB.test_head",
    ]
    assert found.problems == ("the two runs have not the same tests: TestB.test_head",)


def test_options_of_the_callers_pytest_do_not_count(tmp_path, tree, monkeypatch):
    monkeypatch.setenv("PYTEST_ADDOPTS", "-x -k prefix")
    assert len(behaviour(tmp_path, tree).pristine.tests) == 2


def test_a_new_folder_in_a_plugin(tmp_path, tree):
    plugin = write_tree(tmp_path / "plugin", PLUGIN)
    new = NAME_PROJ + "- add-file: vllm_plugin/more/new.py\n  from: new.py\n"
    folder = write_patch(tmp_path / "other", "name-proj", new)
    (folder / "new.py").write_text("x = 1\n")
    plan = folder_plan(plugin, [load_patch(folder, EVERYTHING)], tmp_path, "vllm-plugin")
    test = TEST.replace("vllm.models.llama", "vllm_plugin.copy")
    assert behaviour(tmp_path, tree, test, more=[(plan, plugin)]).problems == ()


def test_a_plugin_that_is_patched_as_well(tmp_path, tree):
    plugin = write_tree(tmp_path / "plugin", PLUGIN)
    patch = load_patch(write_patch(tmp_path, "name-proj", NAME_PROJ), EVERYTHING)
    test = TEST.replace("vllm.models.llama", "vllm_plugin.copy")
    plan = folder_plan(plugin, [patch], tmp_path, "vllm-plugin")
    found = behaviour(tmp_path, tree, test, more=[(plan, plugin)])
    assert found.problems == ()
    assert (plugin / "vllm_plugin/copy.py").read_text() == LLAMA


def test_an_engine_of_another_tree(tmp_path, tree):
    other = write_tree(tmp_path / "other", FILES | {"vllm/models/llama.py": LLAMA.encode() + b"#"})
    with fails("engine.files-differ"):
        behaviour(tmp_path, tree, installed=other)
