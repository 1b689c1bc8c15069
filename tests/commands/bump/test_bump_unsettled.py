"""vpatch bump --write where a patch does not fit: the branch waits for a person."""

from __future__ import annotations

import shutil
from dataclasses import replace

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
    write_tree,
)

RECIPE = """\
# Kept as it is.
vllm: 0.50.0
patches: [slow-mode, name-proj]
"""
CURED = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
# Upstream changed the line that slow-mode changes.
DIFFERS = FILES[ENGINE].replace(b"fast", b"faster")
BRANCH = "vpatch/bump-0.51.0"
MARK = "unsettled: {release: 0.51.0, patches: [slow-mode]}\n"


@pytest.fixture
def kept(project):
    """A committed project whose second patch is in 0.51.0, and whose first one does not fit it."""
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: CURED, ENGINE: DIFFERS}))
    project.recipe = project.folder / "recipes" / "mine.yaml"
    project.recipe.parent.mkdir()
    project.recipe.write_text(RECIPE)
    own_repository(project.folder)
    commit(project)
    return project


def bump(project, *args, code=1):
    return project.run("bump", "mine", "--to", "0.51", "--write", *args, code=code)


def begun(project, *args):
    """A bump that waits, and its branch is checked out."""
    run = bump(project, *args)
    git(project.folder, "switch", "--quiet", BRANCH)
    return run


def settle(project):
    project.run("edit", "slow-mode", "--vllm", "0.51.0")
    file = project.folder / ".vpatch" / "edit-slow-mode" / ENGINE
    file.write_bytes(FILES[ENGINE].replace(b"fast", b"slower"))
    project.run("refresh", "slow-mode")


def subjects(project, branch=BRANCH):
    return git(project.folder, "log", "--reverse", "--format=%s", f"main..{branch}").splitlines()


def status(project):
    return git(project.folder, "status", "--porcelain", "--untracked-files=no")


def branches(project):
    return git(project.folder, "for-each-ref", "--format=%(refname)").split()


def test_the_branch_has_what_is_decided_and_says_what_is_not(kept):
    before = snapshot(kept.folder / "recipes")
    out = bump(kept).out
    assert subjects(kept) == ["recipes: pin vLLM 0.51.0", "recipes: retire 1 patch"]
    first, second = (
        git(kept.folder, "show", f"{name}:recipes/mine.yaml") for name in (f"{BRANCH}~1", BRANCH)
    )
    assert first.endswith(MARK)
    assert second == (
        "# Kept as it is.\nvllm: 0.51.0\npatches: [slow-mode]\n"
        f"# Written by vpatch bump, and taken out by vpatch bump --continue.\n{MARK}"
    )
    assert out.splitlines()[1] == "  needs a person  slow-mode"
    assert "    next: vpatch edit slow-mode --vllm 0.51.0\n" in out
    assert out.endswith(
        "unsettled  mine: slow-mode\n"
        f"next: git switch {BRANCH}, and make the patches fit:\n"
        "  vpatch edit slow-mode --vllm 0.51.0, then vpatch refresh slow-mode\n"
        "then: vpatch bump --continue; vpatch bump --abort goes back\n"
    )
    assert snapshot(kept.folder / "recipes") == before
    assert status(kept) == ""


def test_the_same_run_again_is_the_same_branch(kept):
    out = bump(kept).out
    before = git(kept.folder, "for-each-ref")
    assert bump(kept).out == out
    assert git(kept.folder, "for-each-ref") == before


@pytest.fixture
def unsettled(kept):
    """A recipe that says so itself."""
    kept.recipe.write_text(RECIPE + MARK)
    commit(kept)
    return kept


@pytest.mark.parametrize(
    "words",
    [
        ("apply", "--recipe", "mine"),
        ("apply", "--recipe", "mine", "--patch", "name-proj"),
        ("run", "--recipe", "mine", "--dry-run", "--", "true"),
        ("smoke", "--recipe", "mine"),
        ("build-image", "--recipe", "mine"),
        ("wheel", "--recipe", "mine"),
        ("audit", "--recipe", "mine"),
        ("bump", "mine", "--to", "0.51", "--write"),
    ],
    ids=" ".join,
)
def test_nothing_is_made_of_an_unsettled_recipe(unsettled, words):
    run = unsettled.run(*words, code=1)
    assert run.codes == ("library.unsettled-recipe",)
    assert "recipes/mine.yaml:4" in run.errors
    assert "slow-mode does not fit vLLM 0.51.0 yet" in run.errors
    assert "next: run vpatch edit slow-mode --vllm 0.51.0" in run.errors


def test_a_second_bump_says_that_the_recipe_is_unsettled(kept):
    begun(kept)
    out = bump(kept, code=0).out
    assert "mine pins vllm-0.51.0 already, and is unsettled: vpatch bump --continue" in out


def test_a_lock_of_an_unsettled_recipe_is_not_made_again(kept):
    kept.run("apply", "--recipe", "mine")
    kept.run("check")
    kept.recipe.write_text(RECIPE + MARK)
    assert kept.run("check", code=1).codes == ("library.unsettled-recipe",)


def test_who_only_reads_may_read_it(kept):
    begun(kept)
    kept.run("status", "--recipe", "mine", code=1)
    out = kept.run("show", "slow-mode", "--recipe", "mine", "--diff", code=1).out
    assert "slow-mode is conflict in vllm-0.51.0, in the recipe mine" in out
    out = kept.run("bump", "mine", "--to", "0.51.0").out
    assert "mine pins vllm-0.51.0 already" in out


def test_a_settled_bump_is_committed(kept):
    kept.run("apply", "--recipe", "mine")
    shutil.copy(kept.target / "vpatch.lock", kept.folder / "vpatch.lock")
    commit(kept)
    out = begun(kept).out
    assert "vpatch.lock stays: mine is unsettled" in out
    settle(kept)
    (kept.folder / "notes").write_text("my own\n")
    git(kept.folder, "add", "notes")
    settled = kept.run("bump", "--continue", "--json").json["settled"]
    assert (
        subjects(kept)[2:]
        == settled["subjects"]
        == [
            "patches: fit slow-mode to vLLM 0.51.0",
            "recipes: settle vLLM 0.51.0",
            "lock: take vLLM 0.51.0",
        ]
    )
    assert settled["patches"] == [{"patch": "slow-mode", "state": "needed in 1 place"}]
    assert settled["commit"] == git(kept.folder, "rev-parse", BRANCH).strip()
    assert kept.recipe.read_text() == ("# Kept as it is.\nvllm: 0.51.0\npatches: [slow-mode]\n")
    # What somebody else put into the index stays there.
    assert status(kept) == "A  notes\n"
    kept.run("apply", "--recipe", "mine")
    made = (kept.folder / ".vpatch" / "vllm-0.51.0" / "vpatch.lock").read_bytes()
    assert (kept.folder / "vpatch.lock").read_bytes() == made
    kept.run("check", "--vllm", "0.51.0")
    assert kept.run("bump", "--continue", code=2).codes == ("bump.none-open",)
    assert kept.run("bump", "--abort", code=2).codes == ("bump.none-open",)


def test_what_is_not_settled_goes_on_to_wait(kept):
    begun(kept)
    before = git(kept.folder, "for-each-ref"), snapshot(kept.folder / "recipes")
    run = kept.run("bump", "--continue", code=1)
    assert run.codes == ("bump.unsettled",)
    assert "slow-mode is conflict: " in run.errors
    assert (git(kept.folder, "for-each-ref"), snapshot(kept.folder / "recipes")) == before


def test_a_patch_that_is_taken_out_of_the_recipe_is_settled(kept):
    """name-proj is what remains; the person keeps it."""
    begun(kept)
    kept.recipe.write_text(f"vllm: 0.51.0\npatches: [name-proj]\n{MARK}strict: false\n")
    out = kept.run("bump", "--continue").out
    assert "settled  slow-mode: in no recipe\n" in out
    assert kept.recipe.read_text() == "vllm: 0.51.0\npatches: [name-proj]\nstrict: false\n"
    assert status(kept) == ""


def test_continue_refuses_what_it_would_not_commit(kept):
    begun(kept)
    settle(kept)
    other = kept.patches / "name-proj" / "patch.yaml"
    other.write_text(other.read_text() + "# mine\n")
    run = kept.run("bump", "--continue", code=2)
    assert run.codes == ("bump.uncommitted",)
    assert "patches/name-proj/patch.yaml" in run.errors


def test_a_proof_that_fails_leaves_it_unsettled(kept):
    begun(kept)
    settle(kept)
    # The code after is that before.
    for side in ("before", "after"):
        write_tree(kept.patches / "slow-mode" / "examples" / "needed-one" / side)
    before = git(kept.folder, "for-each-ref")
    assert kept.run("bump", "--continue", code=1).codes == ("bump.proof-failed",)
    assert git(kept.folder, "for-each-ref") == before
    assert kept.recipe.read_text().endswith(MARK)
    kept.run("bump", "--continue", "--no-proof")


def test_continue_needs_the_branch(kept):
    assert kept.run("bump", "--continue", code=2).codes == ("bump.none-open",)
    bump(kept)
    run = kept.run("bump", "--continue", code=2)
    assert run.codes == ("bump.none-open",)
    assert f"git switch {BRANCH}" in run.errors


def test_what_a_run_left_that_was_killed_is_no_hindrance(kept):
    tree = git(kept.folder, "rev-parse", "HEAD^{tree}").strip()
    stale = git(kept.folder, "commit-tree", "-m", "stale", tree).strip()
    git(kept.folder, "update-ref", "refs/vpatch/written", stale)
    bump(kept)
    assert branches(kept) == [
        "refs/heads/main",
        f"refs/heads/{BRANCH}",
        f"refs/vpatch/bump/{BRANCH}",
    ]


@pytest.mark.parametrize("switched", [True, False])
def test_abort_goes_back(kept, switched):
    refs, tree = git(kept.folder, "for-each-ref"), snapshot(kept.folder / "recipes")
    bump(kept)
    if switched:
        git(kept.folder, "switch", "--quiet", BRANCH)
    (kept.folder / "notes").write_text("my own\n")
    aborted = kept.run("bump", "--abort", "--json").json["aborted"]
    assert (aborted["branch"], aborted["checked_out"]) == (BRANCH, "main")
    assert git(kept.folder, "for-each-ref") == refs
    assert git(kept.folder, "branch", "--show-current") == "main\n"
    assert snapshot(kept.folder / "recipes") == tree
    assert status(kept) == ""
    assert (kept.folder / "notes").read_text() == "my own\n"
    git(kept.folder, "fsck", "--strict")


def test_abort_goes_back_to_a_commit(kept):
    git(kept.folder, "switch", "--quiet", "--detach")
    head = git(kept.folder, "rev-parse", "HEAD")
    begun(kept)
    kept.run("bump", "--abort")
    assert git(kept.folder, "branch", "--show-current") == ""
    assert git(kept.folder, "rev-parse", "HEAD") == head
    assert status(kept) == ""


def test_abort_in_another_work_tree(kept, tmp_path):
    """git checks out a branch in one work tree, so `main` is not checked out twice."""
    bump(kept)
    other = tmp_path / "other"
    git(kept.folder, "worktree", "add", "--quiet", str(other), BRANCH)
    run = kept.run("bump", "--abort", code=2)
    assert run.codes == ("bump.other-work-tree",)
    assert str(other) in run.errors
    assert f"refs/heads/{BRANCH}" in branches(kept)
    replace(kept, folder=other).run("bump", "--abort")
    assert branches(kept) == ["refs/heads/main"]
    assert git(other, "branch", "--show-current") == ""
    assert git(other, "rev-parse", "HEAD") == git(kept.folder, "rev-parse", "main")
    assert git(other, "status", "--porcelain") == ""


def test_a_work_tree_that_is_gone_is_no_hindrance(kept, tmp_path):
    bump(kept)
    git(kept.folder, "worktree", "add", "--quiet", str(tmp_path / "other"), BRANCH)
    shutil.rmtree(tmp_path / "other")
    kept.run("bump", "--abort")
    assert branches(kept) == ["refs/heads/main"]


def test_another_clone_does_not_know_where_it_began(kept):
    begun(kept)
    git(kept.folder, "update-ref", "-d", f"refs/vpatch/bump/{BRANCH}")
    refuses_abort(kept, "bump.other-clone")


def refuses_abort(project, code):
    before = git(project.folder, "for-each-ref"), snapshot(project.folder / "patches")
    assert project.run("bump", "--abort", code=2).codes == (code,)
    assert (git(project.folder, "for-each-ref"), snapshot(project.folder / "patches")) == before


def test_abort_refuses_to_lose_what_was_solved(kept):
    begun(kept)
    settle(kept)
    refuses_abort(kept, "bump.own-changes")
    commit(kept)
    refuses_abort(kept, "bump.own-commits")
    git(kept.folder, "commit", "--quiet", "--amend", "--message=y")
    git(kept.folder, "switch", "--quiet", "main")
    refuses_abort(kept, "bump.own-commits")


def test_abort_refuses_an_old_branch_that_moved_on(kept):
    bump(kept)
    git(kept.folder, "commit", "--quiet", "--allow-empty", "--message=later")
    git(kept.folder, "switch", "--quiet", BRANCH)
    refuses_abort(kept, "bump.base-moved")
    git(kept.folder, "switch", "--quiet", "main")
    kept.run("bump", "--abort")
    assert branches(kept) == ["refs/heads/main"]


def test_a_record_that_is_damaged_is_named(kept):
    (kept.folder / "other").write_text("{}")
    blob = git(kept.folder, "hash-object", "-w", "other").strip()
    git(kept.folder, "update-ref", "refs/vpatch/bump/x", blob)
    run = kept.run("bump", "--abort", code=1)
    assert run.codes == ("bump.damaged-record",)
    assert "git update-ref -d refs/vpatch/bump/x" in run.errors


def test_several_that_wait(kept):
    bump(kept)
    bump(kept, "--branch", "another")
    refuses_abort(kept, "bump.several-open")
    git(kept.folder, "switch", "--quiet", "another")
    kept.run("bump", "--abort")
    assert f"refs/heads/{BRANCH}" in branches(kept)
    assert "refs/heads/another" not in branches(kept)


@pytest.mark.parametrize(
    "words", [("--continue", "--to", "0.51"), ("--abort", "mine"), ("--abort", "--continue"), ()]
)
def test_options_that_exclude_each_other(kept, words):
    run = kept.run("bump", *words, code=2)
    assert run.codes == ("cli.unused-option" if words else "cli.missing-option",)


def test_untrusted_code_is_not_waited_for(kept):
    """Nobody can tell whether the patch fits."""
    folder = kept.patch("coded", "- {codemod: codemod.py, contains: class Llama, expect: 1}")
    (folder / "codemod.py").write_text("def transform(module):\n    return module, 0\n")
    kept.recipe.write_text(RECIPE.replace("name-proj", "coded"))
    commit(kept)
    assert bump(kept, code=2).codes == ("bump.needs-a-person",)
    assert branches(kept) == ["refs/heads/main"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [("mine", "--to", "0.51", "--write"), ("--continue",), ("--abort",)]
)
def test_a_kill_leaves_the_old_or_the_new(kept, words):
    """Driven from another process, which forks: a kill before each change of the disk."""
    kept.run("apply", "--recipe", "mine", "--checkout", "one")
    shutil.move(kept.folder / "one" / "vpatch.lock", kept.folder / "vpatch.lock")
    shutil.rmtree(kept.folder / "one")
    commit(kept)
    # The cache has the release then.
    kept.run("bump", "mine", "--to", "0.51", code=1)
    if "--write" not in words:
        begun(kept)
    if "--continue" in words:
        settle(kept)
    seen = faulted(kept, "kill", "bump", *words, "--offline")
    assert seen["steps"] > 5
    assert seen["old"] > 3
