"""Diffs, commits and trees become changes on top of a release."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers import fails, tree_of
from tests.projects import git
from vpatch.changes.change import DiffedChange, Message
from vpatch.changes.difftext import read_diffs
from vpatch.changes.stack import Stack
from vpatch.commands.importing.patch_yaml import patch_yaml
from vpatch.commands.importing.sources.source import _in_order, distinct_ids, from_diffs, from_range
from vpatch.commands.importing.sources.tree import from_tree
from vpatch.errors import ManyErrors

FILES = {
    "vllm/__init__.py": "",
    "vllm/a.py": "a\nb\nc\nd\ne\nf\ng\n",
    "vllm/b.py": "x = 1\n\nx = 1\n",
    "tests/test_a.py": "a\n",
    "docs/a.md": "a\n",
    "pyproject.toml": "",
}
HUNK = "@@ -3,3 +3,3 @@\n c\n-d\n+D\n e\n"
B = "@@ -1,2 +1,2 @@\n-x = 1\n+y = 1\n \n"
TEST = "--- a/tests/test_a.py\n+++ b/tests/test_a.py\n@@ -1 +1 @@\n-a\n+b\n"


def diff(path="vllm/a.py", hunk=HUNK, new=None):
    return f"--- a/{path}\n+++ b/{new or path}\n{hunk}"


READ = read_diffs(diff().encode(), "fix.diff")


@pytest.fixture
def stack():
    return Stack(tree_of(FILES))


def diffs_on(path, stack):
    return [stack.take(change) for change in from_diffs(path)]


def range_on(repository, commits, stack):
    return [stack.take(change) for change in from_range(repository, commits)]


def read(stack, folder, text, name="fix.diff"):
    (folder / name).write_text(text)
    return diffs_on(folder / name, stack)


@pytest.mark.parametrize(
    "name",
    [
        "a/vllm/a.py",
        "vllm/a.py",
        "./vllm/a.py",
        "/usr/lib/python3/dist-packages/vllm/a.py",
        "/venv/lib/python3.12/site-packages/vllm/a.py",
        "vllm-0.23.0/vllm/a.py",
        "/workspace/src/vllm/vllm/a.py",
    ],
)
def test_a_name_means_a_file_of_the_release(stack, tmp_path, name):
    (change,) = read(stack, tmp_path, f"--- {name}\n+++ {name}\n{HUNK}")
    (file,) = change.files
    assert (file.path, file.after) == ("vllm/a.py", b"a\nb\nc\nD\ne\nf\ng\n")


def test_tests_docs_and_unknown_files_are_set_aside(stack, tmp_path):
    unknown = diff("vllm/gone.py")
    (change,) = read(stack, tmp_path, diff() + TEST + diff("docs/a.md") + unknown)
    assert [file.path for file in change.files] == ["vllm/a.py"]
    assert [(left.path, left.why, left.hunks) for left in change.aside] == [
        ("tests/test_a.py", "it is a test", 1),
        ("docs/a.md", "it is documentation", 1),
        ("vllm/gone.py", "the release has no such file", 1),
    ]
    assert "+D" in change.aside[2].diff


def test_more_lines_of_a_file_than_an_import_ends_with_are_an_error(stack, tmp_path):
    hunk = "@@ -7 +7,20002 @@\n g\n" + "+x\n" * 20_001
    with fails("importing.unsupported", "more than 20000 lines of a file: vllm/a.py"):
        read(stack, tmp_path, diff(hunk=hunk))


def test_a_link_of_the_release_is_not_changed(tmp_path):
    tree = replace(tree_of(FILES), links=frozenset({"vllm/l.py", "vllm/linked"}))
    for name in ("vllm/l.py", "vllm/linked/n.py"):
        new = f"--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+a\n"
        with fails("importing.unsupported", "symbolic link"):
            read(Stack(tree), tmp_path, new)


def test_a_series_changes_a_file_that_it_added_inside_the_package(stack, tmp_path):
    (tmp_path / "1.diff").write_text(
        "--- /dev/null\n+++ b/n.py\n@@ -0,0 +1 @@\n+a\n" + diff("b.py", B)
    )
    (tmp_path / "2.diff").write_text(diff("n.py", "@@ -1 +1 @@\n-a\n+b\n"))
    first, second = diffs_on(tmp_path, stack)
    assert [file.path for file in first.files] == ["vllm/n.py", "vllm/b.py"]
    assert first.notes[0] == "the paths in the diff lack vllm/: they are taken as below it"
    assert [(file.path, file.after) for file in second.files] == [("vllm/n.py", b"b\n")]


def test_names_are_those_of_the_packages_of_the_tree(tmp_path):
    tree = tree_of({"plugin/__init__.py": "", "plugin/a.py": FILES["vllm/a.py"]}, name="my-plugin")
    (change,) = read(Stack(tree), tmp_path, diff("a.py"))
    assert [file.path for file in change.files] == ["plugin/a.py"]
    (change,) = read(Stack(tree), tmp_path, diff("plugin/a.py") + diff("vllm/a.py"))
    assert [(left.path, left.lost) for left in change.aside] == [("vllm/a.py", True)]


def test_a_diff_of_nothing_but_tests_is_an_error(stack, tmp_path):
    with fails("importing.nothing-left", "it is a test"):
        read(stack, tmp_path, TEST)


def test_a_new_file(stack, tmp_path):
    new = "--- /dev/null\n+++ b/vllm/new.py\n@@ -0,0 +1,2 @@\n+a\n+b\n"
    (change,) = read(stack, tmp_path, new)
    assert [(f.path, f.before, f.after) for f in change.files] == [("vllm/new.py", None, b"a\nb\n")]


def test_a_hunk_at_another_line_is_found_and_one_that_fits_nowhere_is_an_error(stack, tmp_path):
    (change,) = read(stack, tmp_path, diff(hunk=HUNK.replace("3,3", "1,3")))
    assert change.files[0].after.count(b"D") == 1
    with fails("importing.does-not-apply", "hunk at line 3"):
        read(stack, tmp_path, diff(hunk=HUNK.replace(" e", " z")))


def test_the_line_number_settles_what_is_there_twice_and_that_is_said(stack, tmp_path):
    hunk = "@@ -3 +3 @@\n-x = 1\n+x = 2\n"
    (change,) = read(stack, tmp_path, diff("vllm/b.py", hunk))
    assert change.files[0].after == b"x = 1\n\nx = 2\n"
    assert "2 times; the line number decides" in change.notes[0]


def test_hunks_without_context_go_by_their_lines(stack, tmp_path):
    (change,) = read(stack, tmp_path, diff(hunk="@@ -4 +4 @@\n-d\n+D\n@@ -6,0 +7 @@\n+new\n"))
    assert change.files[0].after == b"a\nb\nc\nD\ne\nf\nnew\ng\n"
    assert "only the line number says where it goes" in change.notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "--- a/vllm/a.py\n+++ /dev/null\n@@ -1,7 +0,0 @@\n-a\n-b\n-c\n-d\n-e\n-f\n-g\n",
        "diff --git a/vllm/a.py b/vllm/c.py\nrename from vllm/a.py\nrename to vllm/c.py\n",
        diff(new="vllm/c.py"),
        "diff --git a/vllm/a.py b/vllm/a.py\nold mode 100644\nnew mode 100755\n",
        "diff --git a/vllm/a.py b/vllm/a.py\nGIT binary patch\nliteral 0\n",
        "--- /dev/null\n+++ b/vllm/../../x.py\n@@ -0,0 +1 @@\n+a\n",
    ],
)
def test_what_no_patch_can_do_is_an_error(stack, tmp_path, text):
    with fails("importing.unsupported"):
        read(stack, tmp_path, text)


def test_all_files_of_a_folder_that_are_no_diffs_are_told_at_once(tmp_path):
    (tmp_path / "1.diff").write_text(diff().replace("\n", "\r\n"), newline="")
    (tmp_path / "2.patch").write_text("no diff\n")
    with pytest.raises(ManyErrors) as caught:
        from_diffs(tmp_path)
    codes = [error.code for error in caught.value.errors]
    assert codes == ["importing.crlf", "importing.no-diff"]


def test_the_diffs_of_a_folder_are_a_stack(stack, tmp_path):
    (tmp_path / "2.diff").write_text(diff(hunk=HUNK.replace("-d", "-D").replace("+D", "+E")))
    (tmp_path / "1.diff").write_text(diff())
    (tmp_path / "README").write_text("no diff")
    first, second = diffs_on(tmp_path, stack)
    assert second.files[0].before == first.files[0].after
    assert b"E" in second.files[0].after


def test_a_quilt_series_gives_the_order(stack, tmp_path):
    (tmp_path / "1.diff").write_text(diff(hunk=HUNK.replace("-d", "-D").replace("+D", "+E")))
    (tmp_path / "2.diff").write_text(diff())
    (tmp_path / "series").write_text("# order\n2.diff\n1.diff -p1 # last\n")
    assert [change.where[-6:] for change in diffs_on(tmp_path, stack)] == ["2.diff", "1.diff"]
    assert b"E" in stack.read("vllm/a.py")


@pytest.mark.parametrize(
    "names",
    [
        ("1-z.diff", "2-a.diff", "10-b.diff"),
        ("0001-z.patch", "2.patch", "010-a.patch"),
        ("fix-v2-a.diff", "fix-v10-a.diff", "fix-v" + "9" * 5000 + ".diff"),
        ("a.diff", "b.diff", "c.diff"),
    ],
    ids=lambda names: names[1],
)
def test_numbers_in_names_give_the_order(names):
    assert sorted(set(names), key=_in_order) == list(names)


def test_a_folder_with_numbers_is_taken_in_their_order(stack, tmp_path):
    letters = "dDEF"
    for number, (old, new) in enumerate(pairwise(letters), 9):
        hunk = HUNK.replace("-d", f"-{old}").replace("+D", f"+{new}")
        (tmp_path / f"{number}-fix.diff").write_text(diff(hunk=hunk))
    assert [Path(change.where).name for change in diffs_on(tmp_path, stack)] == [
        "9-fix.diff",
        "10-fix.diff",
        "11-fix.diff",
    ]


@pytest.mark.parametrize(
    ("where", "origin"),
    [
        ("/home/ann/secret/fix.diff", "fix.diff"),
        ("../secret/fix.diff", "fix.diff"),
        ("fix.diff", "fix.diff"),
        ("/home/ann/vllm: 0123456789ab", "vllm: 0123456789ab"),
    ],
)
def test_the_folders_of_a_source_stay_out_of_the_patch(stack, where, origin):
    (change,) = [stack.take(DiffedChange(d.files, Message(), where, "fix")) for d in READ]
    text = patch_yaml(change, [], notes={}, needed_in=("vllm", "<1"), concerns={}, effect=None)
    assert f'title: "Import {origin}"' in text
    assert f"Imported from {origin}." in text
    assert "ann" not in text
    assert "secret" not in text


def test_a_quilt_series_that_takes_a_diff_out_is_an_error(tmp_path):
    (tmp_path / "1.diff").write_text(diff())
    (tmp_path / "series").write_text("1.diff -p1 -R\n")
    with fails("importing.unsupported", "1.diff"):
        from_diffs(tmp_path)


def test_a_folder_without_diffs_and_a_file_that_is_not_there(stack, tmp_path):
    with fails("importing.no-diff"):
        diffs_on(tmp_path, stack)
    with fails("importing.unreadable"):
        diffs_on(tmp_path / "x.diff", stack)


def test_ids_are_distinct(stack, tmp_path):
    (tmp_path / "fix.diff").write_text(diff())
    (tmp_path / "fix.patch").write_text(diff("vllm/b.py", "@@ -1,2 +1,2 @@\n-x = 1\n+y = 1\n \n"))
    changes = diffs_on(tmp_path, stack)
    assert [change.id for change in distinct_ids(changes)] == ["fix", "fix-2"]
    with fails("cli.conflicting-options"):
        distinct_ids(changes, "one")
    assert distinct_ids(changes[:1], "one")[0].id == "one"


# --- commits --------------------------------------------------------------------------------------


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "fork"
    for path, text in FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    git(tmp_path, "init", "--quiet", "--initial-branch=main", str(folder))
    commit(folder, "base")
    git(folder, "tag", "base")
    return folder


def commit(folder, message):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def edit(folder, path, old, new):
    file = folder / path
    file.write_text(file.read_text().replace(old, new))


def test_each_commit_of_a_range_is_a_change(stack, repository):
    edit(repository, "vllm/a.py", "d", "D")
    edit(repository, "tests/test_a.py", "a", "b")
    commit(repository, "[Bugfix] First (#7)\n\nIt fails.")
    edit(repository, "vllm/a.py", "D", "E")
    commit(repository, "Second")
    first, second = range_on(repository, "base..main", stack)
    assert (first.message.title, first.message.body) == ("[Bugfix] First (#7)", "It fails.")
    assert first.message.threads == ("vllm-project/vllm#7",)
    assert [left.path for left in first.aside] == ["tests/test_a.py"]
    assert second.files[0].after == b"a\nb\nc\nE\ne\nf\ng\n"
    assert [first.id, second.id] == ["first", "second"]


def test_a_range_with_a_merge_is_an_error(stack, repository):
    git(repository, "checkout", "--quiet", "-b", "side")
    edit(repository, "vllm/a.py", "d", "D")
    commit(repository, "side")
    git(repository, "checkout", "--quiet", "main")
    edit(repository, "vllm/b.py", "x", "y")
    commit(repository, "main")
    git(repository, "merge", "--quiet", "--no-edit", "side")
    with fails("importing.merge"):
        range_on(repository, "base..main", stack)


def test_a_renamed_file_of_a_commit_is_an_error(stack, repository):
    git(repository, "mv", "vllm/a.py", "vllm/c.py")
    commit(repository, "move")
    with fails("importing.unsupported", "renames"):
        range_on(repository, "base..main", stack)


@pytest.mark.parametrize("commits", ["base", "base..nothing", "main..base", "..main", "-x..main"])
def test_what_is_no_range_is_an_error(stack, repository, commits):
    with fails("git.no-such-range"):
        range_on(repository, commits, stack)


def test_a_folder_that_is_in_no_repository_is_an_error(stack, tmp_path):
    with fails("git.no-such-range"):
        range_on(tmp_path, "a..b", stack)


# --- trees ----------------------------------------------------------------------------------------


def write(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def test_a_source_tree_is_compared_with_the_release(stack, tmp_path):
    tree = write(tmp_path / "my vllm", FILES)
    edit(tree, "vllm/a.py", "d", "D")
    write(tree, {"vllm/new.py": "n = 1\n", "tests/more.py": "", "vllm/__pycache__/a.pyc": ""})
    write(tree, {"vpatch.lock": "the lock of a checkout"})
    (change,) = from_tree(tree, stack)
    assert {file.path for file in change.files} == {"vllm/a.py", "vllm/new.py"}
    assert [left.path for left in change.aside] == ["tests/more.py"]
    assert change.id == "my-vllm"


def installed(tmp_path, record):
    site = write(
        tmp_path / "site-packages",
        {
            **{path: text for path, text in FILES.items() if path.startswith("vllm/")},
            "vllm/_version.py": "v = 1\n",
            "vllm/built.py": "b = 1\n",
            "vllm/mine.py": "m = 1\n",
            "other/x.py": "",
        },
    )
    edit(site, "vllm/a.py", "d", "D")
    if record:
        digest = base64.urlsafe_b64encode(hashlib.sha256(b"b = 1\n").digest()).rstrip(b"=").decode()
        row = f"vllm/built.py,sha256={digest},6\n"
        write(site, {"vllm-0.23.0.dist-info/RECORD": row})
    return site


@pytest.mark.parametrize("below", ["", "vllm"])
def test_a_site_packages_knows_its_own_files_by_the_record(stack, tmp_path, below):
    (change,) = from_tree(installed(tmp_path, record=True) / below, stack)
    assert {file.path for file in change.files} == {"vllm/a.py", "vllm/mine.py"}
    assert change.aside == ()


def test_without_a_record_new_files_are_set_aside(stack, tmp_path):
    (change,) = from_tree(installed(tmp_path, record=False), stack)
    assert {file.path for file in change.files} == {"vllm/a.py"}
    assert {left.path for left in change.aside} == {"vllm/built.py", "vllm/mine.py"}


def test_what_vpatch_made_keeps_its_id(stack, tmp_path):
    mail = (
        "From 0000000000000000000000000000000000000000 Mon Sep 17 00:00:00 2001\n"
        "Subject: [PATCH] [Bugfix] Fix it\n\nIt fails.\n\n"
        "Vpatch-Id: my-fix\nVpatch-Digest: sha256:1\n\n"
    )
    (change,) = read(stack, tmp_path, mail + diff(), "0001-my-fix.patch")
    assert change.id == "my-fix"
    assert (change.message.title, change.message.body) == ("[Bugfix] Fix it", "It fails.")


def test_trees_that_cannot_be_imported(stack, tmp_path):
    with fails("importing.no-tree"):
        from_tree(tmp_path, stack)
    tree = write(tmp_path / "tree", FILES)
    with fails("importing.nothing-left"):
        from_tree(tree, stack)
    (tree / "vllm/b.py").unlink()
    with fails("importing.missing-files", "vllm/b.py"):
        from_tree(tree, stack)
