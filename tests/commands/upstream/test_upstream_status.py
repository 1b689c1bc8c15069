"""vpatch upstream-status: three answers, a proposal, and what is known without a network."""

from __future__ import annotations

import math

import pytest

from tests.commands.upstream.proposals import UPSTREAM
from tests.fake_github import Fault
from vpatch.util.record_store import RecordStore

DECLARED = """
upstream:
  - {ref: vllm-project/vllm#7, is: issue}
  - ref: vllm-project/vllm#9
    is: pull request
    relation: same change
    state: merged
    release: 0.51.0
"""
SHA = "c" * 40


@pytest.fixture
def declared(project, github):
    """A patch with an issue and a merged pull request, which is in 0.51.0 and later."""
    there = github.add_repository(UPSTREAM)
    there.add_issue("It fails", 7)
    there.add_pull("Fix", 9, merged=True, merge_commit_sha=SHA)
    there.tags = {"v0.50.0": set(), "v0.51.0rc1": {SHA}, "v0.50.1": set(), "v0.51.0": {SHA}}
    there.tags |= {"v0.52.0": {SHA}, "nightly": {SHA}}
    with (project.patches / "name-proj" / "patch.yaml").open("a") as file:
        file.write(DECLARED)
    project.env |= {"GITHUB_API_URL": github.url, "GH_TOKEN": "ghp_test", "NO_PROXY": "127.0.0.1"}
    return project


def status(project, *args, code=0, patch="name-proj"):
    chosen = ("--patch", patch) if patch else ()
    return project.run("upstream-status", "--vllm", "0.50.0", *chosen, *args, code=code)


def test_the_three_answers(declared, github):
    assert status(declared).out == (
        "vllm 0.50.0  vllm-0.50.0.tar.gz  sha256:"
        + status(declared).out.split("sha256:")[1][:12]
        + "\n"
        "name-proj\n"
        "  vllm-project/vllm#7  issue: open\n"
        "  vllm-project/vllm#9  pull request, same change: merged, in 0.51.0 and later\n"
        "  vllm-0.50.0  needed\n"
        "  keep: vllm-project/vllm#9 is in 0.51.0: drop it when that is pinned\n"
    )
    # Which tag has what never changes, and is asked once; neither are candidates of releases.
    assert github.count("GET", "/compare/") <= 3
    assert not any("rc1" in one.path or "nightly" in one.path for one in github.requests)


def test_all_patches_that_name_a_thread(declared):
    found = {
        one["patch"]: one
        for one in status(declared, "--library", "--json", code=1, patch=None).json["patches"]
    }
    # Those that come along name threads that this GitHub does not have.
    assert set(found) == {"name-proj", "mtp-proj-prefix", "cpu-spec-decode-fp64-gumbel"}
    assert len(found["mtp-proj-prefix"]["unknown"]) == 4
    one = found["name-proj"]
    assert one["unknown"] == []
    assert (one["patch"], one["state"], one["proposal"]) == ("name-proj", "needed", "keep")
    assert [thread["release"] for thread in one["threads"]] == [None, "0.51.0"]
    assert all(thread["live"] for thread in one["threads"])


def test_a_tree_that_has_the_effect(declared):
    declared.index.add("0.51.0", with_the_effect("0.51.0"))
    run = status(declared, "--vllm", "0.51.0", code=1)
    assert "  vllm-0.51.0  upstreamed\n  drop: the tree has the effect: " in run.out


def test_nothing_is_dropped_on_code_that_no_record_has(declared):
    declared.index.add("0.51.0", with_the_effect("0.51.0", b"(4, 8, bias=False)"))
    declared.run("test", "name-proj", "--record", "--vllm", "0.50.0")
    run = status(declared, "--vllm", "0.51.0", code=1)
    assert "  keep: look again before you drop it: the tree has the effect: " in run.out
    assert "; new shape: differs from 0.50.0 in " in run.out
    declared.run("test", "name-proj", "--record", "--vllm", "0.51.0")
    assert "  drop: the tree has " in status(declared, "--vllm", "0.51.0", code=1).out


def test_code_as_the_patch_makes_it_is_on_record(declared):
    declared.index.add("0.51.0", with_the_effect("0.51.0"))
    declared.run("test", "name-proj", "--record", "--vllm", "0.50.0")
    assert "  drop: the tree has " in status(declared, "--vllm", "0.51.0", code=1).out


def with_the_effect(version, head=b"(4, 8)"):
    from tests.projects import FILES, LLAMA, NAMED, archive

    old = b"        self.proj = Linear(4, 4)  # narrow\n"
    llama = FILES[LLAMA].replace(old, NAMED).replace(b"(4, 8)", head)
    return archive(version, {LLAMA: llama})


def test_contained_and_without_effect(declared, github):
    """The release has the merge, and the tree does not show it: reverted, say."""
    github.find(UPSTREAM).tags["v0.50.0"] = {SHA}
    github.find(UPSTREAM).tags["v0.50.1"] = {SHA}
    run = status(declared, code=1)
    assert "declared to be in 0.51.0, and is in 0.50.0: correct patch.yaml" in run.out
    assert (
        "keep: vllm-project/vllm#9 is in 0.50.0, and this tree does not have the effect" in run.out
    )


def test_what_is_declared_and_not_so(declared, github):
    github.find(UPSTREAM).threads[9].merged = False
    run = status(declared, code=1)
    assert "    declared as merged, and is closed: correct patch.yaml\n" in run.out


def test_offline_says_how_old(declared, github):
    status(declared)
    asked = len(github.requests)
    out = status(declared, "--offline").out
    assert out.count("    as GitHub said then: less than a minute old\n") == 2
    assert "merged, in 0.51.0 and later" in out
    (file,) = (declared.cache / "github").rglob("9.json")
    store = RecordStore(file.parent)
    store.put("9", store.get("9", dict) | {"asked": "2026-01-01T00:00:00+00:00"})
    assert " days old\n" in status(declared, "--offline").out
    assert len(github.requests) == asked


def test_offline_and_never_asked(declared):
    declared.run("status", "--vllm", "0.50.0")
    out = status(declared, "--offline", code=4).out
    # Of the issue nothing is declared, and nothing depends on it.
    assert "  vllm-project/vllm#7  not known\n" in out
    assert (
        "  vllm-project/vllm#9  pull request, same change: merged, in 0.51.0 and later\n"
        "    as declared in patch.yaml: GitHub was not asked\n"
    ) in out
    assert "  vllm-0.50.0  needed\n" in out
    assert "  keep: vllm-project/vllm#9 is in 0.51.0: drop it when that is pinned\n" in out
    assert out.endswith(
        "not known: GitHub was never asked about it, and --offline forbids to ask\n"
        "next: run it once without --offline\n"
    )
    run = status(declared, "--offline", "--json", code=4)
    (found,) = run.json["patches"]
    (thread,) = found["threads"]
    assert (thread["ref"], thread["asked"]) == ("vllm-project/vllm#9", None)
    (error,) = run.json_errors
    assert (error["code"], error["where"]) == ("upstream.unknown-thread", "vllm-project/vllm#7")


def test_github_is_out_of_reach(declared):
    status(declared)
    declared.env["GITHUB_API_URL"] = "http://127.0.0.1:9"
    run = status(declared)
    assert "GitHub could not be reached" in run.err
    assert "these are its last answers" in run.err
    assert "as GitHub said then" in run.out


def test_github_is_out_of_reach_and_was_never_asked(declared):
    declared.env["GITHUB_API_URL"] = "http://127.0.0.1:9"
    assert "  vllm-project/vllm#7  not known\n" in status(declared, code=4).out
    run = status(declared, "--json", code=4)
    assert [one["code"] for one in run.json_errors] == ["upstream.unknown-thread"]


def test_github_fails(declared, github):
    """A retry may help, unless something needs a person as well."""
    github.faults = [Fault("GET", "/issues/9$", 502, times=math.inf)]
    assert "#9  not known: GitHub failed with 502" in status(declared, code=4).out
    run = status(declared, "--json", code=4)
    assert run.json["patches"][0]["proposal"] == "keep"
    assert [one["code"] for one in run.json_errors] == ["github.failed"]
    del github.find(UPSTREAM).threads[7]
    run = status(declared, "--json", code=1)
    assert {one["code"] for one in run.json_errors} == {"github.failed", "github.not-found"}


def test_a_damaged_answer_is_asked_for_anew(declared):
    status(declared)
    for file in (declared.cache / "github").rglob("*.json"):
        file.write_text("{")
    status(declared)
    for file in (declared.cache / "github").rglob("*.json"):
        RecordStore(file.parent).put(file.stem, {"asked": "x"})
    assert "GitHub was not asked" in status(declared, "--offline", code=4).out


def test_every_thread_that_cannot_be_asked_is_named(declared, github):
    del github.find(UPSTREAM).threads[7]
    github.faults = [Fault("GET", "/issues/9$", 401)]
    out = status(declared, code=1).out
    assert "#7  not known: it does not exist, or the token cannot see it\n" in out
    assert "#9  not known: GitHub does not accept the token\n" in out
    assert out.count("\nnext: ") == 2


def test_no_patch_names_a_thread(declared):
    out = declared.run("upstream-status", "--vllm", "0.50.0", "--patch", "slow-mode").out
    assert out == "no patch here names a thread upstream\n"


def test_anonymous(declared):
    del declared.env["GH_TOKEN"]
    assert "merged, in 0.51.0" in status(declared).out
