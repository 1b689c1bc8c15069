"""vpatch upstream-pr without --submit: what it shows, and its gates."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.commands.smoke.builders import rewritten
from tests.commands.upstream.proposals import LLAMA, TEST_AT, UPSTREAM, git
from tests.fake_github import Fault
from vpatch.commands.upstream import proposal

NETWORK = {
    "not merged already",
    "not ended before",
    "not proposed by others",
    "open pull requests",
}
LOCAL = {"needed upstream", "stands alone", "evidence", "test for upstream", "title", "size",
         "sign-off"}  # fmt: skip


def test_all_gates_pass(upstream):
    run = upstream.run()
    lines = run.out.splitlines()
    assert lines[0].startswith(f"vllm 0.50.0  {upstream.repo}  sha1:")
    assert lines[0].endswith("for vllm-project/vllm:main")
    assert lines[1:4] == [
        "branch  vpatch/name-proj",
        "title   [Bugfix] name-proj",
        "labels  bug (by upstream's own rules)",
    ]
    assert lines[-1] == "11 of 11 gates pass, 0 fail"
    assert (
        "\nCo-authored-by: Some Assistant\nSigned-off-by: Pat Person <pat@example.com>\n" in run.out
    )
    assert '+        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow\n' in run.out
    assert "\n+def test_prefix():\n" in run.out
    assert "- read every changed line" in run.out
    assert upstream.tip() is None
    assert upstream.github.count("POST", "/pulls$") == 0


def test_the_body_stands_on_its_own(upstream):
    body = upstream.run("--json").json["body"]
    for said in (
        "The projection has no prefix, and quantisation cannot find it.\n\nRelated: #7\n",
        "- Quantised models load.\n",
        "Load a quantised model.",
        f'python -m pytest {TEST_AT} -v -k "test_prefix or test_head"',
        "| `test_prefix` | failed | passed | `assert False` |",
        "Without it, the small model fails.",
        "pull requests for #7",
        "Nothing open does the same.",
        "Shown on a small model.",
        "**Results**, of vLLM 0.50.0 as it is installed",
        "is the same on main. Made by `vpatch test name-proj --engine cpu --vllm 0.50.0`.",
        "**Limits**\n\nShown on a small model.",
        "AI assistance was used for this change (Some Assistant).",
        "- [x] AI assistance was used",
        "- [ ] **Code Quality:**",
    ):
        assert said in body


def test_offline_asks_nobody(upstream):
    upstream.run()
    asked = len(upstream.github.requests)
    gates = upstream.gates("--offline")
    assert {name for name, gate in gates.items() if gate["verdict"] == "not asked"} == NETWORK
    assert {name for name, gate in gates.items() if gate["verdict"] == "pass"} == LOCAL
    assert len(upstream.github.requests) == asked
    out = upstream.run("--offline").out
    assert out.endswith("7 of 11 gates pass, 0 fail, 4 not asked\n")


def test_upstream_as_it_is_elsewhere(upstream):
    gates = upstream.gates("--onto", "0.50.0", code=1)
    said = "docs/contributing/README.md: the file is not in upstream's tree"
    assert gates["title"]["said"].startswith(said)
    assert upstream.run("--offline", "--onto", f"{upstream.repo}@main").out.startswith(
        "vllm 0.50.0"
    )


def test_no_evidence_and_what_to_do(upstream):
    for folder in (upstream.project.folder / "evidence").iterdir():
        folder.rename(upstream.project.folder / folder.name)
    gate = upstream.gates(code=1)["evidence"]
    assert gate["said"] == "there is none for test_it.py"
    assert gate["hint"] == "vpatch test name-proj --engine cpu --evidence-dir evidence"


def rewrite(upstream, change):
    """Make evidence of another record, whole."""
    from vpatch.evidence.store import read_evidence, write_evidence

    (folder,) = (upstream.project.folder / "evidence").iterdir()
    write_evidence(folder, rewritten(read_evidence(folder).record, change))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda r: r.update(made="2020-01-01T00:00:00+00:00"), "days old, and at most 30 count"),
        (lambda r: r["engine"].update(kind="cuda"), "it ran on cuda, and the patch needs cpu"),
        (lambda r: r["runs"]["patched"][0].update(outcome="failed") or r.update(result="failed"),
         "it is of a run that failed"),
    ],
)  # fmt: skip
def test_evidence_that_does_not_count(upstream, change, said):
    rewrite(upstream, change)
    gate = upstream.gates(code=1)["evidence"]
    assert gate["verdict"] == "fail"
    assert said in gate["said"]


def test_evidence_that_was_changed(upstream):
    (folder,) = (upstream.project.folder / "evidence").iterdir()
    (folder / "report.md").write_text("all is well")
    assert "it was changed since it was written" in upstream.gates(code=1)["evidence"]["said"]


def test_evidence_for_another_content(upstream):
    upstream.declare('f"{prefix}.proj"', 'f"{prefix}.other"')
    assert "for another content of the patch" in upstream.gates(code=1)["evidence"]["said"]


def test_evidence_of_another_test(upstream):
    path = upstream.project.patches / "name-proj" / "test_it.py"
    path.write_text(path.read_text() + "\n# more\n")
    assert "its test has changed since" in upstream.gates(code=1)["evidence"]["said"]


def test_upstream_moved_on_elsewhere_in_the_file(upstream):
    text = upstream.repo.joinpath(LLAMA).read_bytes()
    upstream.commit({LLAMA: b"import json\n" + text + b"\n\ndef more():\n    pass\n"})
    assert upstream.gates()["evidence"]["verdict"] == "pass"


def test_upstream_changed_what_the_patch_changes(upstream):
    text = upstream.repo.joinpath(LLAMA).read_bytes()
    upstream.commit({LLAMA: text.replace(b"Linear(4, 8)", b"Linear(4, 16)")})
    gates = upstream.gates(code=1)
    assert gates["needed upstream"]["verdict"] == "pass"
    said = "what the patch makes of Llama.__init__ (vllm/models/llama.py) is not the same upstream"
    assert said in gates["evidence"]["said"]


def test_needed_no_more_says_who_has_it(upstream):
    text = upstream.repo.joinpath(LLAMA).read_bytes()
    upstream.commit({LLAMA: text.replace(b"4, 4)", b'4, 4, prefix=f"{prefix}.proj")')})
    upstream.github.find(UPSTREAM).tags |= {"v0.50.0": set(), "v0.51.0": {"c" * 40}}
    upstream.github.find(UPSTREAM).add_pull("Fix", 9, merged=True, merge_commit_sha="c" * 40)
    upstream.declare(
        "upstream:\n",
        "upstream:\n  - {ref: vllm-project/vllm#9, is: pull request, relation: same change, "
        "state: merged, release: 0.51.0}\n",
    )
    for args in ((), ("--offline",)):
        gates = upstream.gates(*args, code=1)
        for name in ("needed upstream", "not merged already"):
            assert gates[name]["verdict"] == "fail"
            assert "vllm-project/vllm#9" in gates[name]["said"]
            assert "0.51.0" in gates[name]["said"]
        assert gates["evidence"]["verdict"] == "not asked"
    out = upstream.run(code=1).out
    assert "\ndiff\n" not in out
    assert "evidence, test for upstream, title" in out


def test_what_merged_a_part_of_it_is_named_under_differs(upstream):
    upstream.github.find(UPSTREAM).add_pull("Part", 9, merged=True, merge_commit_sha="c" * 40)
    upstream.declare(
        "upstream:\n",
        "upstream:\n  - {ref: vllm-project/vllm#9, is: pull request, relation: same change, "
        "state: merged}\n",
    )
    upstream.declare("  keywords:", "  differs: {vllm-project/vllm#9: a part}\n  keywords:")
    gate = upstream.gates(code=0)["not merged already"]
    assert gate["verdict"] == "pass", gate
    offline = upstream.gates("--offline")["not merged already"]
    assert offline["verdict"] == "not asked"


def test_what_is_declared_of_a_thread_and_is_not_so(upstream):
    upstream.github.find(UPSTREAM).add_pull("Other", 9, state="closed")
    upstream.declare(
        "upstream:\n",
        "upstream:\n  - {ref: vllm-project/vllm#9, is: pull request, "
        "relation: different approach, state: open}\n",
    )
    gate = upstream.gates(code=1)["not merged already"]
    assert gate["said"] == "vllm-project/vllm#9 is declared as open, and is closed"


def test_conflict_and_absence(upstream):
    text = upstream.repo.joinpath(LLAMA).read_bytes()
    upstream.commit({LLAMA: text.replace(b"self.proj = ", b"self.tail = ")})
    gate = upstream.gates(code=1)["needed upstream"]
    assert gate["said"].startswith("conflict on upstream's main")
    assert "port the patch" in gate["hint"]
    upstream.commit({LLAMA: b"class Other:\n    pass\n"})
    assert "absent on upstream's main" in upstream.gates(code=1)["needed upstream"]["said"]


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"title": "Give proj prefix to it"}, "pull requests with 'proj prefix'"),
        ({"title": "Other", "body": "Fixes #7"}, "pull requests for #7"),
        ({"title": "Quite other", "files": [LLAMA], "patches": {LLAMA: "@@ def __init__ @@"}},
         f"it touches __init__ in {LLAMA}"),
        # Within a long function its name is not shown, but a line of it is.
        ({"title": "Quite other", "files": [LLAMA], "patches": {
            LLAMA: "@@ -2,3 +2,3 @@ class Llama:\n         self.proj = Linear(4, 4)  # narrow\n+y"
        }}, f"it touches the line 'self.proj = Linear(4, 4)  # narrow' in {LLAMA}"),
        # GitHub leaves out what is large.
        ({"title": "Quite other", "files": [LLAMA], "patches": {LLAMA: None}},
         f"it touches {LLAMA}"),
    ],
)  # fmt: skip
def test_somebody_elses_pull_request(upstream, facts, said):
    upstream.github.find(UPSTREAM).add_pull(number=12, author="ann", **facts)
    gate = upstream.gates(code=1)["not proposed by others"]
    assert gate["verdict"] == "fail"
    assert f"https://github.com/{UPSTREAM}/pull/12" in gate["said"]
    assert "by ann" in gate["said"]
    assert said in gate["said"]
    upstream.declare(
        "  keywords:", "  differs: {vllm-project/vllm#12: It is for training.}\n  keywords:"
    )
    assert upstream.gates()["not proposed by others"]["verdict"] == "pass"
    assert "- #12: It is for training." in upstream.run("--json").json["body"]


def test_somebody_elses_issue(upstream):
    upstream.github.find(UPSTREAM).add_issue("No proj prefix", 13)
    assert "issues with 'proj prefix'" in upstream.gates(code=1)["not proposed by others"]["said"]
    upstream.declare("upstream:\n", "upstream:\n  - {ref: vllm-project/vllm#13, is: issue}\n")
    assert upstream.gates()["not proposed by others"]["verdict"] == "pass"


def test_a_pull_request_elsewhere_in_the_same_file_is_told_of(upstream):
    upstream.github.find(UPSTREAM).add_pull(
        "Quite other", 12, files=[LLAMA, "b.py"], patches={LLAMA: "@@ def load @@"}
    )
    assert upstream.gates()["not proposed by others"]["said"].endswith(
        "1 touch the same files elsewhere"
    )
    assert "- #12 touches the same file, elsewhere." in upstream.run("--json").json["body"]


def test_open_ones_that_are_declared_stop_it_offline_as_well(upstream):
    upstream.declare(
        "upstream:\n",
        "upstream:\n  - {ref: vllm-project/vllm#9, is: pull request, relation: same change, "
        "state: open}\n",
    )
    gate = upstream.gates("--offline", code=1)["not proposed by others"]
    assert gate["said"] == "open already: vllm-project/vllm#9 (same change)"


def test_a_patch_that_requires_another(upstream):
    upstream.declare("remove-when: never", "requires: [slow-mode]\nremove-when: never")
    upstream.evidence()
    gate = upstream.gates(code=1)["stands alone"]
    assert gate["said"] == "it requires slow-mode, which upstream does not have"


def test_a_test_that_upstream_has_already(upstream):
    upstream.commit({TEST_AT: b"def test_prefix():\n    pass\n"})
    gate = upstream.gates(code=1)["test for upstream"]
    assert gate["said"] == f"{TEST_AT}: the file already has another 'test_prefix'"


def test_titles(upstream):
    upstream.declare('title: "[Bugfix] name-proj"', 'title: "name-proj"')
    gate = upstream.gates(code=1)["title"]
    assert "does not begin with tags" in gate["said"]
    assert gate["hint"].startswith("begin the title with one or more of [Bugfix] [Perf], as in")
    upstream.declare('title: "name-proj"', 'title: "[Odd] name-proj"')
    assert upstream.gates(code=1)["title"]["said"] == "[Odd]; [Odd] is not among upstream's own"
    rules = THERE_WITHOUT_OTHERS
    upstream.commit({"docs/contributing/README.md": rules})
    assert "[Odd] is none of upstream's tags" in upstream.gates(code=1)["title"]["said"]


THERE_WITHOUT_OTHERS = b"# C\n\n### PR Title and Classification\n\nOnly `[Bugfix]`.\n"


def test_sizes(upstream):
    path = upstream.project.folder / "targets" / "vllm.yaml"
    path.write_text(path.read_text().replace("bugfix: 250", "bugfix: 1").replace("tests/**, ", ""))
    gate = upstream.gates(code=1)["size"]
    assert "a bug fix has 1 at most" in gate["said"]
    path.write_text(
        path.read_text().replace("bugfix: 1", "bugfix: 500").replace("first: 500", "first: 1")
    )
    assert "above 1 it is discussed" in upstream.gates(code=1)["size"]["said"]
    upstream.declare("  keywords:", "  discussed: vllm-project/vllm#7\n  keywords:")
    assert upstream.gates()["size"]["verdict"] == "pass"


def test_nobody_to_sign_off(upstream):
    (upstream.project.folder.parent / "home" / ".gitconfig").write_text("")
    gate = upstream.gates(code=1)["sign-off"]
    assert (gate["verdict"], gate["said"]) == ("fail", "git does not know who commits")


def test_too_many_are_open(upstream):
    for number in range(20, 26):
        upstream.github.find(UPSTREAM).add_pull("Else", number, author="octocat")
    gate = upstream.gates(code=1)["open pull requests"]
    assert gate["said"] == "6 others of yours are open, and 6 are allowed in all"


def test_a_patch_without_a_proposal_shows_diff_and_gates(upstream):
    run = upstream.project.run("upstream-pr", "slow-mode", code=1)
    assert "patch.yaml has no `proposal`" in run.out
    lines = run.out.splitlines()
    assert "title   [Bugfix] slow-mode" in lines
    assert "commit" in lines
    assert 'mode="slow"' in run.out.partition("\ndiff\n")[2]
    assert "body" not in lines
    found = upstream.project.run("upstream-pr", "slow-mode", "--json", code=1).json
    gates = {gate["name"]: gate["verdict"] for gate in found["gates"]}
    assert gates.pop("described") == "fail"
    unasked = {name for name, verdict in gates.items() if verdict == "not asked"}
    assert unasked == {"evidence", "test for upstream"}
    assert set(gates.values()) == {"pass", "not asked"}
    assert gates.keys() == NETWORK | LOCAL
    assert found["files"]
    assert not found["body"]


def test_a_patch_that_is_not_for_upstream(upstream):
    with (upstream.project.patches / "slow-mode" / "patch.yaml").open("a") as file:
        file.write("not-for-upstream: Only our chip is that slow.\n")
    found = upstream.project.run("upstream-pr", "slow-mode", "--offline", "--json", code=1).json
    (gate,) = [gate for gate in found["gates"] if gate["name"] == "described"]
    assert gate["said"] == "it is not for upstream: Only our chip is that slow."
    assert "`not-for-upstream`" in gate["hint"]
    with (upstream.project.patches / "name-proj" / "patch.yaml").open("a") as file:
        file.write("not-for-upstream: No.\n")
    assert "either a proposal, or why it is not for upstream" in upstream.run(code=2).err


@pytest.mark.parametrize(
    "title",
    ['"[Bugfix] One\\nTwo"', '"[Bugfix] One\\r\\nTwo"', '" [Bugfix] One"', "|\n  [Bugfix] One"],
)
def test_a_title_is_one_line(upstream, title):
    upstream.declare('title: "[Bugfix] name-proj"', f"title: {title}")
    gate = upstream.gates("--offline", code=1)["title"]
    assert gate["verdict"] == "fail"
    assert "is not one line, or has spaces around it" in gate["said"]


@pytest.mark.parametrize("name", ["an AI coding agent", "AI", "a large language model", "Yes"])
def test_a_disclosure_names_the_tool(upstream, name):
    upstream.declare("assisted-by: [Some Assistant]", f"assisted-by: [{name}]")
    assert f"name the tool that was used, such as 'GitHub Copilot', not {name!r}" in (
        upstream.run(code=2).err
    )


OURS = "repository: inference/vllm\ntree: vllm\nbranch: main\n"


def test_others_threads_do_not_stop_a_company(upstream):
    """What is open or merged elsewhere stops a target only if the target follows it."""
    there = upstream.github.find(UPSTREAM)
    there.add_pull("Quite other", 12, files=[LLAMA], patches={LLAMA: None})
    there.add_pull("Give proj prefix to it", 13)
    there.add_pull("Fix", 9, merged=True, merge_commit_sha="c" * 40)
    upstream.declare(
        "upstream:\n",
        "upstream:\n"
        "  - {ref: vllm-project/vllm#12, is: pull request, relation: same change, state: open}\n"
        "  - {ref: vllm-project/vllm#9, is: pull request, relation: same change, state: merged}\n",
    )
    upstream.github.add_repository("inference/vllm")
    path = upstream.project.folder / "targets" / "ours.yaml"
    declared = f"{OURS}url: {upstream.repo}\napi: {upstream.github.url}\n"
    path.write_text(declared)
    names = ("not merged already", "not proposed by others")
    for args in ((), ("--offline",)):
        gates = upstream.gates("--target", "ours", *args)
        assert {gates[name]["verdict"] for name in names} == {"not asked" if args else "pass"}
    # Its own threads do.
    upstream.github.find("inference/vllm").add_pull("Give proj prefix to it", 3)
    gate = upstream.gates("--target", "ours", code=1)["not proposed by others"]
    assert "https://github.com/inference/vllm/pull/3" in gate["said"]
    assert UPSTREAM not in gate["said"]
    # And those of the repository that it says it follows.
    path.write_text(f"{declared}upstream: {UPSTREAM}\n")
    gates = upstream.gates("--target", "ours", code=1)
    assert "vllm-project/vllm#9" in gates["not merged already"]["said"]
    said = gates["not proposed by others"]["said"]
    for found in ("inference/vllm/pull/3", "vllm-project/vllm#12", "vllm-project/vllm/pull/13"):
        assert found in said
    found = upstream.run("--target", "ours", "--json", code=1).json
    assert "Searched in inference/vllm and vllm-project/vllm: " in found["body"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--target", "vlm"), "there is no target 'vlm'"),
        (("--fork-url", "https://me:hunter2@github.com/me/vllm"), "contains credentials"),
        (("--submit", "--offline"), "--submit needs upstream as it is now"),
        (("--submit",), "there is no terminal"),
    ],
)
def test_wrong_use(upstream, args, said):
    run = upstream.run(*args, code=2)
    assert said in run.err
    if said == "there is no terminal":
        assert run.codes == ("upstream.no-terminal",)
    assert "hunter2" not in run.err + run.out


def test_a_proposed_test_must_be_a_proof(upstream):
    upstream.declare("{test: test_it.py, at", "{test: test_other.py, at")
    assert "is in the proposal, and no proof runs it" in upstream.run(code=2).err


def test_no_token(upstream):
    """What needs none is shown all the same, and nothing is sent."""
    for name in ("GH_TOKEN", "GH_ENTERPRISE_TOKEN"):
        del upstream.project.env[name]
    run = upstream.run()
    assert "no token for 127.0.0.1" in run.err
    assert run.out.endswith("7 of 11 gates pass, 0 fail, 4 not asked\n")
    with mock.patch.object(proposal, "_enter", side_effect=AssertionError("it fetched first")):
        run = upstream.submit_here(code=2)
    assert run.codes == ("upstream.no-token",)


def test_what_stops_a_submission_is_said_before_upstream_is_fetched(upstream):
    """All of it at once: hooks that may not run, and a commit that nobody signs off."""
    target = upstream.project.folder / "targets" / "vllm.yaml"
    target.write_text(f"{target.read_text()}hooks: hooks.yaml\n")
    with (
        mock.patch.object(proposal, "_enter", side_effect=AssertionError("it fetched first")),
        mock.patch.object(proposal, "identity", return_value=None),
    ):
        run = upstream.submit_here("--no-hooks", code=2)
    assert run.codes == ("upstream.no-identity", "upstream.hooks-refused")
    assert "left out by --no-hooks" in run.err


def test_upstream_is_out_of_reach(upstream):
    path = upstream.project.folder / "targets" / "vllm.yaml"
    path.write_text(
        path.read_text().replace(f"url: {upstream.repo}\n", "url: https://127.0.0.1:9/v\n")
    )
    assert "or try it on a release: --onto 0.33.0" in upstream.run(code=4).err


def test_another_branch_is_called_by_its_name(upstream):
    git(upstream.repo, "branch", "stable")
    upstream.target("branch: stable")
    found = upstream.run("--json").json
    assert found["gates"][0]["said"].startswith("upstream's stable needs it")
    assert "is the same on stable." in found["body"]


def test_differences_are_in_the_preview_as_well(upstream):
    differs = "differs: {vllm-project/vllm#12: It is for training.}"
    upstream.declare("  keywords:", f"  {differs}\n  keywords:")
    upstream.run()
    body = upstream.run("--offline", "--json").json["body"]
    assert "were not searched for this preview" in body
    assert "- #12: It is for training." in body


def test_a_companys_fork_is_a_declaration(upstream):
    """Another repository, branch and template, and none of vLLM's rules."""
    git(upstream.repo, "checkout", "-q", "-b", "stable")
    upstream.commit({"PR.md": b"# Why\n\n# How it was tried\n"})
    upstream.github.add_repository("inference/vllm", default_branch="stable")
    upstream.declare('title: "[Bugfix] name-proj"', "title: name-proj")
    upstream.evidence()
    (upstream.project.folder / "targets" / "ours.yaml").write_text(
        f"repository: inference/vllm\ntree: vllm\nbranch: stable\nurl: {upstream.repo}\n"
        f"api: {upstream.github.url}\nassistance: Assisted-by\n"
        "template: {file: PR.md, sections: {Why: [summary], How it was tried: [results]}}\n"
    )
    found = upstream.run("--target", "ours", "--json").json
    assert (found["target"], found["on"]["branch"]) == ("inference/vllm", "stable")
    assert found["commit"].endswith("\n\nAssisted-by: Some Assistant\n")
    gates = {gate["name"]: gate["said"] for gate in found["gates"]}
    assert gates["title"] == "upstream has no rule for it"
    assert gates["open pull requests"] == "upstream has no limit"
    assert "upstream's hooks" not in gates
    assert found["labels"] == found["person"] == []
    why, rest = found["body"].split("# How it was tried")
    assert "The projection has no prefix" in why
    assert "| `test_prefix` | failed | passed |" in rest
    assert "## Details" in rest
    assert "Related: vllm-project/vllm#7" in why


def test_a_target_for_another_tree(upstream):
    (upstream.project.folder / "targets" / "gemm.yaml").write_text(
        "repository: deepseek-ai/DeepGEMM\ntree: deepgemm\n"
    )
    run = upstream.run("--target", "gemm", code=2)
    assert run.codes == ("upstream.wrong-target",)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("x-api: https://me:hunter2@git.example.com/api/v3", "holds credentials"),
        ("repositry: a/b", "did you mean 'repository'"),
        ("tag: release", "the string 'release' does not match"),
    ],
)
def test_a_target_that_is_wrong(upstream, line, said):
    path = upstream.project.folder / "targets" / "vllm.yaml"
    text = path.read_text()
    if line.startswith("x-"):
        line = line.removeprefix("x-")
        text = "\n".join(kept for kept in text.splitlines() if not kept.startswith("api:"))
    path.write_text(f"{text}\n{line}\n")
    run = upstream.run(code=2)
    assert said in run.err
    if said == "there is no terminal":
        assert run.codes == ("upstream.no-terminal",)
    assert "hunter2" not in run.err


def test_a_search_that_is_not_complete(upstream):
    answer = {"total_count": 1, "incomplete_results": True, "items": []}
    upstream.github.faults = [Fault("GET", "/search/issues$", 200, answer)]
    gate = upstream.gates(code=1)["not proposed by others"]
    assert "or was not finished" in gate["said"]
    assert "rarer keywords" in gate["hint"]


def test_a_thread_that_cannot_be_asked_hides_no_gate(upstream):
    del upstream.github.find(UPSTREAM).threads[7]
    gates = upstream.gates(code=1)
    assert len(gates) == 11
    said = "vllm-project/vllm#7: it does not exist, or the token cannot see it"
    assert gates["not merged already"]["said"] == said
    assert gates["evidence"]["verdict"] == "pass"


def test_a_token_that_is_refused_hides_no_gate(upstream):
    upstream.github.tokens = {"another"}
    gates = upstream.gates(code=1)
    failed = {name for name, gate in gates.items() if gate["verdict"] == "fail"}
    assert failed == NETWORK
    assert all("does not accept the token" in gates[name]["said"] for name in NETWORK)


def test_a_name_that_cannot_stand_in_a_commit(upstream):
    config = upstream.project.folder.parent / "home" / ".gitconfig"
    config.write_text(config.read_text().replace("Pat Person", "Pat <Person>"))
    assert upstream.gates(code=1)["sign-off"]["verdict"] == "fail"


@pytest.mark.parametrize("path", ["../x.py", "/x.py", "tests/x.txt"])
def test_where_a_test_cannot_go(upstream, path):
    upstream.declare("at: tests/test_models.py", f"at: {path}")
    assert "not the path of a Python file below" in upstream.run(code=2).err


def test_evidence_of_another_declaration(upstream):
    upstream.declare('{test_prefix: "assert False"}', '{test_prefix: "assert"}')
    said = upstream.gates(code=1)["evidence"]["said"]
    assert "what is declared of its test has changed" in said


def test_a_body_that_github_does_not_take(upstream):
    upstream.declare("  claims: [Quantised models load.]", f"  claims: [{'Long. ' * 11000}]")
    assert "the body has" in upstream.gates(code=1)["size"]["said"]


def test_evidence_on_top_of_another_patch(upstream):
    upstream.declare("    engine: cpu\n", "    engine: cpu\n    on-top-of: [slow-mode]\n")
    upstream.evidence()
    text = upstream.repo.joinpath(LLAMA).read_bytes()
    upstream.commit({LLAMA: text + b"\n\ndef more():\n    pass\n"})
    found = upstream.run("--json").json
    assert (
        "(both with `slow-mode` applied as well, without which it does not run):" in found["body"]
    )
    upstream.declare('mode="slow"', 'mode="slower"', "slow-mode")
    said = upstream.gates(code=1)["evidence"]["said"]
    assert "it was made with slow-mode, which has changed since" in said
