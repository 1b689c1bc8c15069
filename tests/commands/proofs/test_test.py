from __future__ import annotations

import shutil

import pytest

from tests.projects import FILES, LLAMA, NAMED, write_tree


@pytest.fixture
def example(project):
    """An example of name-proj. Returns the file that it wants."""
    folder = project.patches / "name-proj" / "examples" / "needed-plain"
    write_tree(folder / "before", {LLAMA: FILES[LLAMA]})
    after = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
    write_tree(folder / "after", {LLAMA: after})
    return folder / "after" / LLAMA


@pytest.mark.usefixtures("example")
def test_examples_that_hold(project):
    run = project.run("test", "name-proj", "--no-style")
    assert run.out == "holds  name-proj  needed-plain\n1 of 1 example holds\n"
    assert project.run("test", "name-proj", "--no-style", "--json").json == {
        "examples": [{"patch": "name-proj", "example": "needed-plain", "failures": []}],
        "style": [],
        "behaviour_tests": [],
        "not_run": [],
        "releases": [],
        "shapes": [],
        "left_out": [],
    }


def test_examples_that_fail(project, example):
    example.write_bytes(FILES[LLAMA])
    run = project.run("test", "name-proj", code=1)
    assert run.out.startswith("fails  name-proj  needed-plain\n       ---")
    assert '+        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow' in run.out
    (result,) = project.run("test", "name-proj", "--json", code=1).json["examples"]
    assert result["failures"]


def test_examples_of_the_whole_library(empty):
    run = empty.run("test")
    count = run.out.count("holds  ")
    assert count >= 9
    assert run.out.splitlines()[-1] == f"{count} of {count} examples hold"


@pytest.mark.usefixtures("example")
def test_examples_of_the_projects_own(project):
    shutil.rmtree(project.patches / "slow-mode")
    run = project.run("test", "--no-style")
    assert run.out == "holds  name-proj  needed-plain\n1 of 1 example holds\n"
    assert "note: these are the project's own patches; --library adds 2" in run.err
    run = project.run("test", "--no-style", "--library")
    assert "holds  mtp-proj-prefix" in run.out
    assert run.err == ""
    run = project.run("test", "name-proj", "--library", code=2)
    assert run.codes == ("cli.unused-option",)


def test_a_patch_without_examples(project):
    run = project.run("test", "slow-mode", code=2)
    assert "slow-mode has no example that needs it\n  next: add examples/needed-" in run.err
    assert project.run("test", "slow-mode", "--json", code=2).json_errors
