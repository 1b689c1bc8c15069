"""In a project with patches of its own, the library's are taken by name or with --library."""

from __future__ import annotations

import shutil

import pytest

from tests.projects import NAME_PROJ, VERSION, write_patch
from vpatch.commands.smoke.request import SmokeOptions, asked_of
from vpatch.library.catalog import installed
from vpatch.workspace.context import Context
from vpatch.workspace.selection import Request

NOTE = "note: these are the project's own patches; --library adds 2 of the library\n"
OWN = ["name-proj", "slow-mode"]
LIBRARYS = ["cpu-spec-decode-fp64-gumbel", "mtp-proj-prefix"]


def ids(run):
    return [decision["patch"] for decision in run.json["trees"][0]["decisions"]]


@pytest.fixture
def with_recipe(project):
    """The same, with a recipe for this vLLM in the library."""
    file = installed("recipes") / f"vllm-{VERSION}.yaml"
    file.write_text(f"vllm: {VERSION}\npatches: [mtp-proj-prefix]\n")
    yield project
    file.unlink()


@pytest.mark.parametrize("command", ["apply", "status"])
def test_the_projects_own_are_taken_and_that_is_said_once(project, command):
    run = project.run(command, "--vllm", VERSION, "--json")
    assert ids(run) == OWN
    assert run.err.count(NOTE) == 1


def test_it_is_said_once_for_several_releases(project):
    assert project.run("status", "--vllm", f"{VERSION},0.51.0").err.count(NOTE) == 1


@pytest.mark.parametrize("command", ["apply", "status"])
def test_the_librarys_are_added(project, command):
    run = project.run(command, "--vllm", VERSION, "--library", "--json")
    assert ids(run) == sorted([*OWN, *LIBRARYS])
    assert NOTE not in run.err


def test_a_project_without_patches_takes_the_librarys(empty):
    run = empty.apply("--json")
    assert ids(run) == LIBRARYS
    assert "--library" not in run.err


def test_the_librarys_recipe_is_not_taken_for_a_version(with_recipe):
    run = with_recipe.apply("--json")
    assert (ids(run), run.json["trees"][0]["recipe"]) == (OWN, None)
    # It still is where it is named, and where a project has no patches.
    run = with_recipe.run("status", "--recipe", f"vllm-{VERSION}", "--json")
    assert ids(run) == ["mtp-proj-prefix"]
    shutil.rmtree(with_recipe.patches)
    run = with_recipe.apply("--checkout", "other", "--json", code=1)
    assert run.json["trees"][0]["recipe"] == f"vllm-{VERSION}"


def test_the_projects_recipe_is_taken_for_a_version(with_recipe):
    (with_recipe.folder / "recipes").mkdir()
    file = with_recipe.folder / "recipes" / f"vllm-{VERSION}.yaml"
    file.write_text(f"vllm: {VERSION}\npatches: [slow-mode]\n")
    run = with_recipe.apply("--json")
    assert (ids(run), NOTE in run.err) == (["slow-mode"], False)
    # --library asks for all patches, and no recipe.
    run = with_recipe.apply("--library", "--json")
    assert (ids(run), run.json["trees"][0]["recipe"]) == (sorted([*OWN, *LIBRARYS]), None)


def test_what_an_own_patch_requires_comes_along(project):
    file = project.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text() + "requires: [mtp-proj-prefix]\n")
    run = project.run("status", "--vllm", VERSION, "--json", code=None)
    assert sorted(ids(run)) == ["mtp-proj-prefix", *OWN]
    assert "--library adds 1 of the library" in run.err


def test_a_copy_of_the_librarys_in_the_project_is_the_projects(project):
    name = "mtp-proj-prefix"
    shutil.copytree(installed("patches") / name, project.patches / name)
    run = project.run("status", "--vllm", VERSION, "--json")
    assert ids(run) == ["mtp-proj-prefix", *OWN]
    assert "--library adds 1 of the library" in run.err


def test_copies_alone_are_no_patches_of_a_project(with_recipe):
    """As in vpatch's own checkout, where the README's first command takes its recipe."""
    shutil.rmtree(with_recipe.patches)
    shutil.copytree(installed("patches"), with_recipe.patches)
    run = with_recipe.apply("--json", code=1)
    assert run.json["trees"][0]["recipe"] == f"vllm-{VERSION}"


def test_backports_alone_do_not_hide_the_library(empty):
    write_patch(empty.patches / "security", "cve-1", NAME_PROJ)
    assert ids(empty.run("status", "--vllm", VERSION, "--json")) == LIBRARYS


@pytest.mark.parametrize("option", [("--patch", "slow-mode"), ("--recipe", "vllm-0.23")])
def test_the_library_beside_what_names_patches_is_refused(project, option):
    version = () if option[0] == "--recipe" else ("--vllm", VERSION)
    run = project.run("status", *version, *option, "--library", code=2)
    assert run.codes == ("cli.conflicting-options",)
    assert option[0] in run.err


def reword(project):
    file = project.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text().replace("Without it", "As it is"))


@pytest.mark.parametrize("options", [(), ("--library",)])
def test_check_asks_for_what_apply_took(project, options):
    project.apply(*options)
    assert "are exactly as locked" in project.run("check").out
    reword(project)
    run = project.run("check", code=1)
    assert f"next: vpatch apply {' '.join(['--vllm', VERSION, *options])}\n" in run.out


def test_smoke_says_how_it_was_asked():
    context, options = Context(), SmokeOptions()
    assert "library" not in asked_of(context, Request("0.50"), options)
    assert asked_of(context, Request("0.50", library=True), options)["library"] is True
