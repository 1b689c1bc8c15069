"""Commands in a folder below a project are about that project."""

from __future__ import annotations

import json
import os

import pytest

from tests.projects import LLAMA, NAME_PROJ, NAMED, VERSION, git, write_patch, write_tree

LABEL = f"vllm-{VERSION}"


@pytest.fixture
def below(project):
    folder = project.folder / "patches" / "name-proj" / "deep"
    folder.mkdir()
    return folder


def test_a_checkout_is_the_projects(project, below):
    run = project.apply(cwd=below)
    shown = f"../../../.vpatch/{LABEL}"
    assert f"{shown}/vpatch.lock  2 files changed" in run.out
    assert NAMED in (project.target / LLAMA).read_bytes()
    assert not (below / ".vpatch").exists()
    assert "already is exactly this" in project.apply().out
    assert project.run("check", cwd=below).out == (
        f"{shown}/vpatch.lock: 2 patches and 2 files are exactly as locked\n"
    )
    assert project.run("diff", cwd=below).out == project.run("diff").out
    assert project.run("check", cwd=project.target / "vllm").code == 0


def test_patches_and_recipes_are_the_projects(project, below):
    (project.folder / "vpatch.toml").write_text('patches = ["carried"]\nrecipes = ["plans"]\n')
    write_patch(project.folder / "carried", "z-mine", NAME_PROJ)
    (project.folder / "plans").mkdir()
    (project.folder / "plans" / "mine.yaml").write_text(f"vllm: {VERSION}\npatches: [z-mine]\n")
    listed = project.run("list", "--json", cwd=below).json
    assert {"name-proj", "slow-mode", "z-mine"} <= {patch["id"] for patch in listed["patches"]}
    assert "mine" in {recipe["name"] for recipe in listed["recipes"]}
    assert listed == project.run("list", "--json").json
    # What is typed is relative to where it is typed.
    (below / "here").symlink_to(project.folder / "carried")
    project.run("list", "--patches-dir", "here", cwd=below)
    run = project.run("list", "--patches-dir", "carried", cwd=below, code=2)
    assert "there is no folder carried" in run.err


@pytest.mark.parametrize("kind", ["folder", "repository"])
def test_a_local_source_is_the_same_from_everywhere(project, below, kind):
    tree = write_tree(project.folder / "src")
    at = ""
    if kind == "repository":
        git(tree, "init", "-q")
        git(tree, "add", "-A")
        git(tree, "commit", "-qm", "x")
        at = "@HEAD"
    project.run("apply", "--vllm", f"../../../src{at}", cwd=below)
    lock = project.target / "vpatch.lock"
    assert json.loads(lock.read_text())["source"]["origin"] == "./src"
    again = project.run("apply", "--vllm", f"./src{at}")
    assert "already is exactly this" in again.out
    for folder in (project.folder, below):
        assert project.run("check", cwd=folder).code == 0
        assert project.run("diff", cwd=folder).out.startswith("diff --git")


def test_a_recipe_with_a_folder_means_the_same_from_everywhere(project, below):
    write_tree(project.folder / "src")
    (project.folder / "recipes").mkdir()
    (project.folder / "recipes" / "mine.yaml").write_text("vllm: ../src\npatches: [slow-mode]\n")
    project.run("apply", "--recipe", "mine", cwd=below)
    assert "already is exactly this" in project.run("apply", "--recipe", "mine").out
    assert json.loads((project.target / "vpatch.lock").read_text())["source"]["origin"] == "./src"


def test_the_checkout_is_not_its_own_source(applied, below):
    run = applied.run("apply", "--vllm", f"../../../.vpatch/{LABEL}", cwd=below, code=2)
    assert run.codes == ("checkout.source-is-target",)


def test_evidence_and_records_are_the_projects(project, below):
    run = project.run("evidence", "list", cwd=below)
    assert "there is no evidence in ../../../evidence" in run.out
    for command in ((), ("bench",)):
        text = project.run(*command, "--help", cwd=below).out
        assert "in the project]" in " ".join(text.split())


def test_a_project_of_somebody_else_is_named_and_not_used(project, below):
    marker = project.folder / "vpatch.toml"
    marker.write_text("")
    os.chown(marker, 12345, 12345)
    run = project.run("list", cwd=below)
    assert f"note: {marker} belongs to another user and is not used" in run.err
    assert "slow-mode" not in run.out
