"""`vpatch refresh` and `vpatch edit --abort` lose nothing that somebody has in a checkout."""

from __future__ import annotations

import pytest

from tests.commands.edit.test_edit import change, refused, tree, yaml
from tests.projects import ENGINE, FILES, LLAMA, NAME_PROJ, SLOW_MODE, VERSION, git, write_tree
from vpatch.checkout import transaction
from vpatch.commands.edit import refresh_command, replacement, work_tree
from vpatch.util.directories import replace_dir
from vpatch.util.filelock import try_lock

BESIDE = """
- find: A = 1
  rewrite: A = 2
  files: tests/test_a.py
- text: {find: one, replace: two}
  files: docs/a.md
"""


@pytest.fixture
def slow(empty):
    """A project with a patch, opened, and a change of its code."""
    empty.patch("both", SLOW_MODE)
    empty.run("edit", "both", "--vllm", VERSION)
    change(empty, ENGINE, 'mode="slow"', 'mode="slower"')
    return empty


def test_a_stash_a_branch_and_a_worktree_do_not_go_with_the_checkout(slow):
    folder = tree(slow)
    ways = {
        "a stash": (("stash",), ("stash", "pop", "--index")),
        "the worktree wt": (("worktree", "add", "-d", "../wt"), ("worktree", "remove", "../wt")),
        "commits at refs/heads/mine": (("branch", "mine"), ("branch", "-D", "mine")),
    }
    for name, (there, back) in ways.items():
        git(folder, *there)
        if "mine" in there:
            commit = ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "mine")
            git(folder, "branch", "--force", "mine", git(folder, *commit).strip())
        for args in (
            ("refresh", "both"),
            ("refresh", "both", "--into", "more"),
            ("edit", "--abort", "both"),
        ):
            assert name in refused(slow, *args, code="edit.own-work").errors
        git(folder, *back)
    slow.run("refresh", "both")
    assert 'mode="slower"' in yaml(slow)


def test_what_a_patch_changes_and_is_no_text_now_is_refused(slow):
    for content in (b"\0\1", b"# \xe9\n" + FILES[ENGINE]):
        (tree(slow) / ENGINE).write_bytes(content)
        run = refused(slow, "refresh", "both", code="importing.unsupported")
        assert f"the patch changes {ENGINE}" in run.errors


def test_the_way_back_of_a_removed_file_has_the_patch(slow):
    (tree(slow) / ENGINE).unlink()
    run = refused(slow, "refresh", "both", code="importing.missing-files")
    command = run.errors.partition(": git ")[2].partition(" brings back")[0]
    git(slow.folder, *command.split())
    assert 'mode="slow"' in (tree(slow) / ENGINE).read_text()


def test_tests_and_documentation_that_a_patch_changes_stay_in_it(empty):
    files = {**FILES, "tests/test_a.py": b"A = 1\n", "docs/a.md": b"one\n"}
    source = write_tree(empty.folder / "source", files)
    empty.patch("both", NAME_PROJ + BESIDE)
    empty.run("edit", "both", "--vllm", source)
    change(empty, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    change(empty, "docs/a.md", "two", "three")
    assert "2 of 3 edits stay word for word" in empty.run("refresh", "both").out
    assert "rewrite: A = 2" in yaml(empty)
    assert "replace: three" in yaml(empty)


def test_a_name_with_quotes_is_one(slow):
    (tree(slow) / "vllm" / 'a"b.py').write_text("B = 1\n")
    slow.run("refresh", "both")
    assert (slow.patches / "both" / 'a"b.py').read_text() == "B = 1\n"


def test_no_new_patch_takes_back_the_one_that_is_edited(slow):
    git(tree(slow), "reset", "--quiet", "--hard")
    refused(slow, "refresh", "both", "--into", "more", code="edit.nothing-left")


def test_a_change_made_while_the_command_runs_keeps_the_checkout(slow, monkeypatch):
    def put(*paths):
        (tree(slow) / ENGINE).write_text("# Mine.\n")
        replace_dir(*paths)

    monkeypatch.setattr(replacement, "replace_dir", put)
    assert f"{ENGINE}: somebody changed it" in slow.run("refresh", "both", code=1).out
    assert (tree(slow) / ENGINE).read_text() == "# Mine.\n"
    assert 'mode="slower"' in yaml(slow)


def test_two_runs_come_one_after_the_other(slow, monkeypatch):
    def end_edit(folder, progress):
        lock = transaction.lock_target(folder, progress)
        # Nobody else gets even a shared lock.
        assert try_lock(folder.parent / f".{folder.name}.vpatch/lock", exclusive=False) is None
        work_tree.remove_checkout(folder)
        return lock

    monkeypatch.setattr(refresh_command, "lock_target", end_edit)
    assert slow.run("refresh", "both", code=2).codes == ("edit.not-begun",)
    slow.run("edit", "both", "--vllm", VERSION)
    monkeypatch.setattr(work_tree, "lock_target", end_edit)
    assert slow.run("edit", "--abort", "both", code=2).codes == ("edit.not-begun",)
