"""vpatch bump --write --pr: a pull request in the user's own repository."""

from __future__ import annotations

import shutil

import pytest

from tests.fake_github import Fault
from tests.git.hostile import prepare
from tests.projects import FILES, LLAMA, archive, git, own_repository
from vpatch.util.extras import EXTRAS

MINE = "me/mine"
BRANCH = "vpatch/bump-0.51.0"
CHANGED = FILES[LLAMA].replace(
    b"        self.head", b"        self.norm = Norm(4)\n        self.head"
)


@pytest.fixture
def kept(project, tmp_path):
    """A committed project whose patch meets other code in 0.51.0, and its bare repository."""
    project.index.add("0.51.0", archive("0.51.0", {LLAMA: CHANGED}))
    recipe = project.folder / "recipes" / "small.yaml"
    recipe.parent.mkdir()
    recipe.write_text("vllm: 0.50.0\npatches: [name-proj]\n")
    own_repository(project.folder)
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", "--message=x")
    project.bare = tmp_path / "origin.git"
    git(project.folder, "init", "--quiet", "--bare", str(project.bare))
    project.env |= {"GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    host(project, "https://github.com")
    return project


def host(project, url):
    """Let origin be a repository on a host; git finds the bare one there."""
    git(project.folder, "config", "remote.origin.url", f"{url}/{MINE}.git")
    git(project.folder, "config", "--global", f"url.{project.bare}.insteadOf", f"{url}/{MINE}.git")
    git(project.folder, "push", "--quiet", "origin", "main")


@pytest.fixture
def hosted(kept, github):
    github.add_repository(MINE, clone_url=str(kept.bare))
    kept.env["GITHUB_API_URL"] = github.url
    host(kept, github.url)
    return kept


def bump(project, *args, code=1):
    asked = ("bump", "small", "--to", "0.51", "--write", "--no-proof", *args)
    return project.run(*asked, code=code)


def tip(folder):
    return git(folder, "for-each-ref", "--format=%(objectname)", f"refs/heads/{BRANCH}")


def refused(project, *args, code=2):
    """The code of the error; nothing was written, and nothing was pushed."""
    run = bump(project, *args, code=code)
    assert "vpatch/" not in git(project.folder, "for-each-ref")
    assert "vpatch/" not in git(project.bare, "for-each-ref")
    return run.codes


def test_a_pull_request_for_the_branch_that_is_checked_out(hosted, github):
    git(hosted.folder, "switch", "--quiet", "-c", "work")
    out = bump(hosted, "--pr").out
    (pull,) = github.find(MINE).threads.values()
    said = f"/{MINE}/pull/{pull.number} is a new pull request for work"
    assert " ".join(out.split()).endswith(said)
    assert (pull.head_repo, pull.head_ref, pull.base_ref) == (MINE, BRANCH, "work")
    assert (pull.title, pull.draft) == ("recipes: pin vLLM 0.51.0", False)
    assert pull.body.startswith("# small: vllm 0.50.0 to 0.51.0\n")
    assert "+        self.norm = Norm(4)" in pull.body
    assert tip(hosted.bare) == tip(hosted.folder) != ""


def test_a_branch_that_waits_for_a_person_is_not_sent(hosted, github):
    gone = FILES[LLAMA].replace(b"self.proj", b"self.other")
    hosted.index.add("0.52.0", archive("0.52.0", {LLAMA: gone}))
    asked = ("bump", "small", "--to", "0.52", "--write", "--no-proof", "--pr")
    out = hosted.run(*asked, code=1).out
    assert out.endswith("--pr opens no pull request while a recipe is unsettled\n")
    assert github.find(MINE).threads == {}
    assert "vpatch/" in git(hosted.folder, "for-each-ref")
    assert "vpatch/" not in git(hosted.bare, "for-each-ref")


@pytest.fixture
def settled(hosted):
    """A bump whose one patch is taken out of the recipe by a person."""
    gone = FILES[LLAMA].replace(b"self.proj", b"self.other")
    hosted.index.add("0.52.0", archive("0.52.0", {LLAMA: gone}))
    hosted.run("bump", "small", "--to", "0.52", "--write", "--no-proof", code=1)
    hosted.branch = "vpatch/bump-0.52.0"
    git(hosted.folder, "switch", "--quiet", hosted.branch)
    recipe = hosted.folder / "recipes" / "small.yaml"
    recipe.write_text(recipe.read_text().replace("[name-proj]", "[slow-mode]", 1))
    return hosted


def test_a_settled_bump_is_sent_to_where_it_began(settled, github):
    run = settled.run("bump", "--continue", "--no-proof", "--pr", "--json")
    (pull,) = github.find(MINE).threads.values()
    assert run.json["pull"]["opened"]
    assert (pull.head_ref, pull.base_ref) == (settled.branch, "main")
    assert pull.title == "recipes: pin vLLM 0.52.0"
    assert pull.body.startswith("# small: vllm 0.50.0 to 0.52.0\n")
    assert "recipes: settle vLLM 0.52.0\n\nname-proj: in no recipe" in pull.body
    assert git(settled.bare, "rev-parse", settled.branch).strip() == run.json["settled"]["commit"]
    assert "refs/vpatch/" not in git(settled.folder, "for-each-ref")


def test_the_pull_request_of_a_settled_bump_can_be_had_later(settled, github):
    github.faults = [Fault("POST", "/pulls$", 500)]
    settled.run("bump", "--continue", "--no-proof", "--pr", code=4)
    run = settled.run("bump", "--continue", "--no-proof", "--pr")
    (pull,) = github.find(MINE).threads.values()
    assert f"/{MINE}/pull/{pull.number} is a new pull request for main" in " ".join(run.out.split())
    assert settled.run("bump", "--continue", "--pr", code=2).codes == ("bump.none-open",)


def test_a_bump_of_another_clone_is_not_sent(settled):
    ref = f"refs/vpatch/bump/{settled.branch}"
    git(settled.folder, "update-ref", "-d", ref)
    run = settled.run("bump", "--continue", "--no-proof", "--pr", code=2)
    assert run.codes == ("bump.other-clone",)
    assert "vpatch/" not in git(settled.bare, "for-each-ref")


def test_nothing_that_the_project_names_is_run(hosted, github, tmp_path):
    """Whoever made the repository may have named any program; vpatch has a token then."""
    script = tmp_path / "programs" / "evil"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\nexit 1\n")
    script.chmod(0o755)
    prepare(hosted.folder / ".git", hosted.folder, script)
    shutil.copy(script, hosted.folder / ".git" / "hooks" / "pre-push")
    with (hosted.folder / ".git" / "config").open("a") as config:
        config.write(f'[remote "origin"]\n\turl = {github.url}/{MINE}.git\n')
        config.write(f'[remote "origin"]\n\treceivepack = {script}\n\tvcs = evil\n')
    assert bump(hosted, "--pr", "--json").json["pull"]["opened"]
    assert tip(hosted.bare) != ""
    assert not (tmp_path / "ran").exists()


def test_a_second_run_finds_what_the_first_one_did(hosted, github):
    bump(hosted, "--pr")
    found = bump(hosted, "--pr", "--json").json["pull"]
    assert (found["pushed"], found["opened"]) == (False, False)
    assert found["said"] == f"{found['url']} is open already"
    assert len(github.find(MINE).threads) == 1


def test_a_run_that_was_cut_off_is_finished_by_the_next(hosted, github):
    github.faults = [Fault("POST", "/pulls$", 500)]
    bump(hosted, "--pr", code=4)
    before = tip(hosted.bare)
    found = bump(hosted, "--pr", "--json").json["pull"]
    assert (found["pushed"], found["opened"]) == (False, True)
    assert tip(hosted.bare) == before != ""


def test_a_branch_of_other_people_stays(hosted):
    git(hosted.folder, "push", "--quiet", "origin", f"main:refs/heads/{BRANCH}")
    before = tip(hosted.bare)
    found = bump(hosted, "--pr", "--json").json["pull"]
    assert (found["pushed"], found["opened"]) == (False, True)
    assert found["said"].endswith(f"; origin has another {BRANCH}, which stays")
    assert tip(hosted.bare) == before


def test_who_closed_it_gets_no_other_one(hosted, github):
    github.find(MINE).add_pull("No", 5, state="closed", head_ref=BRANCH)
    found = bump(hosted, "--pr", "--json").json["pull"]
    assert (found["pushed"], found["opened"]) == (False, False)
    assert "was closed, so nothing is sent" in found["said"]
    assert len(github.find(MINE).threads) == 1
    assert tip(hosted.bare) == ""


def test_after_a_merge_there_is_another_one(hosted, github):
    github.find(MINE).add_pull("Yes", 5, merged=True, head_ref=BRANCH)
    assert bump(hosted, "--pr", "--json").json["pull"]["opened"]


@pytest.mark.parametrize(("longest", "is_cut"), [(400, False), (100, True)])
def test_a_body_that_is_too_long_has_no_diffs_or_is_cut_off(
    hosted, github, monkeypatch, longest, is_cut
):
    monkeypatch.setattr("vpatch.commands.bump.pull._LONGEST_BODY", longest)
    bump(hosted, "--pr")
    (pull,) = github.find(MINE).threads.values()
    assert pull.body.startswith("# small: vllm 0.50.0 to 0.51.0\n")
    assert "norm" not in pull.body
    assert pull.body.endswith("`vpatch bump --output` writes all of it.\n") == is_cut


def test_github_is_asked_before_anything_is_written(hosted, github):
    github.repositories.clear()
    assert refused(hosted, "--pr", code=1) == ("github.not-found",)


def test_another_repository_than_that_of_origin(hosted):
    git(hosted.folder, "config", "remote.origin.url", str(hosted.bare))
    assert refused(hosted, "--pr") == ("bump.no-remote",)
    assert bump(hosted, "--pr", "--repository", MINE, "--json").json["pull"]["opened"]


def test_without_pr_it_says_what_it_would_do(kept):
    out = " ".join(bump(kept).out.split())
    assert (
        f"--pr would push {BRANCH} to origin, and open a pull request for main of {MINE}"
    ) in out
    assert "vpatch/" not in git(kept.bare, "for-each-ref")


def test_without_a_remote_there_is_nothing_to_say(kept):
    git(kept.folder, "remote", "remove", "origin")
    assert "--pr" not in bump(kept).out


def test_no_remote(kept):
    git(kept.folder, "remote", "remove", "origin")
    assert refused(kept, "--pr") == ("bump.no-remote",)


def test_no_token(kept):
    kept.env |= {"GH_TOKEN": "", "GITHUB_TOKEN": "", "PATH": "/usr/bin:/bin"}
    assert refused(kept, "--pr") == ("bump.no-token",)


def test_another_host(kept):
    kept.env["GITHUB_API_URL"] = "http://127.0.0.1:1"
    assert refused(kept, "--pr") == ("bump.other-host",)


def test_no_branch_is_checked_out(kept):
    git(kept.folder, "switch", "--quiet", "--detach")
    assert refused(kept, "--pr") == ("bump.no-base",)


def test_it_needs_its_extra(kept, monkeypatch):
    monkeypatch.setitem(EXTRAS, "upstream", ("no_such_module",))
    assert refused(kept, "--pr", code=4) == ("util.missing-extra",)


@pytest.mark.parametrize(
    "options",
    [("--pr",), ("--write", "--repository", MINE), ("--write", "--pr", "--offline")],
    ids=" ".join,
)
def test_options_without_effect(kept, options):
    run = kept.run("bump", "small", "--to", "0.51", *options, code=2)
    assert run.codes == ("cli.unused-option",)
