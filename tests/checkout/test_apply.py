from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest

from tests.helpers import fails
from tests.projects import (
    ENGINE,
    FILES,
    LLAMA,
    NAME_PROJ,
    NAMED,
    SLOW_MODE,
    git,
    names_in,
    opened,
    snapshot,
    write_patch,
)
from tests.source.helpers import Notes
from tests.waiting import until
from vpatch.checkout import apply as module
from vpatch.checkout import commits
from vpatch.checkout.apply import ApplyRequest, apply
from vpatch.checkout.lockfile import read_lock
from vpatch.checkout.transaction import CheckoutTransaction, UnwritableTargetError
from vpatch.errors import ExitCode
from vpatch.library.loading import load_patch
from vpatch.planning.answers import Answers
from vpatch.planning.plan import plan
from vpatch.source import entry
from vpatch.source.tree import LOCK_FILE
from vpatch.trust.decision import EVERYTHING
from vpatch.util import directories
from vpatch.util.filelock import wait_for_lock

pytestmark = pytest.mark.usefixtures("isolated")


@pytest.fixture(scope="module")
def tree(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("tree")) as tree:
        yield tree


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """Two patches, for two files; no test changes them."""
    patches = tmp_path_factory.mktemp("patches")
    return [
        write_patch(patches, "name-proj", NAME_PROJ),
        write_patch(patches, "slow-mode", SLOW_MODE),
    ]


@pytest.fixture
def target(tmp_path):
    """In a folder of its own, so that what is left beside it shows."""
    return tmp_path / "out" / "vllm"


@pytest.fixture(scope="module")
def planned():
    """Plan as vpatch does, but read each folder once, and answer each question on a file once."""
    answers = Answers()

    @cache
    def load(folder):
        return load_patch(folder, EVERYTHING)

    return lambda folders, tree: plan([load(one) for one in folders], tree, answers=answers)


def applying_to(tree, both, planned):
    def applied(*targets, patches=both, force=False, recipe=None, progress=None, begin=False):
        progress = progress or Notes()
        made = planned(patches, tree)
        with ExitStack() as stack:
            places = [stack.enter_context(CheckoutTransaction(t, tree, progress)) for t in targets]
            for place in places if begin else ():
                place.begin()
            orders = [ApplyRequest(made, recipe, place) for place in places]
            return apply(orders, force=force, progress=progress)

    return applied


@pytest.fixture(scope="module")
def applying(tree, both, planned):
    return applying_to(tree, both, planned)


@pytest.fixture
def applying_alone(tmp_path, both, planned):
    """The same, with a source and a cache of its own in `tmp_path`."""
    with opened(tmp_path) as tree:
        yield applying_to(tree, both, planned)


@pytest.fixture(scope="module")
def first_made(applying, tmp_path_factory):
    folder = tmp_path_factory.mktemp("first")
    applying(folder / "vllm")
    return folder


@pytest.fixture
def made(first_made, target):
    """A checkout of both patches."""
    shutil.copytree(first_made, target.parent, symlinks=True)
    return target


def beside(target):
    return names_in(target.parent)


def test_a_git_that_is_missing_is_called_so(applying, made, target, monkeypatch, tmp_path):
    """It is no fault of the checkout, and none of the disk."""
    monkeypatch.setenv("PATH", str(tmp_path))
    for place in (made, target.parent / "another"):
        with fails("git.missing"):
            applying(place)


def test_apply_makes_a_commit_for_each_patch(applying, target):
    (applied,) = applying(target)
    assert applied.outcome == "created"
    log = git(target, "log", "--format=%s|%an|%ae|%at|%cn|%ct|%P").splitlines()
    lock = applied.lock
    who = "|vpatch|vpatch@localhost|1577836800|vpatch|1577836800|"
    assert log == [
        f"[Bugfix] slow-mode{who}{lock.patches[0].commit}",
        f"[Bugfix] name-proj{who}{lock.base}",
        f"vllm{who}",
    ]
    assert git(target, "rev-parse", "HEAD").strip() == lock.head == lock.patches[1].commit
    assert git(target, "branch", "--format=%(refname:short)").split() == ["base", "vpatch"]
    names = "%(trailers:key=Vpatch-Id,valueonly,separator=)"
    assert git(target, "log", "-2", f"--format={names}").split() == ["slow-mode", "name-proj"]
    for commit, file in ((lock.patches[0].commit, LLAMA), (lock.patches[1].commit, ENGINE)):
        assert git(target, "diff", "--name-only", f"{commit}^", commit).split() == [file]


@pytest.mark.parametrize("what", ["message", "base"])
def test_a_checkout_with_other_commits_is_made_anew(applying_alone, target, monkeypatch, what):
    """An earlier version of vpatch may have made it; a fresh checkout has to be the same."""
    applying = applying_alone
    with monkeypatch.context() as earlier:
        if what == "message":
            earlier.setattr(commits, "_message", lambda decision: f"{decision.patch.id}, earlier")
        else:
            message = property(lambda tree: f"{tree.pin.tree}, earlier")
            earlier.setattr(entry.CachedTree, "base_message", message)
        applying(target)
    for repository in target.parents[1].glob("cache/trees/*/repo.git"):
        shutil.rmtree(repository)
    (again,) = applying(target)
    assert again.outcome == "replaced"
    (fresh,) = applying(target.parent / "fresh")
    assert again.lock.dump() == fresh.lock.dump()
    assert applying(target)[0].outcome == "unchanged"


def test_apply_changes_the_declared_places_alone(made):
    assert git(made, "status", "--porcelain") == ""
    tracked = git(made, "ls-files").split()
    assert sorted(tracked) == sorted(FILES)
    before = dict(FILES)
    before[LLAMA] = FILES[LLAMA].replace(b"        self.proj = Linear(4, 4)  # narrow\n", NAMED)
    before[ENGINE] = FILES[ENGINE].replace(b"fast", b"slow")
    assert {path: (made / path).read_bytes() for path in tracked} == before
    assert os.access(made / "tools/run.sh", os.X_OK)


def test_apply_writes_a_lock_that_git_does_not_see(applying, target):
    (applied,) = applying(target, recipe="mine")
    assert read_lock(target / LOCK_FILE) == applied.lock
    assert applied.lock.recipe == "mine"
    assert git(target, "status", "--porcelain", "--ignored") == f"!! {LOCK_FILE}\n"


def test_apply_leaves_nothing_beside_the_target(made):
    assert beside(made) == ["vllm"]


def test_the_same_patches_make_the_same_checkout_elsewhere(applying, target):
    first, second = applying(target, target.parent / "other" / "place")
    assert first.lock == second.lock


@pytest.mark.parametrize("exists", [True, False])
def test_files_written_before_the_plan_make_the_same_checkout(applying, target, both, exists):
    other = target.parent / "other"
    if exists:
        applying(target, other, patches=both[:1])
    (first,) = applying(target)
    (second,) = applying(other, begin=True)
    assert first.lock == second.lock
    assert git(other, "status", "--porcelain") == ""
    # But for the index, which holds times.
    ours, theirs = ({**snapshot(one), ".git/index": None} for one in (target, other))
    assert ours == theirs


def test_apply_without_patches_is_the_pristine_tree(applying, target):
    (applied,) = applying(target, patches=[])
    assert applied.lock.head == applied.lock.base
    assert git(target, "rev-parse", "vpatch").strip() == applied.lock.base
    assert (target / LLAMA).read_bytes() == FILES[LLAMA]


def test_a_second_apply_touches_nothing(applying, made):
    before = snapshot(made), made.stat().st_ino, (made / LLAMA).stat().st_mtime_ns
    (applied,) = applying(made)
    assert applied.outcome == "unchanged"
    assert (snapshot(made), made.stat().st_ino, (made / LLAMA).stat().st_mtime_ns) == before
    assert beside(made) == ["vllm"]


@pytest.mark.parametrize("how", ["fewer", "other", "recipe"])
def test_apply_replaces_a_checkout_that_is_not_up_to_date(applying, made, both, how, tmp_path):
    other = write_patch(tmp_path, "slow-mode", SLOW_MODE.replace('"slow"', '"slower"'))
    patches = {"fewer": both[:1], "other": [both[0], other], "recipe": both}[how]
    (applied,) = applying(made, patches=patches, recipe="new" if how == "recipe" else None)
    assert applied.outcome == "replaced"
    wanted = {"fewer": b"fast", "other": b"slower", "recipe": b"slow"}[how]
    assert b'"%s"' % wanted in (made / ENGINE).read_bytes()
    assert applying(made, patches=patches, recipe=applied.lock.recipe)[0].outcome == "unchanged"
    assert beside(made) == ["vllm"]


def test_apply_into_an_empty_folder(applying, target):
    target.mkdir(parents=True)
    assert applying(target)[0].outcome == "replaced"
    assert beside(target) == ["vllm"]


# --- what a user has done there ---------------------------------------------------------------


def modify(target):
    (target / LLAMA).write_text("mine\n")


def remove(target):
    (target / ENGINE).unlink()


def add(target):
    (target / "mine.py").write_text("")


def add_in_a_new_folder(target):
    (target / "mine").mkdir()
    (target / "mine" / "a.py").write_text("")


def change_mode(target):
    (target / "tools/run.sh").chmod(0o644)


def stage_and_take_back(target):
    (target / "mine.py").write_text("")
    git(target, "add", "mine.py")
    (target / "mine.py").unlink()


def commit(target):
    (target / LLAMA).write_text("mine\n")
    git(target, "commit", "-qam", "mine")


def amend(target):
    git(target, "commit", "-q", "--amend", "-m", "mine")


def commit_on_the_base(target):
    git(target, "checkout", "-q", "base")
    (target / LLAMA).write_text("mine\n")
    git(target, "commit", "-qam", "mine")
    git(target, "checkout", "-q", "vpatch")


def go_to_a_branch(target):
    git(target, "checkout", "-qb", "mine")


def commit_on_a_branch(target):
    go_to_a_branch(target)
    commit(target)
    git(target, "checkout", "-q", "vpatch")


def detach(target):
    git(target, "checkout", "-q", "--detach")


def begin_an_empty_branch(target):
    git(target, "checkout", "-q", "--orphan", "mine")


def stash(target):
    modify(target)
    git(target, "stash", "-q")


def tag(target):
    git(target, "tag", "v1")


CHANGES = {
    modify: f"changed or new: {LLAMA}",
    remove: f"changed or new: {ENGINE}",
    add: "changed or new: mine.py",
    add_in_a_new_folder: "changed or new: mine/a.py",
    change_mode: "changed or new: tools/run.sh",
    stage_and_take_back: "changed or new: mine.py",
    commit: "commits of yours: refs/heads/vpatch is at",
    amend: "commits of yours: refs/heads/vpatch is at",
    commit_on_the_base: "commits of yours: refs/heads/base is at",
    go_to_a_branch: "the branch mine is checked out, not the branch vpatch",
    commit_on_a_branch: "a ref of yours: refs/heads/mine",
    detach: "a commit is checked out, not the branch vpatch",
    begin_an_empty_branch: "the branch mine is checked out",
    stash: "a ref of yours: refs/stash",
    tag: "a ref of yours: refs/tags/v1",
}


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("up_to_date", [True, False])
def test_changes_of_the_user_stay(applying, made, both, change, up_to_date):
    change(made)
    before = snapshot(made)
    patches = both if up_to_date else both[:1]
    with fails("checkout.has-changes") as caught:
        applying(made, patches=patches)
    assert CHANGES[change] in caught.value.what
    assert caught.value.exit_code == ExitCode.FINDINGS
    assert "--force" in caught.value.hint
    assert snapshot(made) == before
    assert beside(made) == ["vllm"]
    (applied,) = applying(made, patches=patches, force=True)
    assert applied.outcome == "replaced"
    assert applying(made, patches=patches)[0].outcome == "unchanged"


def test_many_changes_are_not_all_listed(applying, made):
    for number in range(14):
        (made / f"mine{number:02}").write_text("")
    with fails("checkout.has-changes", "and 4 more") as caught:
        applying(made)
    assert "mine09" in caught.value.what
    assert "mine10" not in caught.value.what


def test_force_leaves_a_right_checkout_alone(applying, made):
    assert applying(made, force=True)[0].outcome == "unchanged"


def test_what_was_built_is_carried_over(applying, made, both):
    (made / "build" / "deps" / ".git").mkdir(parents=True)
    (made / "build" / "deps" / "src.c").write_text("int x;\n")
    git(made / "build" / "deps", "init", "-q")
    (made / "build" / "obj").mkdir()
    (made / "build" / "obj" / "a.o").write_bytes(b"\0")
    (made / "build" / "obj" / "a.o").chmod(0o750)
    (made / "vllm" / "_C.so").write_bytes(b"ELF")
    (made / "vllm" / "link.so").symlink_to("_C.so")
    (made / "vllm" / "dangling.so").symlink_to("nowhere")
    (made / "vllm" / "__pycache__").mkdir()
    (made / "vllm" / "__pycache__" / "engine.pyc").write_bytes(b"stale")
    before = {path: what for path, what in snapshot(made).items() if path.startswith("build")}
    assert applying(made, patches=both[:1])[0].outcome == "replaced"
    after = snapshot(made)
    assert {path: what for path, what in after.items() if path.startswith("build")} == before
    assert (made / "vllm" / "_C.so").read_bytes() == b"ELF"
    assert (made / "vllm" / "link.so").readlink() == Path("_C.so")
    assert (made / "vllm" / "dangling.so").readlink() == Path("nowhere")
    assert not (made / "vllm" / "__pycache__").exists()
    assert applying(made, patches=both[:1])[0].outcome == "unchanged"


def test_what_was_built_is_copied_where_it_cannot_be_linked(applying, made, both, monkeypatch):
    (made / "vllm" / "_C.so").write_bytes(b"ELF")

    def refuse(*_, **__):
        raise PermissionError(1, "a file of somebody else")

    monkeypatch.setattr(os, "link", refuse)
    applying(made, patches=both[:1])
    assert (made / "vllm" / "_C.so").read_bytes() == b"ELF"


def test_what_is_now_part_of_the_tree_is_not_carried_over(applying, made, tmp_path, both):
    text = "- {add-file: vllm/new.so, from: new.so}"
    folder = write_patch(tmp_path / "more", "new-file", text)
    (folder / "new.so").write_text("the patch's\n")
    (made / "vllm" / "new.so").write_text("the user's\n")
    applying(made, patches=[*both, folder])
    assert (made / "vllm" / "new.so").read_text() == "the patch's\n"


# --- targets that are none --------------------------------------------------------------------


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("what", ["folder", "file", "repository", "lock alone", "broken"])
def test_a_target_that_is_no_checkout(applying, target, what, force):
    target.parent.mkdir(parents=True)
    if what == "file":
        target.write_text("mine")
    elif what == "broken":
        applying(target)
        shutil.rmtree(target / ".git" / "refs")
        (target / ".git" / "HEAD").unlink()
    else:
        target.mkdir()
        (target / "mine.py").write_text("mine")
    if what == "repository":
        git(target, "init", "-q")
    if what == "lock alone":
        (target / LOCK_FILE).write_text("{}")
    before = snapshot(target.parent)
    code = "checkout.broken-repository" if what == "broken" else "checkout.not-vpatchs"
    with fails(code) as caught:
        applying(target, force=force)
    assert caught.value.exit_code == ExitCode.USAGE
    assert caught.value.where == str(target)
    after = snapshot(target.parent)
    for found in (before, after):
        found.pop(".vllm.vpatch", None)
        found.pop(".vllm.vpatch/lock", None)
        found.pop(".vllm.vpatch/.gitignore", None)
    assert after == before


def test_a_damaged_lock(applying, made):
    (made / LOCK_FILE).write_text("{")
    before = snapshot(made)
    with fails("checkout.damaged-lock"):
        applying(made)
    assert snapshot(made) == before
    assert applying(made, force=True)[0].outcome == "replaced"
    assert read_lock(made / LOCK_FILE)


# --- all or nothing ---------------------------------------------------------------------------


def test_several_targets_are_looked_at_before_any_is_written(applying, target):
    other = target.parent / "other"
    other.mkdir(parents=True)
    (other / "mine").write_text("")
    with fails("checkout.not-vpatchs"):
        applying(target, other)
    assert not target.exists()


@pytest.mark.parametrize("exists", [True, False])
@pytest.mark.parametrize("error", [OSError(5, "disk error"), KeyboardInterrupt()])
@pytest.mark.parametrize("exchange", [True, False])
def test_a_failure_at_the_second_target_takes_the_first_back(
    applying, target, both, monkeypatch, exists, error, exchange
):
    other = target.parent / "other"
    if exists:
        applying(target, other)
    if not exchange:
        monkeypatch.setattr(directories, "_exchange", lambda _left, _right: False)
    before = snapshot(target.parent)
    put = CheckoutTransaction.put_in_place

    def failing(self):
        if self.target == other:
            raise error
        put(self)

    monkeypatch.setattr(CheckoutTransaction, "put_in_place", failing)
    expected = KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else UnwritableTargetError
    with pytest.raises(expected):
        applying(target, other, patches=both[:1])
    after = snapshot(target.parent)
    assert {path: what for path, what in after.items() if ".vpatch" not in path} == {
        path: what for path, what in before.items() if ".vpatch" not in path
    }
    assert not [name for name in beside(target) if name.startswith(".")]


def test_an_interrupt_between_two_targets_waits_for_both(applying, target, both, monkeypatch):
    other = target.parent / "other"
    applying(target, other)
    put = CheckoutTransaction.put_in_place

    def interrupted(self):
        put(self)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(CheckoutTransaction, "put_in_place", interrupted)
    with pytest.raises(KeyboardInterrupt):
        applying(target, other, patches=both[:1])
    monkeypatch.undo()
    assert {one.outcome for one in applying(target, other, patches=both[:1])} == {"unchanged"}


def test_what_is_written_is_read_back(applying, made, both, monkeypatch):
    check_out = module.git.check_out

    def corrupting(repo, branch):
        check_out(repo, branch)
        if branch == "vpatch":
            (repo / LLAMA).write_bytes(b"cosmic ray\n")

    monkeypatch.setattr(module.git, "check_out", corrupting)
    before = snapshot(made.parent)
    with fails("checkout.written-wrong", f"{LLAMA} was written as"):
        applying(made, patches=both[:1])
    assert snapshot(made.parent) == before


def test_a_git_that_fails_is_told_with_its_reason(applying, target, monkeypatch):
    def failing(*_):
        stderr = "fatal: write error: No space left on device\nfast-import: dumping crash report"
        raise module.GitError("git fast-import", 128, stderr, hint="see git's message")

    monkeypatch.setattr(module.git, "add_commits", failing)
    with fails("checkout.unwritable") as caught:
        applying(target)
    assert caught.value.exit_code == ExitCode.ENVIRONMENT
    assert caught.value.what == "cannot be written: write error: No space left on device"
    assert beside(target) == []


@pytest.mark.parametrize("exists", [True, False])
def test_what_a_killed_run_left_is_cleaned_up(applying, target, exists):
    if exists:
        applying(target)
        state = snapshot(target)
    else:
        target.parent.mkdir(parents=True)
    for name in ("new-1", "new-77"):
        (target.parent / ".vllm.vpatch" / name / "sub").mkdir(parents=True)
    (target.parent / ".vllm.vpatch" / "lock").touch()
    (target.parent / ".vllmx.new-1").mkdir()
    (outcome,) = applying(target)
    assert outcome.outcome == ("unchanged" if exists else "created")
    assert not exists or snapshot(target) == state
    assert beside(target) == [".vllmx.new-1", "vllm"]


def test_a_kill_between_two_renames_is_undone(applying, made):
    (made / "build").mkdir()
    (made / "build" / "mine").write_text("precious")
    before = snapshot(made)
    made.rename(made.parent / ".vllm.vpatch" / "old")
    assert applying(made)[0].outcome == "unchanged"
    assert snapshot(made) == before


def test_a_kill_behind_the_swap_leaves_the_new(applying, made):
    (made.parent / ".vllm.vpatch" / "old").mkdir()
    assert applying(made)[0].outcome == "unchanged"
    assert beside(made) == ["vllm"]


def test_a_name_with_wildcards_cleans_its_own_leftovers_alone(applying, tmp_path):
    target = tmp_path / "out" / "v[l]lm*"
    (tmp_path / "out" / ".vllm-other.new-1").mkdir(parents=True)
    applying(target)
    assert beside(target) == [".vllm-other.new-1", "v[l]lm*"]


def test_apply_waits_for_another_and_says_so(applying, target):
    target.parent.mkdir(parents=True)
    notes = Notes()
    lock = wait_for_lock(
        target.parent / ".vllm.vpatch" / "lock", exclusive=True, on_wait=lambda: None
    )
    thread = threading.Thread(target=lambda: applying(target, progress=notes))
    thread.start()
    try:
        until(lambda: notes.notes)
        assert notes.notes == [f"waiting for another vpatch that works on {target}"]
        assert not target.exists()
    finally:
        lock.release()
        thread.join()
    assert (target / LOCK_FILE).exists()


def test_the_checkout_stands_alone(applying_alone, target, tmp_path):
    """Its objects are its own: neither the cache nor the source is needed any more."""
    applying_alone(target)
    shutil.rmtree(tmp_path / "cache")
    shutil.rmtree(tmp_path / "source")
    subprocess.run(["git", "-C", str(target), "fsck", "--strict"], check=True, capture_output=True)


@pytest.mark.parametrize("name", [".vllm.old", ".vllm.new-mine", ".vllm.lock.d"])
def test_a_neighbour_is_never_touched(applying, target, name):
    """A folder beside the target may look like ours, and is not."""
    mine = target.parent / name / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    applying(target)
    assert mine.read_text() == "precious"


def test_a_room_with_something_else_in_it_is_refused(applying, target):
    mine = target.parent / ".vllm.vpatch" / "thesis.txt"
    mine.parent.mkdir(parents=True)
    mine.write_text("precious")
    with fails("checkout.foreign-files"):
        applying(target)
    assert mine.read_text() == "precious"


def test_git_lists_nothing_of_the_room(applying, target):
    applying(target)
    git(target.parent, "init", "--quiet")
    assert git(target.parent, "status", "--porcelain") == f"?? {target.name}/\n"


def test_an_edit_during_the_apply_is_not_lost(applying, made, both, monkeypatch):
    check_out = module.git.check_out

    def meanwhile(repo, branch):
        check_out(repo, branch)
        (made / LLAMA).write_text("precious")

    monkeypatch.setattr(module.git, "check_out", meanwhile)
    with fails("checkout.has-changes", f"changed or new: {LLAMA}"):
        applying(made, patches=both[:1])
    assert (made / LLAMA).read_text() == "precious"


@pytest.mark.parametrize("flag", ["--skip-worktree", "--assume-unchanged"])
def test_files_hidden_from_git_are_the_users(applying, made, flag):
    git(made, "update-index", flag, LLAMA)
    (made / LLAMA).write_text("precious")
    with fails("checkout.has-changes", f"hidden from git: {LLAMA}"):
        applying(made)


def test_commits_in_the_reflog_are_the_users(applying, made):
    (made / LLAMA).write_text("precious")
    git(made, "commit", "-q", "-a", "-m", "mine")
    git(made, "reset", "-q", "--hard", "HEAD~")
    with fails("checkout.has-changes", "in the reflog"):
        applying(made)


def test_a_further_worktree_is_the_users(applying, made, tmp_path):
    git(made, "worktree", "add", "-q", "--detach", str(tmp_path / "further"))
    with fails("checkout.has-changes", "a worktree of yours: further"):
        applying(made)


def test_settings_of_a_checkout_are_carried_over(applying, made, both):
    git(made, "remote", "add", "fork", "https://example/fork.git")
    exclude = made / ".git/info/exclude"
    exclude.write_text(exclude.read_text() + "/notes.txt\n")
    (made / "notes.txt").write_text("mine")
    (made / ".git/hooks").mkdir()
    (made / ".git/hooks/pre-push").write_text("exit 1")
    assert applying(made, patches=both[:1])[0].outcome == "replaced"
    assert git(made, "remote") == "fork\n"
    assert (made / "notes.txt").read_text() == "mine"
    assert (made / ".git/hooks/pre-push").exists()
    assert applying(made)[0].outcome == "replaced"


def test_a_checkout_of_another_source_is_kept(applying, made):
    lock = read_lock(made / LOCK_FILE)
    source = lock.source.model_copy(update={"kind": "folder", "origin": "./x"})
    other = lock.model_copy(update={"source": source})
    (made / LOCK_FILE).write_text(other.dump())
    with fails("checkout.other-source", r"a checkout of another source, \./x"):
        applying(made)
