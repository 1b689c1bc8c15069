"""`vpatch import DIR`: a checkout of `vpatch source` that was edited, or another changed tree."""

from __future__ import annotations

import shutil

import pytest
from ruamel.yaml import YAML

from tests.commands.conftest import PLUGIN_ENGINE
from tests.projects import ENGINE, LLAMA, VERSION, git, snapshot, write_tree

SLOW = b'def start(config):\n    return launch(config, mode="slow")\n'


@pytest.fixture
def source(empty):
    """A project without patches, and the plain checkout `src`."""
    empty.run("source", "--vllm", VERSION, "src")
    empty.src = empty.folder / "src"
    return empty


@pytest.fixture
def edited(source):
    """The same, after an edit of ENGINE."""
    (source.src / ENGINE).write_bytes(SLOW)
    return source


def commit(folder, message):
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def import_it(project, *args, **options):
    return project.run("import", "src", "--releases", "none", *args, **options)


def declared(project, patch_id="src"):
    return YAML(typ="safe").load((project.patches / patch_id / "patch.yaml").read_text())


def applied(project):
    """What an apply of the project's patches makes of the files."""
    project.apply()
    return project.target


def test_an_edit_becomes_a_patch_without_a_word_of_the_release(edited):
    run = import_it(edited)
    assert run.out.startswith("src  from src\n  gives the same bytes as the source\n")
    assert declared(edited)["needed-in"] == {"vllm": f">={VERSION}"}
    assert (applied(edited) / ENGINE).read_bytes() == SLOW


def test_one_commit_gives_its_message(edited):
    commit(edited.src, "Start slowly\n\nFast is too fast.")
    import_it(edited)
    patch = declared(edited, "start-slowly")
    assert (patch["title"], patch["why"].strip()) == ("Start slowly", "Fast is too fast.")
    assert (applied(edited) / ENGINE).read_bytes() == SLOW


def test_a_commit_and_more_are_one_patch(edited):
    commit(edited.src, "Start slowly")
    (edited.src / LLAMA).write_bytes((edited.src / LLAMA).read_bytes() + b"\nMORE = 1\n")
    import_it(edited)
    assert declared(edited)["title"] == "What src changes"
    checkout = applied(edited)
    for path in (ENGINE, LLAMA):
        assert (checkout / path).read_bytes() == (edited.src / path).read_bytes()


def test_several_commits_are_one_patch_and_that_is_said(edited):
    commit(edited.src, "One")
    (edited.src / LLAMA).write_bytes((edited.src / LLAMA).read_bytes() + b"\nMORE = 1\n")
    commit(edited.src, "Two")
    run = import_it(edited)
    base = git(edited.src, "rev-parse", "base")[:12]
    assert f"note  2 commits became one patch; --git-range {base}..HEAD makes one" in run.out


def test_a_range_of_commits_knows_the_release_too(edited):
    commit(edited.src, "One")
    (edited.src / LLAMA).write_bytes((edited.src / LLAMA).read_bytes() + b"\nMORE = 1\n")
    commit(edited.src, "Two")
    import_it(edited, "--git-range", "base..HEAD")
    assert sorted(path.name for path in edited.patches.iterdir()) == ["one", "two"]


@pytest.mark.parametrize("is_committed", [False, True])
def test_new_files_are_added(edited, is_committed):
    (edited.src / "vllm" / "mine.py").write_text("MINE = 1\n")
    # git ignores it.
    (edited.src / "build").mkdir()
    (edited.src / "build" / "built.py").write_text("")
    (edited.src / "vllm" / "built.so").write_text("")
    if is_committed:
        commit(edited.src, "Mine")
    run = import_it(edited, "--id", "mine")
    assert "note  git ignores 1 new file: build/built.py\n" in run.out
    assert (applied(edited) / "vllm" / "mine.py").read_text() == "MINE = 1\n"
    assert not (edited.target / "build").exists()


@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize(
    ("change", "message", "code"),
    [
        ("remove", f"removes or renames files: {LLAMA}", "importing.missing-files"),
        ("rename", f"removes or renames files: {LLAMA}", "importing.missing-files"),
        # No module: a change of it must not be lost either.
        ("script", "removes or renames files: tools/run.sh", "importing.missing-files"),
        ("mode", f"changes the mode of files: {LLAMA}", "importing.unsupported"),
        ("executable", "adds executable files: vllm/new.sh", "importing.unsupported"),
        ("link", "no files: vllm/link.py", "importing.unsupported"),
        ("replaced", f"no files: {LLAMA}", "importing.unsupported"),
    ],
)
def test_what_no_patch_can_do_is_refused(edited, change, message, code, is_committed):
    file, src = edited.src / LLAMA, edited.src
    match change:
        case "remove":
            file.unlink()
        case "rename":
            file.rename(file.with_name("moved.py"))
        case "script":
            (src / "tools" / "run.sh").unlink()
        case "mode":
            file.chmod(0o755)
        case "executable":
            (src / "vllm" / "new.sh").write_text("#!/bin/sh\n")
            (src / "vllm" / "new.sh").chmod(0o755)
        case "link":
            (src / "vllm" / "link.py").symlink_to("engine.py")
        case "replaced":
            file.unlink()
            file.symlink_to("../engine.py")
    if is_committed:
        commit(src, "Mine")
    run = import_it(edited, code=2)
    assert run.codes == (code,)
    assert message in run.err
    assert not edited.patches.exists()


def test_several_impossible_changes_are_all_named(edited):
    (edited.src / LLAMA).unlink()
    (edited.src / ENGINE).chmod(0o755)
    assert len(import_it(edited, code=2).codes) == 2


def test_a_file_that_git_does_not_look_at_is_not_missed(edited):
    git(edited.src, "update-index", "--assume-unchanged", ENGINE)
    run = import_it(edited, code=2)
    assert run.codes == ("importing.unsupported",)
    assert ENGINE in run.err


@pytest.mark.parametrize("what", ["binary", "repository"])
def test_what_is_left_aside_needs_a_person(edited, what):
    path = edited.src / "vllm" / "more"
    if what == "binary":
        path.write_bytes(b"\0\1")
    else:
        path.mkdir()
        git(path, "init", "--quiet")
        (path / "x").write_text("")
        commit(path, "One")
    run = import_it(edited, code=1)
    assert "left aside  vllm/more" in run.out


def test_a_test_is_left_aside(edited):
    (edited.src / "tests").mkdir()
    (edited.src / "tests" / "test_x.py").write_text("")
    assert "left aside  tests/test_x.py  1 hunk: it is a test" in import_it(edited).out


def test_nothing_differs(source):
    run = import_it(source, code=2)
    assert run.codes == ("importing.nothing-left",)
    assert "edit files below this folder" in run.err
    (source.src / "build").mkdir()
    (source.src / "build" / "mine.py").write_text("")
    run = import_it(source, code=2)
    assert "nothing differs from the release; build/mine.py: git ignores it" in run.err


@pytest.mark.parametrize("source_", [("src",), ("--from-tree", "src")])
def test_the_release_may_be_named_as_well(edited, source_):
    edited.run("import", *source_, "--vllm", "0.50", "--releases", "none")
    shutil.rmtree(edited.patches)
    run = edited.run("import", *source_, "--vllm", "0.51.0", code=2)
    assert run.codes == ("cli.conflicting-options",)
    assert f"it is a checkout of vllm {VERSION}, and the command names 0.51.0" in run.err


def test_another_tree(plugged):
    plugged.run("source", "--tree", "vllm-tiny==1.0.0", "src")
    (plugged.folder / "src" / PLUGIN_ENGINE).write_bytes(SLOW)
    import_it(plugged)
    assert list(declared(plugged)["needed-in"]) == ["vllm-tiny"]


def test_a_local_tree_is_known_from_another_folder(empty):
    write_tree(empty.folder / "vllm-fork")
    empty.run("source", "--vllm", "./vllm-fork", "src")
    (empty.folder / "src" / ENGINE).write_bytes(SLOW)
    other = empty.folder / "other"
    other.mkdir()
    empty.run("import", "../src", "--releases", "none", cwd=other)
    assert (other / "patches" / "src" / "patch.yaml").is_file()


def test_patches_are_not_written_into_the_checkout(edited):
    before = snapshot(edited.src)
    run = edited.run("import", ".", cwd=edited.src, code=2)
    assert run.codes == ("cli.bad-value",)
    assert "run the command in the folder of your project" in run.err
    assert snapshot(edited.src) == before


def test_a_damaged_record_says_what_to_do(edited):
    (edited.src / ".git" / "vpatch-source.json").write_text("{}")
    run = import_it(edited, code=1)
    assert run.codes == ("checkout.damaged-origin",)
    assert "name the release with --vllm" in run.err


# --- folders of another kind -------------------------------------------------------------------


@pytest.fixture
def tree(empty):
    """A changed tree of sources that does not know its release."""
    write_tree(empty.folder / "src")
    (empty.folder / "src" / ENGINE).write_bytes(SLOW)
    return empty


def test_a_changed_tree_needs_its_release(tree):
    run = import_it(tree, code=2)
    assert run.codes == ("cli.missing-option",)
    assert "src: the folder does not say which release it was made from" in run.err
    assert "--vllm VERSION; a folder that vpatch source writes knows it" in run.err


def test_a_checkout_with_patches_is_no_plain_one(project):
    project.apply("--checkout", "src")
    (project.folder / "src" / ENGINE).write_bytes(SLOW)
    run = import_it(project, code=2)
    assert run.codes == ("cli.missing-option",)
    assert "a checkout of vpatch apply, and has the changes of patches too" in run.err


def test_a_changed_tree_with_its_release(tree):
    import_it(tree, "--vllm", VERSION)
    assert (applied(tree) / ENGINE).read_bytes() == SLOW


def test_a_folder_of_diffs_stays_one(tree):
    diff = f"--- a/{ENGINE}\n+++ b/{ENGINE}\n@@ -2 +2 @@\n"
    diff += '-    return launch(config, mode="fast")\n+    return launch(config, mode="slow")\n'
    (tree.folder / "src" / "fix.diff").write_text(diff)
    assert "from src/fix.diff" in import_it(tree, "--vllm", VERSION).out


def test_a_folder_with_neither_says_what_to_name(empty):
    (empty.folder / "src").mkdir()
    run = import_it(empty, "--vllm", VERSION, code=2)
    assert run.codes == ("importing.no-diff",)
    assert "a tree of sources that you changed" in run.err
