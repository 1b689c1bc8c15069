"""`vpatch edit` and `refresh` without a patch: each change goes to the patch that it belongs to."""

from __future__ import annotations

import shutil

import pytest

from tests.commands.edit.kill_driver import killed
from tests.projects import ENGINE, LLAMA, NAME_PROJ, SLOW_MODE, VERSION, git, snapshot

HEAD = """
- find: self.head = Linear(...)
  add-keyword: {prefix: 'f"{prefix}.head"'}
"""
SERIES = ("slow-mode", "name-proj", "name-head")


@pytest.fixture
def series(empty):
    """A project with three patches in a recipe, opened. Two change the same definition."""
    empty.patch("slow-mode", SLOW_MODE)
    empty.patch("name-proj", NAME_PROJ)
    empty.patch("name-head", HEAD)
    (empty.folder / "recipes").mkdir()
    recipe = f"vllm: {VERSION}\npatches: [{', '.join(SERIES)}]\n"
    (empty.folder / "recipes" / "ours.yaml").write_text(recipe)
    empty.run("edit")
    return empty


def tree(project):
    return project.folder / ".vpatch" / "edit"


def change(project, path, old, new):
    file = tree(project) / path
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def yaml(project, patch_id):
    return (project.patches / patch_id / "patch.yaml").read_text()


def made(project):
    shutil.rmtree(project.folder / "out", ignore_errors=True)
    project.run("apply", "--recipe", "ours", "--checkout", "out")
    return {path: (project.folder / "out" / path).read_text() for path in (ENGINE, LLAMA)}


def test_the_series_is_committed_and_the_work_tree_is_clean(series):
    log = git(tree(series), "log", "--format=%s", "-3").splitlines()
    assert len(log) == 3
    assert git(tree(series), "status", "--porcelain") == ""
    assert "is there already" in series.run("edit").out
    assert series.run("refresh", "slow-mode", code=2).codes == ("edit.in-series",)
    assert "is removed" in series.run("edit", "--abort").out
    assert series.run("refresh", "slow-mode", code=2).codes == ("edit.not-begun",)
    assert not tree(series).exists()


def edit_two(project):
    change(project, ENGINE, 'mode="slow"', 'mode="slower"')
    change(project, LLAMA, 'f"{prefix}.head"', 'f"{prefix}.lm_head"')


def test_each_hunk_goes_to_the_patch_that_wrote_its_lines(series):
    edit_two(series)
    before, wanted = yaml(series, "name-proj"), (tree(series) / LLAMA).read_text()
    document = series.run("refresh", "--json").json
    assert [(one["id"], one["hunks"]) for one in document["absorbed"]] == [
        ("slow-mode", [f"{ENGINE}:2"]),
        ("name-head", [f"{LLAMA}:4"]),
    ]
    assert 'mode="slower"' in yaml(series, "slow-mode")
    assert ".lm_head" in yaml(series, "name-head")
    assert yaml(series, "name-proj") == before
    assert made(series)[LLAMA] == wanted
    assert not tree(series).exists()


def test_what_no_patch_or_several_have_stays_in_the_work_tree(series):
    # The definition is that of two patches, and the lines on both sides are not of the same one.
    change(series, LLAMA, "  # narrow\n", "  # narrow\n        self.tail = None\n")
    change(series, ENGINE, "    return launch", "    config = dict(config)\n    return launch")
    (tree(series) / "vllm" / "more.py").write_text("MORE = 1\n")
    run = series.run("refresh", code=1)
    assert f"in no patch  {LLAMA}:4: name-head, name-proj change this code" in run.out
    assert "in no patch  vllm/more.py:1: it is a new file" in run.out
    assert f"has now  {ENGINE}:2" in run.out
    assert "dict(config)" in made(series)[ENGINE]
    status = git(tree(series), "status", "--porcelain").splitlines()
    assert [line[3:] for line in status] == [LLAMA, "vllm/more.py"]
    assert "dict(config)" in git(tree(series), "show", f"HEAD:{ENGINE}")
    before = snapshot(series.patches)
    again = series.run("refresh", code=1)
    assert "got" not in again.out
    assert snapshot(series.patches) == before
    change(series, LLAMA, "        self.tail = None\n", "")
    (tree(series) / "vllm" / "more.py").unlink()
    assert "says what the work tree says" not in series.run("refresh").err
    assert not tree(series).exists()


def test_hunks_of_a_patch_of_which_nothing_would_remain_stay(series):
    change(series, ENGINE, 'mode="slow"', 'mode="fast"')
    change(series, LLAMA, 'f"{prefix}.head"', 'f"{prefix}.lm_head"')
    before = yaml(series, "slow-mode")
    run = series.run("refresh", code=1)
    assert f"in no patch  {ENGINE}:2: slow-mode: " in run.out
    assert yaml(series, "slow-mode") == before
    assert ".lm_head" in yaml(series, "name-head")
    assert 'mode="fast"' in (tree(series) / ENGINE).read_text()


def test_a_series_that_somebody_changed_meanwhile_is_refused(series):
    edit_two(series)
    assert series.run("edit", "name-proj", code=0)
    assert series.run("refresh", code=2).codes == ("edit.several",)
    series.run("edit", "--abort", "name-proj")
    args = ("edit", "--vllm", "0.51.0")
    assert series.run(*args, code=2).codes == ("edit.other-patch",)
    series.patch("name-head", HEAD.replace(".head", ".other"))
    before = snapshot(series.folder)
    assert series.run("refresh", code=2).codes == ("edit.series-changed",)
    assert snapshot(series.folder) == before


@pytest.mark.slow
def test_a_kill_leaves_each_patch_old_or_new_and_the_next_run_ends_it(series):
    edit_two(series)
    seen = killed(series, "refresh")
    assert all(seen[name] > 0 for name in ("old", "both", "new"))
