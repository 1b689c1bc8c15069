from __future__ import annotations

import compileall
import shutil
from pathlib import Path

import pytest

from tests.helpers import fails
from tests.projects import ENGINE, FILES, LLAMA, NAME_PROJ, NAMED, write_patch, write_tree
from vpatch.library.loading import load_patch
from vpatch.trust.decision import EVERYTHING
from vpatch.workspace.examples import run_examples

LIBRARY = Path(__file__).parents[2] / "patches"
BEFORE = {LLAMA: FILES[LLAMA], ENGINE: FILES[ENGINE]}
AFTER = BEFORE | {
    LLAMA: FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
}
ABSENT = {ENGINE: FILES[ENGINE]}
CONFLICT = {LLAMA: FILES[LLAMA].replace(b"self.proj", b"self.projection")}


@pytest.fixture
def folder(tmp_path):
    return write_patch(tmp_path, "name-proj", NAME_PROJ)


def example(folder, name, before, after=None):
    write_tree(folder / "examples" / name / "before", before)
    if after is not None:
        write_tree(folder / "examples" / name / "after", after)


def run(folder):
    return {result.name: result.failures for result in run_examples(load_patch(folder, EVERYTHING))}


def test_examples_of_every_state(folder):
    example(folder, "needed-plain", BEFORE, AFTER)
    example(folder, "upstreamed-there", AFTER)
    example(folder, "absent-other", ABSENT)
    example(folder, "conflict-renamed", CONFLICT)
    assert run(folder) == {
        "needed-plain": (),
        "upstreamed-there": (),
        "absent-other": (),
        "conflict-renamed": (),
    }


def test_an_example_with_another_result(folder):
    example(folder, "needed-plain", BEFORE, BEFORE)
    ((failure,),) = run(folder).values()
    assert failure.startswith(f"--- {LLAMA} (after)\n+++ {LLAMA} (made)\n")
    assert "-        self.proj = Linear(4, 4)  # narrow" in failure
    assert "+        self.proj = Linear(4, 4, prefix=" in failure


def test_an_example_that_wants_another_file(folder):
    example(folder, "needed-plain", BEFORE, AFTER | {"vllm/more.py": b"x = 1\n"})
    ((failure,),) = run(folder).values()
    assert failure.startswith("--- vllm/more.py (after)")


def test_an_example_with_a_file_too_few(folder):
    example(folder, "needed-plain", BEFORE, {LLAMA: AFTER[LLAMA]})
    ((failure,),) = run(folder).values()
    assert failure.startswith(f"--- {ENGINE} (after)")


@pytest.mark.parametrize(
    ("name", "before", "message"),
    [
        ("absent-x", BEFORE, "the patch is needed here, not absent: 1 place"),
        ("upstreamed-x", ABSENT, "the patch is absent here, not upstreamed: "),
        ("conflict-x", AFTER, "the patch is upstreamed here, not conflict: "),
        ("needed-x", CONFLICT, "the patch is conflict here, not needed: "),
    ],
)
def test_an_example_in_another_state(folder, name, before, message):
    example(folder, "needed-plain", BEFORE, AFTER)
    example(folder, name, before, AFTER)
    results = run(folder)
    assert results["needed-plain"] == ()
    ((failure),) = results[name]
    assert failure.startswith(message)


def test_no_examples(folder):
    with fails("library.no-example"):
        run(folder)
    example(folder, "absent-other", ABSENT)
    with fails("library.no-example"):
        run(folder)


@pytest.mark.parametrize(
    ("name", "message"),
    [("needful-x", "begins with a state"), ("needed-b", "has no folder after")],
)
def test_an_example_that_is_none(folder, name, message):
    example(folder, "needed-a", BEFORE, AFTER)
    example(folder, name, BEFORE)
    with fails("library.bad-example", message):
        run(folder)


def test_an_example_without_before(folder):
    (folder / "examples" / "needed-a" / "after").mkdir(parents=True)
    with fails("library.bad-example", "has no folder before"):
        run(folder)


@pytest.mark.parametrize("name", sorted(p.parent.name for p in LIBRARY.glob("*/patch.yaml")))
def test_examples_of_the_library(name):
    found = run(LIBRARY / name)
    assert found
    assert not {label: failures for label, failures in found.items() if failures}


def test_bytecode_that_pip_made_is_no_part_of_an_example(tmp_path):
    """An installed library's .py files are compiled, those of the examples too."""
    folder = shutil.copytree(LIBRARY / "mtp-proj-prefix", tmp_path / "mtp-proj-prefix")
    assert compileall.compile_dir(folder, quiet=1)
    assert not [r for r in run_examples(load_patch(folder, EVERYTHING)) if r.failures]
