"""What the action tells GitHub: the summary, annotations, SARIF and outputs, on made projects."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from tests.commands.audit.cases import write_backport
from tests.commands.audit.sarif_schema import sarif_validator
from tests.documents import ROOT
from tests.projects import ENGINE, VERSION, git, own_repository

SCRIPT = ROOT / "action" / "run.sh"
# An advisory that comes with vpatch. The project has a backport of its own for it.
KNOWN = "CVE-2026-54234"
BASE, HEAD = "me/mine", "other/mine"


@pytest.fixture(scope="module")
def report():
    spec = spec_from_file_location("action_report", ROOT / "action" / "report.py")
    module = sys.modules[spec.name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


class Job:
    """A job of GitHub on a project: `run` does what the action's last step does."""

    def __init__(self, project):
        self.project = project
        self.folder = project.folder
        self.runner = project.folder.parent / "runner"
        self.runner.mkdir()
        self.event = None

    def run(self, *args, code=0, **more):
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        for name in ("summary", "output"):
            (self.runner / name).unlink(missing_ok=True)
        env = {
            "PATH": path,
            "GITHUB_ACTIONS": "true",
            "GITHUB_EVENT_NAME": "push",
            "GITHUB_STEP_SUMMARY": str(self.runner / "summary"),
            "GITHUB_OUTPUT": str(self.runner / "output"),
            "REPORTS": str(self.runner / "reports"),
            "GH_TOKEN": "",
        }
        if self.event is not None:
            (self.runner / "event.json").write_text(json.dumps(self.event))
            env |= {"GITHUB_EVENT_PATH": str(self.runner / "event.json")}
            env |= {"GITHUB_EVENT_NAME": "pull_request"}
        done = subprocess.run(
            [SCRIPT, *args],
            cwd=self.folder,
            env=os.environ | self.project.env | env | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        self.log = done.stdout
        # GitHub obeys nothing between the two.
        first, _, rest = re.split(
            r"^::(?:stop-commands::)?vpatch-\d+(?:::)?\n", done.stdout, flags=re.MULTILINE
        )
        assert first == ""
        self.annotations = rest.splitlines()
        self.summary = (self.runner / "summary").read_text()
        lines = (self.runner / "output").read_text().splitlines()
        self.outputs = dict(line.split("=", 1) for line in lines)
        return self

    def sarif(self):
        document = json.loads(Path(self.outputs["sarif"]).read_text())
        sarif_validator().validate(document)
        return document

    def commit(self, message="x"):
        git(self.folder, "add", "--all")
        git(self.folder, "commit", "--quiet", f"--message={message}")
        return git(self.folder, "rev-parse", "HEAD").strip()


@pytest.fixture
def job(project):
    """A repository with a recipe whose vLLM has a known hole, and the lock of the recipe."""
    write_backport(project.patches, KNOWN)
    (project.folder / "recipes").mkdir()
    text = f"why: ours\nvllm: {VERSION}\npatches: [name-proj]\n"
    (project.folder / "recipes" / "mine.yaml").write_text(text)
    (project.folder / ".gitignore").write_text(".vpatch/\n")
    project.run("apply", "--recipe", "mine")
    shutil.copy(project.target / "vpatch.lock", project.folder)
    own_repository(project.folder)
    job = Job(project)
    job.commit()
    return job


def accept(job):
    (job.folder / "accepted-advisories.yaml").write_text(
        f"accepted:\n  - id: {KNOWN}\n    reason: We do not speculate.\n    until: 2999-12-31\n"
    )


@pytest.mark.slow
def test_a_project_that_accepts_what_it_knows_is_green(job):
    accept(job)
    job.run("check", "latest")
    assert job.annotations == []
    assert job.summary.startswith("## vpatch check and vpatch audit: passed\n")
    assert "### vpatch.lock\n\nPatches and recipe are as locked.\n" in job.summary
    assert "affected (accepted) | accepted until 2999-12-31: We do not speculate." in job.summary
    assert (job.outputs["upload"], job.outputs["fork"]) == ("true", "false")
    (run,) = job.sarif()["runs"]
    assert run["automationDetails"]["id"] == "vpatch/mine/"
    (result,) = [one for one in run["results"] if one["ruleId"] == KNOWN]
    assert [one["status"] for one in result["suppressions"]] == ["accepted"]


@pytest.mark.slow
def test_a_project_with_a_hole_and_a_changed_patch_is_red_for_both(job):
    patch = job.project.patches / "name-proj" / "patch.yaml"
    patch.write_text(patch.read_text().replace("the small model", "a small model"))
    (job.folder / "recipes" / "more.yaml").write_text(f"vllm: {VERSION}\npatches: [slow-mode]\n")
    job.run("check", "latest", code=1)
    assert job.summary.startswith("## vpatch check and vpatch audit: failed\n")
    drift, hole = job.annotations
    assert drift.startswith("::error file=vpatch.lock,title=vpatch check::name-proj")
    assert "%0Anext: vpatch apply --recipe mine" in drift
    assert hole == (
        "::error file=recipes/mine.yaml,line=2,title=vpatch audit::"
        f"1 advisory affects the recipe mine: {KNOWN} (high)"
    )
    assert "\n- name-proj" in job.summary
    assert "**1 of severity low or more, or of unknown severity, count.**" in job.summary
    mine, more = job.sarif()["runs"]
    (result,) = [one for one in mine["results"] if one["ruleId"] == KNOWN]
    assert (result["level"], result["suppressions"]) == ("error", [])
    (place,) = result["locations"]
    assert place["physicalLocation"]["artifactLocation"]["uri"] == "recipes/mine.yaml"
    assert more["automationDetails"]["id"] == "vpatch/more/"
    # Only the lock, if nobody asks for the rest.
    job.run("check", "latest", code=1, FAIL_ON="critical", FORMAT="openvex cyclonedx markdown")
    (drift,) = job.annotations
    assert drift.startswith("::error file=vpatch.lock,")
    reports = job.runner / "reports"
    assert {"mine.openvex.json", "mine.cdx.json", "mine.md"} <= {p.name for p in reports.iterdir()}
    assert "sarif" not in job.outputs


def pull_request(job, head=HEAD):
    """Change a patch on a branch, and check out the merge that GitHub makes for a pull request."""
    base = job.commit("base")
    git(job.folder, "switch", "--quiet", "--create", "change")
    patch = job.project.patches / "name-proj" / "patch.yaml"
    patch.write_text(patch.read_text().replace('{prefix}.proj"', '{prefix}.`proj`"'))
    (job.folder / "recipes" / "more.yaml").write_text(f"vllm: {VERSION}\npatches: [slow-mode]\n")
    ours = job.project.patches / "slow-mode" / "NOTES.md"
    ours.write_text("Read me.\n")
    changed = job.commit("change")
    git(job.folder, "switch", "--quiet", "--detach", base)
    git(job.folder, "merge", "--quiet", "--no-ff", "--message=m", "change")
    repositories = {"head": {"full_name": head}, "base": {"full_name": BASE}}
    ids = {"head": changed, "base": base}
    sides = {side: {"sha": ids[side], "repo": repositories[side]} for side in ids}
    job.event = {"action": "opened", "pull_request": sides}


@pytest.mark.slow
def test_a_pull_request_of_a_fork_needs_no_secret(job):
    (job.folder / "vpatch.lock").unlink()
    accept(job)
    pull_request(job)
    job.run("check", "latest")
    assert (job.outputs["upload"], job.outputs["fork"]) == ("false", "true")
    job.sarif()
    assert "This pull request is from a fork" in job.summary
    shown = job.summary.partition("## What the changed patches do\n")[2]
    assert f"- vllm {VERSION}, recipe mine: needed; 1 place to edit in 1 file\n" in shown
    assert f"- vllm {VERSION}, recipe more: needed; 1 place to edit in 1 file\n" in shown
    assert '+        self.proj = Linear(4, 4, prefix=f"{prefix}.`proj`")  # narrow\n' in shown
    assert f"diff --git a/{ENGINE} b/{ENGINE}\n" in shown
    assert "\n### fix\n" not in shown
    # The same by somebody of the repository.
    job.event["pull_request"]["head"]["repo"]["full_name"] = BASE
    job.run("check", "latest")
    assert (job.outputs["upload"], "is from a fork" in job.summary) == ("true", False)
    # Of a checkout that has only the merge.
    shallow = job.folder.parent / "shallow"
    git(job.folder.parent, "clone", "-q", "--depth=1", f"file://{job.folder}", str(shallow))
    job.folder = shallow
    job.run("check", "latest")
    assert "give actions/checkout fetch-depth: 2" in job.summary


@pytest.mark.slow
def test_the_examples_of_the_projects_patches_are_tested(job):
    job.run("test", code=2)
    assert "has no example that needs it" in job.annotations[0]
    shutil.rmtree(job.project.patches / "security")
    shutil.rmtree(job.project.patches / "slow-mode")
    example = job.project.patches / "name-proj" / "examples" / "needed-a"
    for side, proj in (("before", "Linear(4)"), ("after", "Linear(5)")):
        file = example / side / "vllm" / "models" / "llama.py"
        file.parent.mkdir(parents=True)
        file.write_text(f"class Llama:\n    def f(self, prefix):\n        self.proj = {proj}\n")
    job.run("test", code=1)
    assert job.summary.startswith("## vpatch test: failed\n\n0 of 1 examples hold.\n")
    first = job.annotations[0]
    assert first.startswith(
        "::error file=patches/name-proj/patch.yaml,title=vpatch test::name-proj: "
    )
    assert "fails  name-proj  needed-a\n" in job.log
    file = example / "after" / "vllm" / "models" / "llama.py"
    file.write_text(file.read_text().replace("Linear(5)", 'Linear(4, prefix=f"{prefix}.proj")'))
    job.run("test")
    assert job.summary.startswith("## vpatch test: passed\n\n1 of 1 examples hold.\n")
    assert job.annotations == []


def test_pull_request_target_is_refused_for_a_fork(job):
    job.event = {"pull_request": {"head": {"repo": None}}}
    job.run("check", "latest", code=2, GITHUB_EVENT_NAME="pull_request_target")
    (only,) = job.annotations
    assert only.startswith("::error title=vpatch::pull_request_target gives the code of a fork")
    assert "pull_request_target gives" in job.summary
    assert job.outputs["fork"] == "true"


@pytest.mark.parametrize(
    ("args", "env", "says"),
    [
        (["test"], {"FAIL_ON": "high"}, "fail-on has no effect with run: test"),
        (["bump", "latest"], {"FORMAT": "sarif"}, "format has no effect with run: bump"),
        (["test", "latest", "mine"], {}, "recipes has no effect with run: test"),
        (["check", "latest"], {"FORMAT": "sarif json"}, "there is no format 'json'"),
    ],
)
def test_an_input_without_effect_is_refused(job, args, env, says):
    job.run(*args, code=2, **env)
    assert says in job.annotations[0]


# The script, on documents that are made here.


def put(folder, kind, name, code, result, errors=()):
    step = folder / "steps" / f"{len(list(folder.glob('steps/*'))):05}"
    step.mkdir(parents=True)
    for part, text in (("kind", kind), ("name", name), ("code", code)):
        (step / part).write_text(str(text))
    (step / "answer.json").write_text(json.dumps({"result": result, "errors": list(errors)}))
    return step


def audited(*advisories, unused=()):
    tree = {"declared": None, "advisories": list(advisories)}
    return {"trees": [tree], "unused_accepted": list(unused)}


def found(name, severity="high", status="affected", expired=None):
    accepted = None
    if expired is not None:
        accepted = {"id": name, "until": "2026-01-31", "expired": expired, "where": "a.yaml:3"}
    return {"id": name, "severity": severity, "status": status, "accepted": accepted}


@pytest.fixture
def commands(report, tmp_path, monkeypatch):
    """The annotations for steps that a test puts into a folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FAIL_ON", raising=False)

    def of(failure=""):
        steps = [report.Step.read(path) for path in sorted(tmp_path.glob("steps/*"))]
        return list(report.workflow_commands(steps, failure))

    return of


def test_what_github_would_obey_is_escaped(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a,b:c%.yaml").write_text("")
    line = report.annotation("error", "50 %\r\n::set-env::x, y", "a,b:c%.yaml:7", title="t: u,v")
    assert line == (
        "::error file=a%2Cb%3Ac%25.yaml,line=7,title=t%3A u%2Cv::50 %25%0D%0A::set-env::x, y"
    )


def test_a_place_that_is_not_in_the_repository_is_text(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path.parent / "out.yaml").write_text("")
    for where in ("/nowhere/a.yaml:3", "../out.yaml:3", "none.yaml"):
        line = report.annotation("error", "wrong", where, title="t")
        assert line == f"::error title=t::{where}: wrong"
    (tmp_path / "in.yaml").write_text("")
    line = report.annotation("error", "wrong", str(tmp_path / "in.yaml"), title="t")
    assert line == "::error file=in.yaml,title=t::wrong"


def test_a_place_of_any_name_is_text(report, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "round.yaml").symlink_to("round.yaml")
    for where in ("round.yaml:3", f"{'a' * 300}:3"):
        line = report.annotation("error", "wrong", where, title="t")
        assert line == f"::error title=t::{where}: wrong"


def test_a_name_that_is_no_utf_8_is_told(tmp_path):
    step = put(tmp_path, "check", "", 1, {"differences": ["\udcfe differs"], "hint": "x"})
    (step / "name").write_bytes(b"\xff/vpatch.lock")
    script = [sys.executable, ROOT / "action" / "report.py", "finish", tmp_path, "1"]
    env = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    told = subprocess.run(script, env=env, cwd=tmp_path, capture_output=True, check=True).stdout
    assert b"vpatch.lock: \\udcfe differs%0Anext: x\n" in told
    assert "### \\udcff/vpatch.lock\n" in (tmp_path / "summary").read_text()


def test_an_error_is_shown_at_its_line(commands, tmp_path):
    (tmp_path / "patch.yaml").write_text("")
    error = {"what": "unknown key", "where": f"{tmp_path}/patch.yaml:4", "hint": "did you mean b?"}
    put(tmp_path, "audit", "mine", 2, None, [error | {"code": "declare.unknown-key"}])
    assert commands("nothing to check") == [
        "::error title=vpatch::nothing to check",
        "::error file=patch.yaml,line=4,title=vpatch audit::unknown key%0Anext: did you mean b?",
    ]


@pytest.mark.parametrize(
    ("least", "names"), [("", ["low", "high", "none"]), ("high", ["high", "none"])]
)
def test_only_what_counts_is_an_error(commands, tmp_path, monkeypatch, least, names):
    monkeypatch.setenv("FAIL_ON", least)
    rows = [found("low", "low"), found("high"), found("none", None)]
    rows += [found("fine", status="fixed"), found("unsure", status="unknown")]
    rows += [found("taken", expired=False)]
    put(tmp_path, "audit", "mine", 1, audited(*rows))
    (only,) = commands()
    assert re.findall(r"(\w+) \(", only) == names
    assert f"{len(names)} advisories affect the recipe mine" in only


def test_an_entry_that_has_ended_is_shown_at_its_line(commands, tmp_path):
    (tmp_path / "a.yaml").write_text("")
    put(tmp_path, "audit", "mine", 1, audited(found("CVE-1", expired=True)))
    put(tmp_path, "audit", "more", 0, audited(found("CVE-1", status="unknown", expired=True)))
    _, ended = commands()
    assert ended == (
        "::error file=a.yaml,line=3,title=vpatch audit::"
        "CVE-1 was accepted until 2026-01-31, and counts again"
    )


def test_an_entry_is_unused_if_no_recipe_has_it(commands, tmp_path):
    (tmp_path / "a.yaml").write_text("")
    one, other = (
        {"id": name, "why": "it is fixed here", "where": f"a.yaml:{line}"}
        for name, line in (("CVE-1", 2), ("CVE-2", 5))
    )
    put(tmp_path, "audit", "mine", 0, audited(unused=[one, other]))
    put(tmp_path, "audit", "more", 0, audited(unused=[other]))
    assert commands() == [
        "::warning file=a.yaml,line=5,title=vpatch audit::CVE-2 is accepted, and it is fixed here"
    ]


def lines_of(report, folder, notes=(), failure="", code=0):
    steps = [report.Step.read(path) for path in sorted(folder.glob("steps/*"))]
    return "\n".join(report.summary(steps, notes, failure, code))


def test_the_summary_shows_no_markup_of_others(report, tmp_path):
    result = {"differences": ["<b>a</b> @team `x`"], "hint": None}
    put(tmp_path, "check", "vpatch.lock", 1, result)
    assert "- \\<b\\>a\\</b\\> \uff20team \\`x\\`" in lines_of(report, tmp_path, code=1)


def test_no_command_ends_its_code(report, tmp_path):
    """The name of a recipe may have a backtick."""
    put(tmp_path, "check", "vpatch.lock", 1, {"differences": ["a"], "hint": "--recipe 'a`` @x`'"})
    assert "\n- next: ``` --recipe 'a`` @x`' ```\n" in lines_of(report, tmp_path, code=1)
    put(tmp_path, "check", "vpatch.lock", 1, {"differences": ["a"], "hint": "vpatch apply"})
    assert "\n- next: `vpatch apply`\n" in lines_of(report, tmp_path, code=1)


def test_a_patch_of_no_recipe_has_no_diff(report, tmp_path):
    error = {"code": "library.not-in-recipe", "what": "no", "where": None, "hint": None}
    put(tmp_path, "show", "lonely", 0, None, [error])
    assert "No recipe of the project takes it" in lines_of(report, tmp_path)


def test_a_diff_that_is_too_long_is_cut_aloud(report, tmp_path):
    effect = {"tree": "vllm", "version": "1", "recipe": "r", "state": "needed", "reason": "r"}
    effect |= {"files": ["a"], "diff": "+````\n" * 20_000}
    put(tmp_path, "show", "long", 0, {"effects": [effect]})
    text = lines_of(report, tmp_path)
    assert "(The rest of 120000 characters is left out.)" in text
    assert "\n`````diff\n" in text


def test_a_summary_that_is_too_long_says_so(report, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary"))
    monkeypatch.setenv("GITHUB_EVENT_NAME", "push")
    for name in ("GITHUB_ACTIONS", "GITHUB_OUTPUT", "REPORTS"):
        monkeypatch.delenv(name, raising=False)
    put(tmp_path, "check", "vpatch.lock", 1, {"differences": ["\u00e4" * 1_000_000], "hint": None})
    report.finish(tmp_path, 1)
    data = (tmp_path / "summary").read_bytes()
    assert len(data) < 1024 * 1024
    assert data.endswith(b"The summary is too long for GitHub, and ends here.\n")


@pytest.mark.parametrize(
    ("event", "pull", "expected"),
    [
        ("push", None, False),
        ("pull_request", {"head": {"repo": {"full_name": BASE}}}, False),
        ("pull_request", {"head": {"repo": {"full_name": HEAD}}}, True),
        ("pull_request", {"head": {"repo": None}}, True),
        ("pull_request", {}, True),
        ("pull_request", None, True),
    ],
)
def test_what_may_be_of_others_is_a_fork(report, tmp_path, monkeypatch, event, pull, expected):
    monkeypatch.setenv("GITHUB_EVENT_NAME", event)
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    if pull is not None:
        pull |= {"base": {"repo": {"full_name": BASE}}}
        (tmp_path / "event.json").write_text(json.dumps({"pull_request": pull}))
    assert report.is_fork() is expected
    assert report.main("is-own") == int(expected)


def test_commits_are_ids(report, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_EVENT_NAME", "pull_request")
    monkeypatch.setenv("GITHUB_EVENT_PATH", str(tmp_path / "event.json"))
    pull = {"base": {"sha": "--output=x"}, "head": {"sha": "a" * 40}}
    (tmp_path / "event.json").write_text(json.dumps({"pull_request": pull}))
    assert report.commits() == ["none", "a" * 40]
