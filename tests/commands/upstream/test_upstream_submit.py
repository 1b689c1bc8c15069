"""vpatch upstream-pr --submit: to a GitHub on this machine, and a bare repository as the fork.

The first test, and those whose argument it is, run at a real terminal.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
from dataclasses import replace

import pytest

from tests.commands.upstream.proposals import BRANCH, FORK, LLAMA, TEST_AT, TOKEN, UPSTREAM, git
from tests.fake_github import Fault
from vpatch.commands.upstream.body import facts_of

PULLS = f"/repos/{UPSTREAM}/pulls$"


def written_by(upstream):
    """Everything that was written: project, cache, home, and both repositories."""
    for path in upstream.project.folder.parent.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def test_a_draft_and_nothing_twice(upstream):
    out = upstream.submit(terminal=True)
    assert f"This goes to {FORK}, and to upstream as a draft in your name." in out
    tip = upstream.tip()
    assert f"{FORK}:{BRANCH}  {tip[:12]} pushed\n" in out
    pull = upstream.thread
    assert f"https://github.com/{UPSTREAM}/pull/{pull.number}  a new draft\n" in out
    assert (pull.draft, pull.head_ref, pull.head_repo, pull.base_ref) == (
        True,
        BRANCH,
        FORK,
        "main",
    )
    assert pull.title == "[Bugfix] name-proj"
    assert facts_of(pull.body)["commit"] == tip
    assert "| `test_prefix` | failed | passed |" in pull.body
    # One commit on upstream's own, by the person, with what upstream asks for.
    assert git(upstream.fork, "rev-parse", f"{tip}^") == git(upstream.repo, "rev-parse", "main")
    shown = git(upstream.fork, "show", "--no-patch", "--format=%an <%ae>%n%cn%n%B", tip)
    assert shown.startswith("Pat Person <pat@example.com>\nPat Person\n[Bugfix] name-proj\n\n")
    assert shown.endswith(
        "\n\nCo-authored-by: Some Assistant\nSigned-off-by: Pat Person <pat@example.com>"
    )
    changed = git(upstream.fork, "diff", "--name-only", f"{tip}^", tip).splitlines()
    assert changed == [TEST_AT, LLAMA]

    again = upstream.submit(terminal=True)
    assert f"{tip[:12]} was there already\n" in again
    assert again.rstrip().endswith("  unchanged")
    assert upstream.tip() == tip
    assert len(upstream.pulls) == 1
    assert upstream.github.count("POST", PULLS) == 1
    assert upstream.github.count("PATCH", "/pulls/") == 0


def test_upstream_moved_on(upstream):
    upstream.submit()
    first = upstream.tip()
    upstream.commit({"new.py": b"A = 1\n"})
    out = upstream.submit()
    assert out.rstrip().endswith("  brought up to date")
    tip = upstream.tip()
    assert tip != first
    assert git(upstream.fork, "rev-parse", f"{tip}^") == git(upstream.repo, "rev-parse", "main")
    assert facts_of(upstream.thread.body)["commit"] == tip


def test_the_patch_was_edited(upstream):
    upstream.submit()
    first = upstream.tip()
    upstream.declare('f"{prefix}.proj"', 'f"{prefix}.other"')
    upstream.evidence()
    upstream.submit()
    assert upstream.tip() != first
    assert b".other" in git(upstream.fork, "show", f"{upstream.tip()}:{LLAMA}").encode()
    assert len(upstream.pulls) == 1


def test_what_people_wrote_is_kept(upstream):
    upstream.submit()
    pull = upstream.thread
    pull.title = "[Bugfix][Model] A better title"
    pull.body = pull.body.replace("- Quantised models load.", "- All models load.").replace(
        "## Claims\n", "## Claims\n\nAsk me anything.\n"
    )
    pull.body = pull.body.replace("\n", "\r\n")  # as GitHub's editor sends it
    upstream.declare("  limits: Shown on a small model.", "  limits: Shown on a tiny model.")
    out = upstream.submit()
    assert "  Claims: a person wrote there, so it was left as it is\n" in out
    assert "- All models load." in pull.body
    assert "Ask me anything." in pull.body
    assert "Shown on a tiny model." in pull.body
    assert pull.title == "[Bugfix][Model] A better title"


@pytest.mark.parametrize("typed", ["", "y", "name-pro"])
def test_nobody_confirmed(upstream, typed):
    out = upstream.submit(typed=typed, code=1, terminal=typed == "y")
    assert "you did not confirm it, so vpatch sent nothing" in out
    assert upstream.tip() is None
    assert upstream.pulls == []


def test_a_gate_that_fails_stops_it(upstream):
    shutil.rmtree(upstream.project.folder / "evidence")
    out = upstream.submit(code=1)
    assert out.rstrip().endswith("nothing was sent: every gate must pass")
    assert "type the patch's id" not in out
    assert upstream.tip() is None


def test_a_fork_that_is_behind(upstream):
    upstream.commit({"new.py": b"A = 1\n"})
    upstream.commit({"newer.py": b"A = 2\n"})
    before = upstream.tip("main")
    upstream.submit()
    assert git(upstream.fork, "rev-parse", f"{BRANCH}^") == git(upstream.repo, "rev-parse", "main")
    # The fork's own main is the person's.
    assert upstream.tip("main") == before


def test_a_fork_whose_main_is_its_own(upstream):
    folder = upstream.project.folder.parent / "theirs"
    git(folder.parent, "clone", "-q", str(upstream.fork), str(folder))
    (folder / "own.py").write_text("A = 1\n")
    git(folder, "add", "own.py")
    git(folder, "-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "own")
    git(folder, "push", "-q", "origin", "main")
    upstream.commit({"new.py": b"A = 1\n"})
    upstream.submit()
    assert git(upstream.fork, "rev-parse", f"{BRANCH}^") == git(upstream.repo, "rev-parse", "main")


def test_a_fork_that_is_missing(upstream):
    del upstream.github.repositories[FORK]
    out = upstream.submit(code=1)
    assert f"error: {FORK}: there is no fork of {UPSTREAM} there" in out
    assert f"gh repo fork {UPSTREAM}" in out


def test_a_repository_that_is_no_fork(upstream):
    upstream.github.find(FORK).fork_of = None
    assert f"error: {FORK}: it is not a fork of {UPSTREAM}" in upstream.submit(code=1)


def test_a_fork_that_git_does_not_find(upstream):
    upstream.fork.rename(upstream.fork.with_name("moved.git"))
    out = upstream.submit(code=1)
    assert "git finds no repository there" in out
    assert "give another with --fork-url" in out
    # Which is all that it takes.
    upstream.submit("--fork-url", str(upstream.fork.with_name("moved.git")))
    assert len(upstream.pulls) == 1


def test_another_fork(upstream):
    team = upstream.fork.with_name("team.git")
    shutil.copytree(upstream.fork, team)
    upstream.github.add_repository("team/vllm", fork_of=UPSTREAM, clone_url=team.as_uri())
    out = upstream.submit("--fork", "team/vllm")
    assert f"team/vllm:{BRANCH}" in out
    assert upstream.thread.head_repo == "team/vllm"
    assert upstream.tip() is None
    assert upstream.submit("--fork", "team/vllm").rstrip().endswith("  unchanged")


def test_a_branch_that_is_protected(upstream):
    hook = upstream.fork / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("#!/bin/sh\necho protected branch >&2\nexit 1\n")
    hook.chmod(hook.stat().st_mode | stat.S_IXUSR)
    out = upstream.submit(code=1)
    assert "the fork does not allow a push to this branch" in out
    assert upstream.pulls == []
    hook.unlink()
    upstream.submit()
    assert len(upstream.pulls) == 1


def test_a_branch_that_others_wrote_to(upstream):
    upstream.submit()
    folder = upstream.project.folder.parent / "theirs"
    git(folder.parent, "clone", "-q", "-b", BRANCH, str(upstream.fork), str(folder))
    (folder / LLAMA).write_text("class Llama:\n    pass\n")
    git(folder, "add", LLAMA)
    git(folder, "-c", "user.name=Rev", "-c", "user.email=r@x", "commit", "-q", "-m", "Better")
    git(folder, "push", "-q", "origin", BRANCH)
    tip = upstream.tip()
    out = upstream.submit(code=1)
    assert f"its branch {BRANCH} has a commit that vpatch did not make (Rev: Better)" in out
    assert upstream.tip() == tip


def test_upstream_moved_while_the_person_read(upstream):
    out = upstream.submit(code=1, meanwhile=lambda: upstream.commit({"new.py": b"A = 1\n"}))
    assert "main moved to" in out
    assert "run the command again" in out
    assert upstream.tip() is None
    upstream.submit()
    assert len(upstream.pulls) == 1


def test_people_closed_it(upstream):
    upstream.submit()
    pull = upstream.thread
    pull.state = "closed"
    out = upstream.submit(code=1)
    assert "it was proposed before, and was closed" in out
    pull.state, pull.merged, pull.merge_commit_sha = "closed", True, "d" * 40
    assert "it was proposed before, and was merged" in upstream.submit(code=1)
    assert len(upstream.pulls) == 1


CUT = [
    # The request was cut off before it had an effect, or after.
    (Fault("POST", PULLS, "drop"), "GitHub could not be reached", 4),
    (Fault("POST", PULLS, "drop", after=True), "GitHub could not be reached", 4),
    (Fault("POST", PULLS, 502), "GitHub failed with 502", 4),
    (Fault("POST", PULLS, 502, after=True), "GitHub failed with 502", 4),
    (Fault("POST", PULLS, 403), "the token does not permit this", 1),
    (Fault("POST", PULLS, 401), "GitHub does not accept the token", 1),
    (Fault.secondary_limit("POST", PULLS, retry_after=30), "GitHub's rate limit is used up", 4),
    (Fault.invalid("POST", PULLS, "No commits between main and x"), "No commits between", 1),
    (Fault("GET", f"/repos/{FORK}$", 404), f"there is no fork of {UPSTREAM} there", 1),
    (Fault("GET", f"/repos/{FORK}$", 500, times=5), "GitHub failed with 500", 4),
]
AT_A_GATE = [
    (Fault.rate_limited("GET", "/user$", 4102444800), "rate limit is used up"),
    (Fault("GET", "/user$", 401), "GitHub does not accept the token"),
    (Fault("GET", "/issues/7$", 500), "GitHub failed with 500"),
]


@pytest.mark.parametrize(
    ("fault", "said", "code"), CUT, ids=[f"{f.answer}-{n}" for n, (f, _, _) in enumerate(CUT)]
)
def test_a_fault_and_the_run_after_it(upstream, fault, said, code):
    upstream.github.faults = [replace(fault)]  # its count goes down
    out = upstream.submit(code=code, plain=True)
    assert out.count("error: ") == 1
    assert said in out
    assert "  next: " in out
    assert TOKEN not in out
    upstream.github.faults = []
    upstream.submit()
    assert len(upstream.pulls) == 1
    assert upstream.tip() == facts_of(upstream.thread.body)["commit"]
    assert upstream.github.count("POST", PULLS) <= 2


@pytest.mark.parametrize(("fault", "said"), AT_A_GATE, ids=["limit", "401", "500"])
def test_a_fault_that_a_gate_meets(upstream, fault, said):
    upstream.github.faults = [replace(fault)]
    out = upstream.submit(code=1, plain=True)
    assert said in out
    assert out.rstrip().endswith("nothing was sent: every gate must pass")
    assert TOKEN not in out
    upstream.submit()
    assert len(upstream.pulls) == 1


def test_it_exists_already_although_it_was_not_there_before(upstream):
    """Two runs at once: the other was quicker between our look and our request."""
    branch = {"head_ref": BRANCH, "head_repo": FORK, "draft": True}

    def other():
        upstream.github.find(UPSTREAM).add_pull(
            "[Bugfix] name-proj", 30, author="octocat", body="by the other", **branch
        )

    hidden = Fault("GET", PULLS, 200, body=[], times=2)
    upstream.github.faults = [hidden]
    upstream.submit(meanwhile=other, plain=True)
    assert len(upstream.pulls) == 1
    assert upstream.thread.body.endswith("by the other")
    assert facts_of(upstream.thread.body)["commit"] == upstream.tip()


def test_a_search_that_fails_is_a_gate_that_fails(upstream):
    upstream.github.faults = [Fault.rate_limited("GET", "/search/issues$", 4102444800, times=9)]
    out = upstream.run(code=1).out
    assert out.count("GitHub's rate limit is used up") == 2
    assert "run it again after" in out


def test_a_token_in_the_forks_url(upstream):
    upstream.github.find(FORK).clone_url = f"https://octocat:{TOKEN}@github.com/octocat/vllm.git"
    out = upstream.submit(code=2)
    assert "the fork's URL contains credentials" in out
    assert TOKEN not in out


def test_the_token_is_nowhere(upstream):
    """In no output, no file, and no argument of what is started."""
    log = upstream.project.folder.parent / "processes"
    folder = upstream.project.folder.parent / "bin"
    folder.mkdir()
    wrapper = folder / "git"
    real = shutil.which("git")
    wrapper.write_text(f'#!/bin/sh\necho "$@" >> {log}\nexec {real} "$@"\n')
    wrapper.chmod(0o755)
    upstream.project.env["PATH"] = f"{folder}:{os.environ['PATH']}"
    upstream.project.env["GIT_TRACE_CURL"] = "1"
    out = upstream.submit(terminal=True)
    upstream.github.faults = [Fault("PATCH", "/pulls/", 403, {"message": f"bad {TOKEN}"})]
    upstream.declare("  limits: Shown", "  limits: Seen")
    out += upstream.submit(code=1, plain=True, terminal=True)
    assert "the token does not permit this: bad ***" in out
    assert TOKEN not in out
    assert "push" in log.read_text()
    for path, data in written_by(upstream):
        assert TOKEN.encode() not in data, path


def test_an_answer_that_names_a_repository_on_this_machine_is_refused(upstream, monkeypatch):
    """Its hooks would run; in a rehearsal, GitHub itself is on this machine."""
    monkeypatch.setattr("vpatch.commands.upstream.proposal.is_local", lambda _: False)
    assert upstream.submit_here(code=2).codes == ("git.refused-address",)
    assert upstream.tip() is None


def theirs(upstream):
    """A clone of the fork's branch, in which somebody else commits."""
    folder = upstream.project.folder.parent / "theirs"
    git(folder.parent, "clone", "-q", "-b", BRANCH, str(upstream.fork), str(folder))
    for key, value in (("name", "Rev"), ("email", "rev@example.com")):
        git(folder, "config", f"user.{key}", value)
    return folder


def test_a_commit_below_ours_is_not_lost(upstream):
    upstream.submit()
    folder = theirs(upstream)
    git(folder, "reset", "-q", "--hard", "HEAD^")
    (folder / "work.py").write_text("A = 1\n")
    git(folder, "add", "work.py")
    git(folder, "commit", "-q", "-m", "Work")
    git(folder, "cherry-pick", f"origin/{BRANCH}")
    git(folder, "push", "-q", "--force", "origin", BRANCH)
    tip = upstream.tip()
    assert "has a commit that vpatch did not make" in upstream.submit(code=1)
    assert upstream.tip() == tip


def test_white_space_is_a_change_as_well(upstream):
    upstream.submit()
    folder = theirs(upstream)
    text = (folder / LLAMA).read_text()
    (folder / LLAMA).write_text(text.replace("        self.head", "          self.head"))
    git(folder, "commit", "-q", "-a", "--amend", "--no-edit")
    git(folder, "push", "-q", "--force", "origin", BRANCH)
    tip = upstream.tip()
    out = upstream.submit(code=1)
    assert f"set the branch back to {facts_of(upstream.thread.body)['commit']}" in out
    assert upstream.tip() == tip


def test_what_a_reviewer_committed_and_the_patch_took_over(upstream):
    """Nothing is left to be written, and nobody's commit is lost."""
    upstream.submit()
    folder = theirs(upstream)
    text = (folder / LLAMA).read_text()
    (folder / LLAMA).write_text(text.replace('{prefix}.proj"', '{prefix}.better"'))
    git(folder, "commit", "-q", "-a", "-m", "Better")
    git(folder, "push", "-q", "origin", BRANCH)
    tip = upstream.tip()
    upstream.declare('f"{prefix}.proj"', 'f"{prefix}.better"')
    upstream.evidence()
    assert f"{tip[:12]} was there already" in upstream.submit()
    assert upstream.tip() == tip


def test_cut_off_after_the_push_and_then_edited(upstream):
    upstream.github.faults = [Fault("POST", PULLS, 502)]
    upstream.submit(code=4)
    first = upstream.tip()
    assert first is not None
    upstream.declare('f"{prefix}.proj"', 'f"{prefix}.other"')
    upstream.evidence()
    upstream.commit({"new.py": b"A = 1\n"})
    upstream.submit()
    assert upstream.tip() not in {None, first}
    assert len(upstream.pulls) == 1


def test_the_body_is_edited_while_the_branch_is_pushed(upstream):
    upstream.submit()
    upstream.declare("  limits: Shown", "  limits: Seen")
    upstream.commit({"new.py": b"A = 1\n"})
    number, pull = upstream.thread.number, upstream.thread
    body = pull.body.replace("## Claims\n", "## Claims\n\nWritten meanwhile.\n")
    (upstream.fork.parent / "body.json").write_text(json.dumps({"body": body}))
    hook = upstream.fork / "hooks" / "post-receive"
    url = f"{upstream.github.plain_url}/repos/{UPSTREAM}/pulls/{number}"
    hook.write_text(
        f"#!/bin/sh\n{sys.executable} -c \"import requests; requests.patch('{url}', "
        f"data=open('{upstream.fork.parent}/body.json'), "
        f"headers={{'Authorization': 'token {TOKEN}'}}).raise_for_status()\"\n"
    )
    hook.chmod(0o755)
    upstream.submit()
    assert "Written meanwhile." in pull.body
    assert "Seen on a small model." in pull.body


def test_people_closed_it_while_it_was_pushed(upstream):
    upstream.submit()
    upstream.commit({"new.py": b"A = 1\n"})
    pull = upstream.thread

    def close():
        pull.state = "closed"

    out = upstream.submit(code=1, meanwhile=close)
    assert "it was proposed before, and was closed" in out
    assert len(upstream.pulls) == 1


def test_it_was_pointed_to_another_branch(upstream):
    upstream.submit()
    upstream.thread.base_ref = "releases/v1"
    assert "it is open, to releases/v1" in upstream.gates()["not ended before"]["said"]
    upstream.submit()
    assert len(upstream.pulls) == 1


def test_the_patch_names_its_own_pull_request(upstream):
    upstream.submit()
    number = upstream.thread.number
    upstream.declare(
        "upstream:\n",
        f"upstream:\n  - {{ref: {UPSTREAM}#{number}, is: pull request, relation: same change, "
        "state: open}\n",
    )
    assert upstream.gates()["not proposed by others"]["verdict"] == "pass"
    assert "brought up to date" in upstream.submit()


def test_the_codes_of_what_stops_a_submission(upstream):
    def submit(code=1, **options):
        return upstream.submit_here(code=code, **options).codes

    def push_as_somebody_else():
        folder = upstream.project.folder.parent / "theirs"
        git(folder.parent, "clone", "-q", "-b", BRANCH, str(upstream.fork), str(folder))
        who = ["-c", "user.name=Rev", "-c", "user.email=r@x"]
        git(folder, *who, "commit", "-q", "--allow-empty", "-m", "Better")
        git(folder, *who, "commit", "-q", "--amend", "--allow-empty", "-m", "Best")
        (folder / "theirs.py").write_text("A = 1\n")
        git(folder, "add", "theirs.py")
        git(folder, *who, "commit", "-q", "-m", "More")
        git(folder, "push", "-q", "origin", BRANCH)

    def close():
        upstream.thread.state = "closed"

    def move():
        upstream.commit({"new.py": b"A = 1\n"})

    assert submit(typed="y") == ("upstream.not-confirmed",)
    assert submit(meanwhile=move) == ("upstream.branch-moved",)
    assert submit(code=0) == ()
    assert submit(meanwhile=close) == ("upstream.already-proposed",)
    upstream.thread.state = "open"
    push_as_somebody_else()
    assert submit() == ("upstream.foreign-commit",)
    upstream.github.find(FORK).clone_url = f"https://me:{TOKEN}@github.com/me/vllm.git"
    assert submit(code=2) == ("upstream.password-in-url",)
