"""vpatch bump --write: a branch with the change, or nothing."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.commands.bump.kill_driver import faulted
from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    NAMED,
    archive,
    commit,
    git,
    own_repository,
    snapshot,
)

RECIPE = """\
# Kept as it is.
why: two patches
vllm:
  source: "0.50.0"  # the pin
  sha256: {digest}
patches:
  - slow-mode
  # about the next one
  - name-proj
image: {{base: "vllm/vllm-openai:v0.50.0"}}
"""
CURED = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
BRANCH = "vpatch/bump-0.51.0"


@pytest.fixture
def kept(project):
    """A committed project whose second patch is in 0.51.0, with the two digests."""
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: CURED}))
    project.index.add("0.52.0", archive("0.52.0", {ENGINE: b"def start(config): pass\n"}))
    found = project.run("status", "--vllm", "0.50.0", "--patch", "name-proj", "--json").json
    project.old = found["trees"][0]["digest"].removeprefix("sha256:")
    found = project.run("status", "--vllm", "0.51.0", "--patch", "slow-mode", "--json").json
    project.new = found["trees"][0]["digest"].removeprefix("sha256:")
    project.recipe = project.folder / "recipes" / "vllm-0.50.yaml"
    project.recipe.parent.mkdir()
    project.recipe.write_text(RECIPE.format(digest=project.old))
    own_repository(project.folder)
    commit(project)
    return project


def bump(project, *args, code=0):
    return project.run("bump", "vllm-0.50", "--to", "0.51", "--write", *args, code=code)


def show(project, path, branch=BRANCH):
    return git(project.folder, "show", f"{branch}:{path}")


def subjects(project, branch=BRANCH):
    return git(project.folder, "log", "--reverse", "--format=%s", f"main..{branch}").splitlines()


def test_the_branch_has_a_commit_for_each_phase(kept):
    before = snapshot(kept.folder)
    out = bump(kept).out
    assert subjects(kept) == ["recipes: pin vLLM 0.51.0", "recipes: retire 1 patch"]
    tip = git(kept.folder, "rev-parse", BRANCH)[:12]
    assert out.endswith(
        "not run  behaviour tests and smoke plans: vpatch engine --vllm 0.51.0 makes an\n"
        "  engine\n"
        f"branch {BRANCH}  {tip}\n  recipes: pin vLLM 0.51.0\n  recipes: retire 1 patch\n"
        f"next: git switch {BRANCH}, then run what was not run\n"
    )
    # A recipe that is named by its version gets a new file, and the old one stays.
    assert (
        git(kept.folder, "diff", "--name-status", "main", BRANCH) == "A\trecipes/vllm-0.51.yaml\n"
    )
    expected = RECIPE.format(digest=kept.new).replace("0.50.0", "0.51.0")
    assert show(kept, "recipes/vllm-0.51.yaml", f"{BRANCH}~1") == expected
    assert show(kept, "recipes/vllm-0.51.yaml") == expected.replace("  - name-proj\n", "")
    # Neither the work tree nor what is checked out has changed.
    after = snapshot(kept.folder)
    assert {p for p in after if not p.startswith(".git/")} == {
        p for p in before if not p.startswith(".git/")
    }
    assert git(kept.folder, "status", "--porcelain") == ""
    assert git(kept.folder, "branch", "--show-current") == "main\n"


def test_the_messages_have_the_report_and_the_facts(kept):
    bump(kept)
    first, second = (
        git(kept.folder, "log", "-1", "--format=%an <%ae>%n%B", name)
        for name in (f"{BRANCH}~1", BRANCH)
    )
    assert first.startswith("Somebody <s@example>\nrecipes: pin vLLM 0.51.0\n\n# vllm-0.50: vllm")
    assert "## Retire: upstream has the change" in first
    assert "name-proj: retire\n  pull request: the patch declares none\n" in second


def test_a_recipe_with_another_name_is_changed_in_place(kept):
    git(kept.folder, "mv", "recipes/vllm-0.50.yaml", "recipes/mine.yaml")
    commit(kept)
    kept.run("bump", "mine", "--to", "0.51", "--write", "--branch", "new/one")
    assert git(kept.folder, "diff", "--name-status", "main", "new/one") == "M\trecipes/mine.yaml\n"
    assert kept.new in show(kept, "recipes/mine.yaml", "new/one")


@pytest.mark.parametrize(
    "written",
    ["patches: [name-proj, slow-mode]", "patches: [\n  slow-mode,\n  name-proj,\n]"],
    ids=["a line", "lines"],
)
def test_a_list_in_brackets_loses_the_patch(kept, written):
    kept.recipe.write_text(f"vllm: 0.50.0 # pin\n{written}\nstrict: false\n")
    commit(kept)
    bump(kept)
    text = show(kept, "recipes/vllm-0.51.yaml")
    assert text == "vllm: 0.51.0 # pin\npatches: [slow-mode]\nstrict: false\n"


def test_what_a_patch_that_stays_requires_stays_too(kept):
    declared = kept.patches / "slow-mode" / "patch.yaml"
    declared.write_text(f"{declared.read_text()}requires: [name-proj]\n")
    commit(kept)
    out = bump(kept).out
    assert subjects(kept) == ["recipes: pin vLLM 0.51.0"]
    assert "  name-proj stays in vllm-0.50: slow-mode requires it\n" in out


def test_prune_removes_what_nothing_names(kept):
    git(kept.folder, "mv", "recipes/vllm-0.50.yaml", "recipes/mine.yaml")
    commit(kept)
    kept.run("bump", "mine", "--to", "0.51", "--write", "--prune")
    assert subjects(kept)[2:] == ["patches: remove what vLLM 0.51.0 does not need"]
    changed = git(kept.folder, "diff", "--name-status", "main", BRANCH)
    assert changed == "D\tpatches/name-proj/patch.yaml\nM\trecipes/mine.yaml\n"


def test_prune_leaves_what_another_recipe_lists(kept):
    """The old recipe stays beside the new one, and still lists the patch."""
    out = bump(kept, "--prune").out
    assert subjects(kept) == ["recipes: pin vLLM 0.51.0", "recipes: retire 1 patch"]
    assert "patches/name-proj stays: vllm-0.50 names it" in out


def test_a_committed_lock_is_that_of_the_new_recipe(kept):
    kept.run("apply", "--recipe", "vllm-0.50")
    shutil.copy(kept.target / "vpatch.lock", kept.folder / "vpatch.lock")
    commit(kept)
    bump(kept)
    assert subjects(kept)[-1] == "lock: take vLLM 0.51.0"
    git(kept.folder, "switch", "--quiet", BRANCH)
    kept.run("apply", "--recipe", "vllm-0.51")
    made = (kept.folder / ".vpatch" / "vllm-0.51.0" / "vpatch.lock").read_bytes()
    assert (kept.folder / "vpatch.lock").read_bytes() == made
    kept.run("check", "--lock", "vpatch.lock")


@pytest.mark.parametrize("size", [0, 900, -6])
def test_a_git_that_fails_leaves_nothing_and_a_second_one_finishes(
    kept, tmp_path, monkeypatch, size
):
    """git gets a part of the stream, as after kill -9: without the last line, it is not done."""
    wrapper = tmp_path / "bin" / "git"
    wrapper.parent.mkdir()
    real = shutil.which("git")
    wrapper.write_text(
        '#!/bin/sh\ncase "$*" in *fast-import*) '
        f'head -c {size} | "{real}" "$@"; exit 1;; esac\nexec "{real}" "$@"\n'
    )
    wrapper.chmod(0o755)
    before = git(kept.folder, "for-each-ref")
    with monkeypatch.context() as patched:
        patched.setenv("PATH", f"{wrapper.parent}{os.pathsep}{os.environ['PATH']}")
        assert bump(kept, code=4).codes == ("git.unwritable-branch",)
    assert git(kept.folder, "for-each-ref") == before
    assert git(kept.folder, "status", "--porcelain") == ""
    bump(kept)
    assert len(subjects(kept)) == 2
    git(kept.folder, "fsck", "--strict")


def test_nothing_to_do_writes_nothing(kept):
    run = kept.run("bump", "vllm-0.50", "--to", "0.50.0", "--write", "--json")
    assert run.json["written"] is None
    assert git(kept.folder, "branch", "--list", "vpatch/*") == ""


def test_the_branch_as_json(kept):
    written = bump(kept, "--json").json["written"]
    assert written["branch"] == BRANCH
    assert written["commit"] == git(kept.folder, "rev-parse", BRANCH).strip()
    assert written["subjects"] == subjects(kept)


def refused(project, code, *args):
    before = git(project.folder, "for-each-ref")
    assert bump(project, *args, code=2).codes == (code,)
    assert git(project.folder, "for-each-ref") == before


def test_a_branch_that_is_there_stays(kept):
    git(kept.folder, "branch", BRANCH)
    refused(kept, "bump.branch-exists")


def test_a_branch_that_somebody_changed_stays(kept):
    bump(kept)
    git(kept.folder, "switch", "--quiet", BRANCH)
    with (kept.folder / "recipes" / "vllm-0.51.yaml").open("a") as file:
        file.write("# mine\n")
    git(kept.folder, "commit", "--quiet", "--all", "--amend", "--no-edit")
    git(kept.folder, "switch", "--quiet", "main")
    refused(kept, "bump.branch-exists")


def test_a_branch_that_is_there_as_it_would_be_made_is_the_result(kept):
    """As after a run that was killed before it could say so."""
    out = bump(kept).out
    before = git(kept.folder, "for-each-ref")
    assert bump(kept).out == out
    assert git(kept.folder, "for-each-ref") == before


def test_a_name_that_no_branch_can_have(kept):
    refused(kept, "git.bad-branch-name", "--branch", "a..b")


@pytest.mark.parametrize("path", ["recipes/vllm-0.50.yaml", "patches/name-proj/patch.yaml"])
def test_what_is_not_committed_stops_it(kept, path):
    with (kept.folder / path).open("a") as file:
        file.write("# a change\n")
    refused(kept, "bump.uncommitted")


def test_a_recipe_that_git_ignores_stops_it(kept):
    git(kept.folder, "rm", "--quiet", "--cached", "recipes/vllm-0.50.yaml")
    (kept.folder / ".gitignore").write_text("recipes\n.vpatch\n")
    commit(kept)
    refused(kept, "bump.uncommitted")


def test_a_new_recipe_that_is_there_already(kept):
    shutil.copy(kept.recipe, kept.recipe.with_name("vllm-0.51.yaml"))
    commit(kept)
    refused(kept, "bump.recipe-exists")


def test_a_recipe_outside_the_repository(kept):
    folder = kept.folder.parent / "lists"
    folder.mkdir()
    (folder / "other.yaml").write_text("vllm: 0.50.0\npatches: [slow-mode]\n")
    run = kept.run(
        *("bump", "other", "--to", "0.51", "--write", "--recipes-dir", "../lists"), code=2
    )
    assert run.codes == ("bump.foreign-recipe",)


def test_a_folder_without_a_repository(kept):
    shutil.rmtree(kept.folder / ".git")
    # It is refused before a release is looked for.
    run = kept.run("bump", "small", "--to", "0.99", "--write", code=2)
    assert run.codes == ("bump.no-repository",)


def test_a_repository_without_a_commit(kept):
    shutil.rmtree(kept.folder / ".git")
    git(kept.folder, "init", "--quiet")
    assert bump(kept, code=2).codes == ("bump.not-committable",)


def test_a_recipe_of_which_no_patch_is_left(kept):
    kept.recipe.write_text("vllm: 0.50.0\npatches: [name-proj]\n")
    commit(kept)
    refused(kept, "bump.no-patch-left")


def test_a_base_image_by_digest(kept):
    base = "vllm/vllm-openai:v0.50.0@sha256:" + "0" * 64
    kept.recipe.write_text(f"vllm: 0.50.0\npatches: [slow-mode]\nimage: {{base: '{base}'}}\n")
    commit(kept)
    refused(kept, "bump.pinned-base")


def test_a_recipe_that_cannot_be_edited(kept):
    kept.recipe.write_text("vllm: &pin 0.50.0\npatches: [slow-mode]\n")
    commit(kept)
    refused(kept, "bump.unwritable-recipe")


def test_a_pin_that_is_no_release(kept):
    kept.recipe.write_text("vllm: ../tree\npatches: [slow-mode]\n")
    for path, data in FILES.items():
        (kept.folder / "tree" / path).parent.mkdir(parents=True, exist_ok=True)
        (kept.folder / "tree" / path).write_bytes(data)
    commit(kept)
    refused(kept, "bump.not-a-release")


@pytest.mark.parametrize("option", ["--prune", "--branch=x", "--engine=cpu", "--no-proof"])
def test_options_that_need_write(kept, option):
    run = kept.run("bump", "vllm-0.50", "--to", "0.51", option, code=2)
    assert run.codes == ("cli.unused-option",)


def test_an_engine_without_a_proof(kept):
    refused(kept, "cli.unused-option", "--engine", "cpu", "--no-proof")


# --- kills and full disks ---------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["kill", "full"])
def test_a_fault_at_any_step_of_a_write(kept, mode):
    """Driven from another process, which forks: a fault before each change of the disk."""
    kept.run("apply", "--recipe", "vllm-0.50", "--checkout", "one")
    shutil.move(kept.folder / "one" / "vpatch.lock", kept.folder / "vpatch.lock")
    shutil.rmtree(kept.folder / "one")
    commit(kept)
    args = ["bump", "vllm-0.50", "--to", "0.51", "--write", "--offline"]
    seen = faulted(kept, mode, *args)
    assert seen["steps"] > 20
    assert seen["old"] > 5


@pytest.mark.slow
def test_a_full_disk_under_the_repository(kept, tmp_path):
    """Whatever room git has, there is a whole branch or none."""
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=True)
    try:
        shutil.copytree(kept.folder, disk / "project")
        kept.folder = disk / "project"
        old = git(kept.folder, "for-each-ref")
        ends = set()
        for room in range(0, 80_000, 8_000):
            filler = disk / "filler"
            free = shutil.disk_usage(disk).free - room
            filler.write_bytes(b"x" * max(free, 0))
            run = kept.run("bump", "vllm-0.50", "--to", "0.51", "--write", "--offline", code=None)
            filler.unlink()
            written = git(kept.folder, "for-each-ref") != old
            ends.add((run.codes, written))
            assert git(kept.folder, "status", "--porcelain") == ""
            bump(kept)
            assert len(subjects(kept)) == 2
            git(kept.folder, "fsck", "--strict")
            git(kept.folder, "branch", "--quiet", "-D", BRANCH)
        assert ends == {(("git.unwritable-branch",), False), ((), True)}
    finally:
        subprocess.run(["umount", disk], check=True)
