"""A cloned project's code does not run unasked."""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.projects import FILES, LLAMA, VERSION, git, write_tree
from vpatch.checkpoint import tokenizer
from vpatch.commands.bench import sides
from vpatch.commands.proofs import recipe as proofs_recipe
from vpatch.commands.proofs import releases, usecase
from vpatch.commands.smoke import usecase as smoke_usecase
from vpatch.commands.smoke.request import smoke_plan_of
from vpatch.errors import VpatchError
from vpatch.harness.models import given
from vpatch.runs.targets import folders_to_show
from vpatch.trust.decision import UntrustedError
from vpatch.trust.store import default_folder
from vpatch.workspace.context import Context

CODEMOD = """
import pathlib
import libcst as cst
from vpatch.codemods import SiteTransformer

pathlib.Path({ran!r}).touch()

class Codemod(SiteTransformer):
    kinds = (cst.SimpleString,)

    def edit(self, original, updated):
        if updated.value not in ('"fast"', '"slow"'):
            return updated
        self.add(original, todo=updated.value == '"fast"')
        return updated.with_changes(value='"slow"')
"""
EDIT = "- {codemod: codemod.py, contains: [launch]}"


@pytest.fixture
def cloned(project):
    """A project as somebody else made it: of its two patches, one has code."""
    folder = project.patch("slow-mode", EDIT)
    project.ran = project.folder / "ran"
    (folder / "codemod.py").write_text(CODEMOD.format(ran=str(project.ran)))
    return project


def states(project, *args, code=1):
    found = project.run("status", "--vllm", VERSION, "--json", *args, code=code).json
    return {
        one["patch"]: one["state"] for one in found["trees"][0]["decisions"] if "-" in one["patch"]
    }


def test_status_shows_the_rest_and_says_what_needs_trust(cloned):
    run = cloned.run("status", "--vllm", VERSION, code=1)
    assert not cloned.ran.exists()
    assert re.search("needed +name-proj", run.out)
    assert re.search("untrusted +slow-mode .*nothing of it runs: you did not trust it", run.out)
    assert "next: read every file there, then: vpatch trust patches/slow-mode" in run.out
    many = cloned.run("status", "--vllm", f"{VERSION},0.51", code=1)
    assert many.out.count("vpatch trust patches/slow-mode") == 1  # for both versions
    why = cloned.run("status", "--vllm", VERSION, "--why", "slow-mode", code=1)
    assert "vpatch trust patches/slow-mode" in why.out
    assert not cloned.ran.exists()


@pytest.mark.usefixtures("rooms")
@pytest.mark.parametrize("interrupted", [False, True])
def test_code_that_ran_leaves_no_copy_of_itself(cloned, interrupted):
    """A process of its own: it ends without Python's finalizers."""
    if interrupted:
        folder = cloned.folder / "patches" / "slow-mode"
        (folder / "codemod.py").write_text("import os\nos.kill(os.getpid(), 2)\n")
    code = 130 if interrupted else 0
    cloned.run("status", "--vllm", VERSION, "--trust", code=code, in_process=False)
    assert cloned.ran.exists() is not interrupted


COMMANDS = {
    "apply": ("apply", "--vllm", VERSION),
    "status": ("status", "--vllm", VERSION, "--json"),
    "test": ("test", "slow-mode"),
    "upstream-status": ("upstream-status", "--vllm", VERSION, "--offline"),
    "show": ("show", "slow-mode"),
    "list": ("list",),
    "diagnose": ("diagnose", "--vllm", VERSION, "log.txt"),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_no_command_runs_it(cloned, command):
    example = cloned.patches / "slow-mode" / "examples" / "needed-a" / "before" / "vllm" / "a.py"
    example.parent.mkdir(parents=True)
    example.write_text('class Llama: launch("fast")\n')
    (cloned.folder / "log.txt").write_text("it fails\n")
    declared = cloned.patches / "slow-mode" / "patch.yaml"
    thread = "{ref: vllm-project/vllm#1, is: issue}"
    declared.write_text(f"{declared.read_text()}upstream: [{thread}]\n")
    cloned.run("status", "--vllm", VERSION, code=1)
    expected = {"show": 0, "list": 0}.get(command, 1)
    run = cloned.run(*COMMANDS[command], code=expected)
    assert not cloned.ran.exists()
    if command in {"apply", "test", "upstream-status"}:
        assert "vpatch trust patches/slow-mode" in run.out + run.err
    assert not cloned.target.exists()


def test_trust_lets_it_run_until_it_changes(cloned):
    run = cloned.run("trust")
    assert run.out.splitlines()[-1].startswith("2 recorded in ")
    assert "codemod.py" in run.out
    assert re.search("trusted +[^ ]*patches/slow-mode +sha256:", run.out)
    assert states(cloned, code=0)["slow-mode"] == "needed"
    assert cloned.ran.exists()
    cloned.apply()
    assert "slow" in (cloned.target / "vllm" / "engine.py").read_text()
    cloned.run("check")
    cloned.run("diff")
    cloned.ran.unlink()
    (cloned.patches / "slow-mode" / "notes.txt").write_text("new\n")
    run = cloned.run("status", "--vllm", VERSION, code=1)
    assert "it changed since you trusted it" in run.out
    for command in ("check", "diff"):
        run = cloned.run(command, code=1)
        assert "vpatch trust patches/slow-mode" in run.err
    assert not cloned.ran.exists()


def test_what_is_only_declared_works_without_trust(project):
    project.apply()
    project.run("check")
    project.run("diff")
    assert (project.target / LLAMA).exists()


def test_the_option_for_ci(cloned):
    assert states(cloned, "--trust", code=0)["slow-mode"] == "needed"
    assert cloned.ran.exists()
    cloned.ran.unlink()
    # It records nothing.
    assert states(cloned)["slow-mode"] == "untrusted"
    assert not cloned.ran.exists()
    assert "nothing is trusted" in cloned.run("trust", "--list").out


def test_show_records_nothing(cloned):
    run = cloned.run("trust", "--dry-run")
    assert "nothing was recorded" in run.out
    assert "not trusted" in run.out
    assert states(cloned)["slow-mode"] == "untrusted"


def test_one_patch_alone(cloned):
    cloned.run("trust", "patches/slow-mode")
    assert states(cloned, code=0)["slow-mode"] == "needed"
    (record,) = cloned.run("trust", "--list", "--json").json["records"]
    assert record["name"] == str(cloned.patches / "slow-mode")


def test_a_path_that_cannot_be_read_leaves_nothing_trusted(cloned):
    """Also not those that are named before it."""
    link = cloned.patches / "slow-mode" / "link.py"
    link.symlink_to("codemod.py")
    named = ("patches/name-proj", "patches/slow-mode", "--host", "git.example.com")
    run = cloned.run("trust", *named, code=2)
    assert (run.codes, run.out) == (("trust.unreadable-file",), "")
    assert "nothing is trusted" in cloned.run("trust", "--list").out
    link.unlink()
    assert cloned.run("trust", *named).out.endswith(f"3 recorded in {default_folder()}\n")


def test_revoke(cloned):
    cloned.run("trust")
    assert "patches/name-proj" in cloned.run("trust", "--list").out
    run = cloned.run("trust", "--revoke")
    assert run.out.count("not trusted any more") == 2
    assert "nothing there was trusted" in cloned.run("trust", "--revoke").out
    assert states(cloned)["slow-mode"] == "untrusted"


def test_a_symlinked_project_is_the_same_place(cloned):
    cloned.run("trust")
    link = cloned.folder.parent / "link"
    link.symlink_to(cloned.folder)
    found = cloned.run("status", "--vllm", VERSION, cwd=link)
    assert "untrusted" not in found.out


def test_a_folder_of_ones_own_is_asked_for_once(cloned):
    run = cloned.run("trust", "--folder", "patches")
    assert f"trusted  all that is ever in {cloned.patches}\n1 recorded in " in run.out
    for text in ("a", "b"):
        (cloned.patches / "slow-mode" / "notes.txt").write_text(text)
        assert states(cloned, code=0)["slow-mode"] == "needed"
    # What comes later is trusted too; the recipe beside the folder is not.
    cloned.patch("longer-mode", EDIT)
    (cloned.patches / "longer-mode" / "codemod.py").write_text(CODEMOD.format(ran="/dev/null"))
    assert states(cloned, code=None)["longer-mode"] != "untrusted"
    assert f"folder  {cloned.patches}  since" in cloned.run("trust", "--list").out
    (record,) = cloned.run("trust", "--list", "--json").json["records"]
    assert (record["kind"], record["digest"]) == ("folder", "")


def test_a_folder_is_revoked_as_a_whole(cloned):
    cloned.run("trust", "--folder")
    run = cloned.run("trust", "--revoke", "patches/slow-mode", code=2)
    assert run.codes == ("trust.still-trusted",)
    assert f"vpatch trust --revoke {cloned.folder}" in run.err
    assert f"not trusted any more  {cloned.folder}\n" in cloned.run("trust", "--revoke").out
    assert states(cloned)["slow-mode"] == "untrusted"


def test_a_folder_that_would_be_trusted_is_shown(cloned):
    run = cloned.run("trust", "--folder", "--dry-run")
    assert f"would be trusted  all that is ever in {cloned.folder}\n" in run.out
    assert cloned.run("trust", "--folder", "--json").json["folders"] == [str(cloned.folder)]
    cloned.run("trust", "--revoke")
    assert "nothing is trusted" in cloned.run("trust", "--list").out


def test_a_folder_that_everybody_writes_to_is_not_trusted(cloned):
    cloned.folder.chmod(0o777)
    assert cloned.run("trust", "--folder", code=2).codes == ("trust.unsafe-folder",)
    file = "patches/slow-mode/codemod.py"
    assert "is not a folder" in cloned.run("trust", "--folder", "patches", file, code=2).err
    for option in ("--list", "--revoke"):
        assert "no effect" in cloned.run("trust", "--folder", option, code=2).err
    assert "nothing is trusted" in cloned.run("trust", "--list").out


def test_what_the_user_just_wrote_is_trusted(empty):
    empty.run("new", "mine")
    assert empty.run("trust", "--dry-run").out.startswith("trusted")
    (empty.patches / "mine" / "test_it.py").write_text("")
    assert empty.run("trust", "--dry-run").out.startswith("changed")


def test_the_record_of_shapes_changes_no_trust(project):
    project.run("trust")
    project.run("test", "name-proj", "--record", "--vllm", VERSION, code=None)
    assert (project.patches / "name-proj" / "shapes.json").exists()
    assert project.run("trust", "--dry-run", "patches/name-proj").out.startswith("trusted")


def test_hosts(cloned):
    cloned.run("trust", "--host", "https://git.example.com/api/v3")
    assert "host  git.example.com" in cloned.run("trust", "--list").out
    cloned.run("trust", "--revoke", "--host", "git.example.com")
    assert "nothing is trusted" in cloned.run("trust", "--list").out
    assert "is not a host" in cloned.run("trust", "--host", "*", code=2).err


def test_a_file_name_cannot_write_to_the_terminal(cloned):
    for name in ("a\x1b[2Kb.py", "a\n  0123456789ab  other.py"):
        (cloned.patches / "slow-mode" / name).write_text("")
    run = cloned.run("trust", "--dry-run")
    assert "\x1b" not in run.out
    assert "'a\\x1b[2Kb.py'" in run.out
    assert "'a\\n  0123456789ab  other.py'" in run.out


def test_a_project_without_anything(empty):
    assert empty.run("trust", code=2).codes == ("trust.nothing-to-trust",)


def test_the_record_lies_in_the_users_folder(cloned, isolated):
    before = set(cloned.folder.rglob("*"))
    cloned.run("trust")
    assert set(cloned.folder.rglob("*")) == before
    files = list((isolated / "home" / ".local" / "share" / "vpatch" / "trust").iterdir())
    assert len(files) == 2
    assert {json.loads(file.read_text())["kind"] for file in files} == {"path"}


CONFIG = """repos:
- repo: local
  hooks: [{id: evil, name: Evil, entry: touch RAN, language: system, always_run: true}]
"""


@pytest.fixture
def targeted(proven):
    """A project whose target names a repository with hooks of its author's."""
    tree = write_tree(proven.folder / "tree", FILES | {"vllm/version.py": b""})
    proven.ran = proven.folder / "ran"
    (tree / "hooks.yaml").write_text(CONFIG.replace("RAN", str(proven.ran)))
    git(tree, "init", "-q", "-b", "main")
    git(tree, "add", "-A")
    git(tree, "commit", "-q", "-m", "vllm")
    target = proven.folder / "targets" / "vllm.yaml"
    target.parent.mkdir()
    target.write_text(
        f"repository: evil/vllm\ntree: vllm\nurl: {tree}\napi: https://evil.example/api/v3\n"
        "hooks: hooks.yaml\n"
    )
    declared = proven.patches / "name-proj" / "patch.yaml"
    proposal = """proposal:
  summary: It is fixed.
  claims: [It works.]
  reproduction: Run it.
  tests: [{test: test_it.py, at: tests/test_models.py}]
  needs: {engine: cpu}
  keywords: [proj prefix]
  assisted-by: []
"""
    declared.write_text(declared.read_text() + proposal)
    proven.trusting = False
    return proven


def hooks_gate(project, *args):
    found = project.run("upstream-pr", "name-proj", "--offline", "--json", *args, code=None).json
    return next(gate for gate in found["gates"] if gate["name"] == "upstream's hooks")


def test_hooks_of_a_targets_repository_run_with_trust_alone(targeted):
    gate = hooks_gate(targeted)
    assert gate["verdict"] == "not asked"
    assert "vllm.yaml names where they come from, and is not trusted" in gate["said"]
    assert gate["hint"].endswith("vpatch trust targets/vllm.yaml")
    assert not targeted.ran.exists()
    targeted.run("trust", "targets/vllm.yaml")
    assert "--no-hooks" in hooks_gate(targeted, "--no-hooks")["said"]
    assert not targeted.ran.exists()
    assert hooks_gate(targeted)["verdict"] == "pass"
    assert targeted.ran.exists()


def must_not_begin(*_, **__):
    raise AssertionError("trust was not looked at first")


@pytest.mark.parametrize("options", [(), ("--vllm", VERSION), ("--recipe", "small")])
def test_engines_run_nothing_that_is_not_trusted(proven, monkeypatch, options):
    """What a patch inserts runs in an engine, and so does its test. To plan it takes a while."""
    proven.trusting = False
    (proven.folder / "recipes").mkdir(exist_ok=True)
    recipe = f"vllm: {VERSION}\npatches: [name-proj]\n"
    (proven.folder / "recipes" / "small.yaml").write_text(recipe)
    for module in (usecase, releases):
        monkeypatch.setattr(module, "proof_plans", must_not_begin)
        monkeypatch.setattr(module, "open_engine", must_not_begin)
    monkeypatch.setattr(proofs_recipe, "planned", must_not_begin)
    run = proven.run("test", "--engine", sys.executable, "name-proj", *options, code=1)
    assert "vpatch trust patches/name-proj" in run.err


@pytest.mark.parametrize("command", ["smoke", "bench"])
def test_trust_is_looked_at_before_a_checkpoint(smoked, monkeypatch, command):
    """Of one that is not there, the Hub is asked."""
    smoked.trusting = False
    for module in (smoke_usecase, sides):
        monkeypatch.setattr(module, "refuse_missing", must_not_begin)
    smoked.run("trust", "recipes/vllm-0.50.yaml")
    run = smoked.run(command, "--vllm", "0.50", "--engine", sys.executable, code=1)
    assert "vpatch trust patches/strength" in run.err


def test_smoke_runs_nothing_that_is_not_trusted(smoked):
    smoked.trusting = False
    run = smoked.run("smoke", "--vllm", "0.50", "--engine", sys.executable, code=1)
    assert "vpatch trust patches/strength recipes/vllm-0.50.yaml" in run.err
    smoked.run("trust", "recipes/vllm-0.50.yaml")
    run = smoked.run("smoke", "--vllm", "0.50", "--engine", sys.executable, code=1)
    assert "vpatch trust patches/strength" in run.err


@pytest.mark.parametrize("command", ["smoke", "bench"])
def test_a_plan_that_is_not_trusted_is_not_run(smoked, command):
    smoked.trusting = False
    smoked.run("trust")
    plan = (
        "bench: {models: {m: {synthetic: all}}, shapes: [{input: 8, output: 8}], concurrency: [1], "
        "cells: [{model: m, k: [0]}]}\n"
    )
    (smoked.folder / "recipes" / "other.yaml").write_text(smoked.recipe.read_text() + plan)
    options = ("--vllm", "0.50", "--engine", sys.executable, "--plan", "other")
    run = smoked.run(command, *options, code=1)
    assert "vpatch trust recipes/other.yaml" in run.err


def test_a_plan_that_is_not_trusted_is_not_run_against_servers(smoked):
    """Its environment would be that of a process here: PYTHONPATH alone runs any code."""
    smoked.trusting = False
    run = smoked.run("bench", "--url", "http://127.0.0.1:9", "--recipe", "vllm-0.50", code=1)
    assert "vpatch trust recipes/vllm-0.50.yaml" in run.err
    assert "does not answer" not in run.err


@pytest.mark.parametrize("what", ["a checkpoint", "a dataset"])
def test_a_container_sees_no_folder_that_only_a_project_names(smoked, monkeypatch, what):
    """It is on this machine's network: what it sees, it can send anywhere."""
    (smoked.folder / "data.jsonl").touch()
    monkeypatch.chdir(smoked.folder)
    files = ["data.jsonl"] if what == "a dataset" else []
    models = [] if files else [given("./model")]
    with pytest.raises(UntrustedError, match="you did not trust it"):
        folders_to_show(Context(), "vllm-0.50", models, files, named=False)
    smoked.run("trust")
    folder = smoked.folder if files else smoked.folder / "model"
    assert folders_to_show(Context(), "vllm-0.50", models, files, named=False) == [folder]


def test_a_container_sees_the_checkpoint_that_the_user_names(smoked, monkeypatch):
    monkeypatch.chdir(smoked.folder)
    folder = smoked.folder / "model"
    assert folders_to_show(Context(), "vllm-0.50", [given("./model")], named=True) == [folder]


@pytest.mark.slow
def test_code_above_a_patch_takes_no_part_in_its_test(proven):
    """A conftest.py there is not what the user trusts."""
    ran = proven.folder / "ran"
    for folder in (proven.folder, proven.patches):
        (folder / "conftest.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    proven.run("test", "--engine", sys.executable, "name-proj")
    assert not ran.exists()


@pytest.mark.slow
def test_a_behaviour_test_gets_no_credentials(proven):
    file = proven.patches / "name-proj" / "test_it.py"
    file.write_text(
        file.read_text() + "import os\n"
        "def test_environment():\n"
        "    names = {'AWS_SECRET_ACCESS_KEY', 'HF_TOKEN', 'GH_TOKEN', 'VLLM_API_KEY'}\n"
        "    assert not names & set(os.environ)\n"
        "    assert os.environ['VLLM_CPU_KVCACHE_SPACE'] == '1'\n"
    )
    secrets = ("AWS_SECRET_ACCESS_KEY", "HF_TOKEN", "GH_TOKEN", "VLLM_API_KEY")
    proven.env |= dict.fromkeys(secrets, "secret") | {"VLLM_CPU_KVCACHE_SPACE": "1"}
    proven.run("test", "--engine", sys.executable, "name-proj")


def test_modules_in_the_current_folder_are_not_imported(project, tmp_path):
    """Code that Python does not know is tried by a Python of its own, which imports libcst."""
    proof = tmp_path / "ran"
    for name in ("libcst", "sitecustomize", "sys", "json", "vllm", "transformers"):
        (project.folder / f"{name}.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    project.patch("third", f"- find: f(x)\n  rewrite: g({' + a' * 600}\n")
    assert "not Python" in project.run("show", "third", code=2, in_process=True).errors
    assert not proof.exists()


def test_a_tokenizer_is_asked_elsewhere_than_in_the_current_folder(tmp_path, monkeypatch):
    proof = tmp_path / "ran"
    for name in ("tokenizers", "transformers", "vllm", "json", "sys"):
        (tmp_path / f"{name}.py").write_text(f"open({str(proof)!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    with suppress(VpatchError):
        tokenizer._ask(Path(sys.executable), "deepseek_v4")
    assert not proof.exists()


def test_what_was_read_before_it_was_trusted_does_not_run(project, monkeypatch):
    """Somebody swaps a file after vpatch read it, and back before trust is looked at."""
    folder = project.patches / "slow-mode"
    file = folder / "patch.yaml"
    good = file.read_text()
    project.trust()
    monkeypatch.chdir(project.folder)
    file.write_text(good.replace('mode="slow"', 'mode="evil"'))
    patch = Context().library.patch("slow-mode")
    file.write_text(good)
    with pytest.raises(UntrustedError, match="it changed while it was read"):
        Context().require_trust([patch])
    Context().require_trust([Context().library.patch("slow-mode")])


def test_a_recipe_that_was_read_before_it_was_trusted_does_not_run(smoked, monkeypatch):
    """The same of a recipe; and its smoke plan is of the bytes that were looked at."""
    good = smoked.recipe.read_text()
    smoked.trust()
    monkeypatch.chdir(smoked.folder)
    honest = Context()
    before = smoke_plan_of(honest, "vllm-0.50")
    evil = good.replace("  defaults:\n", "  defaults:\n    environment: {EVIL: '1'}\n", 1)
    smoked.recipe.write_text(evil)
    deceived = Context()
    assert smoke_plan_of(deceived, "vllm-0.50") != before
    assert smoke_plan_of(honest, "vllm-0.50") == before
    smoked.recipe.write_text(good)
    with pytest.raises(UntrustedError, match="it changed while it was read"):
        deceived.require_trust((), "vllm-0.50")
    honest.require_trust((), "vllm-0.50")
