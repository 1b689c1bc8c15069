from __future__ import annotations

import subprocess

import pytest

from tests.projects import ENGINE, FILES, LLAMA, NAMED, SLOW_MODE, git, write_tree


def diff(project, *args, **options):
    return project.run("diff", *args, **options).out.encode()


def test_diff_has_the_same_bytes_each_time(applied):
    whole = diff(applied)
    assert whole.startswith(b"diff --git a/vllm/engine.py b/vllm/engine.py\nindex ")
    assert whole == diff(applied)
    (applied.folder / ".." / "home" / ".gitconfig").write_text(
        "[diff]\nnoprefix = true\ncontext = 1\n[color]\nui = always\n[core]\nabbrev = 4\n"
    )
    assert whole == diff(applied, "--offline")


def test_diff_applies_to_the_pristine_tree(applied, tmp_path):
    tree = write_tree(tmp_path / "pristine")
    subprocess.run(["git", "apply", "-"], cwd=tree, input=diff(applied), check=True)
    for path in FILES:
        assert (tree / path).read_bytes() == (applied.target / path).read_bytes()
    assert NAMED in (tree / LLAMA).read_bytes()


def test_diff_of_one_patch(applied):
    one = diff(applied, "slow-mode")
    assert one.count(b"diff --git") == 1
    assert ENGINE.encode() in one
    assert one == git(applied.target, "diff", "--full-index", "HEAD^", "HEAD").encode()
    both = diff(applied, "name-proj", "slow-mode")
    assert both.index(LLAMA.encode()) < both.index(ENGINE.encode())


def test_diff_shows_the_patches_as_they_are_now(applied):
    file = applied.patches / "slow-mode" / "patch.yaml"
    file.write_text(file.read_text().replace('"slow"', '"slower"'))
    assert b'+    return launch(config, mode="slower")' in diff(applied)


def test_diff_used_wrongly(project):
    assert project.run("diff", code=2).codes == ("checkout.not-found",)
    project.apply()
    run = project.run("diff", "nothing", code=2)
    assert run.codes == ("checkout.no-such-patch",)
    assert "has no patch 'nothing'\n  next: choose among: name-proj, slow-mode" in run.err
    project.run("apply", "--vllm", "0.51.0")
    assert project.run("diff", code=2).codes == ("checkout.several",)
    assert diff(project, "--vllm", "0.51")
    assert "there is no lock" in project.run("diff", "--checkout", "nowhere", code=2).err


def test_a_patch_that_is_no_longer_needed(applied):
    applied.patch("slow-mode", SLOW_MODE, more="effect: {text: def start}\n")
    assert applied.run("diff", "slow-mode", code=2).codes == ("checkout.patch-not-needed",)


def write_series(project, folder, *args, **options):
    return project.run("diff", *args, "--series", str(folder), **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_series_for_git_am(applied, tmp_path):
    run = write_series(applied, tmp_path / "out" / "series")
    folder = tmp_path / "out" / "series"
    files = ["0001-name-proj.patch", "0002-slow-mode.patch"]
    assert run.out.splitlines() == [str(folder / name) for name in files]
    assert names(folder) == [*files, "series"]
    assert names(folder.parent) == ["series"]
    tree = write_tree(tmp_path / "pristine")
    git(tree, "init", "--quiet")
    git(tree, "add", "--all")
    who = ["-c", "user.name=a", "-c", "user.email=a@b"]
    git(tree, *who, "commit", "--quiet", "--message=base")
    git(tree, *who, "am", "--quiet", "--keep-non-patch", *(str(folder / name) for name in files))
    for path in FILES:
        assert (tree / path).read_bytes() == (applied.target / path).read_bytes()
    # The titles begin with brackets, which git am would drop.
    message = "log", "-2", "--format=%an %ad%n%B"
    assert git(tree, *message) == git(applied.target, *message, "vpatch")
    assert "[" in git(tree, *message)


def test_a_series_for_patch_and_quilt(applied, tmp_path):
    write_series(applied, tmp_path / "series")
    tree = write_tree(tmp_path / "pristine")
    for name in (tmp_path / "series" / "series").read_text().splitlines():
        text = (tmp_path / "series" / name).read_bytes()
        subprocess.run(["patch", "-p1", "--fuzz=0"], cwd=tree, input=text, check=True)
    for path in FILES:
        assert (tree / path).read_bytes() == (applied.target / path).read_bytes()


def test_a_series_has_the_same_bytes_each_time(applied, tmp_path):
    write_series(applied, tmp_path / "one")
    (applied.folder / ".." / "home" / ".gitconfig").write_text(
        "[diff]\nnoprefix = true\ncontext = 1\n[format]\nsignature = me\nattach = true\n"
        'headers = "X-Mine: 1\\n"\nsignOff = true\n[core]\nabbrev = 4\n'
    )
    write_series(applied, tmp_path / "two", "--offline")
    for name in names(tmp_path / "one"):
        text = (tmp_path / "one" / name).read_bytes()
        assert text == (tmp_path / "two" / name).read_bytes()
        # Neither the version of git nor the commit is in it.
        assert git(applied.target, "rev-parse", "vpatch").strip().encode() not in text


def test_an_earlier_series_is_replaced(applied, tmp_path):
    folder = tmp_path / "series"
    write_series(applied, folder)
    write_series(applied, folder, "slow-mode")
    assert names(folder) == ["0001-slow-mode.patch", "series"]
    assert names(tmp_path / "series") == names(folder)
    folder.joinpath("notes.txt").write_text("mine")
    run = write_series(applied, folder, code=2)
    assert run.codes == ("checkout.no-series",)
    assert names(folder) == ["0001-slow-mode.patch", "notes.txt", "series"]


@pytest.mark.parametrize("link", [False, True])
def test_a_folder_of_somebody_else_stays(applied, tmp_path, link):
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "other.patch").write_text("mine")
    if link:
        (tmp_path / "link").symlink_to(mine)
    folder = tmp_path / "link" if link else mine
    assert write_series(applied, folder, code=2).codes == ("checkout.no-series",)
    assert names(mine) == ["other.patch"]


def test_a_quilt_series_by_hand_stays(applied, tmp_path):
    mine = tmp_path / "patches"
    mine.mkdir()
    (mine / "fix.patch").write_text("--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n")
    (mine / "series").write_text("fix.patch\n")
    assert write_series(applied, mine, code=2).codes == ("checkout.no-series",)
    assert names(mine) == ["fix.patch", "series"]


def test_a_series_that_cannot_be_made_leaves_nothing(applied, tmp_path):
    applied.patch("slow-mode", SLOW_MODE, more="effect: {text: def start}\n")
    run = write_series(applied, tmp_path / "out" / "series", "slow-mode", code=2)
    assert run.codes == ("checkout.patch-not-needed",)
    assert not (tmp_path / "out").exists()
