"""`vpatch refresh --into`: what is changed beside a patch becomes a patch of its own."""

from __future__ import annotations

import pytest

from tests.commands.edit.kill_driver import killed
from tests.commands.edit.test_edit import change, made, opened, refused, tree, yaml
from tests.projects import ENGINE, LLAMA, NAME_PROJ, SLOW_MODE, VERSION, git, snapshot

NEWER = "0.51.0"


@pytest.fixture
def both(empty):
    """A project with a patch, opened."""
    empty.patch("both", NAME_PROJ + SLOW_MODE)
    opened(empty, "both")
    return empty


def into(project, *args, **options):
    before = snapshot(project.patches / "both")
    run = project.run("refresh", "--into", "more", *args, **options)
    assert snapshot(project.patches / "both") == before
    return run


def test_a_change_beside_the_patch_becomes_a_patch_that_requires_nothing(both):
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    wanted = (tree(both) / LLAMA).read_text()
    run = into(both)
    assert "not trusted" not in run.err
    assert "gives the same bytes as the source" in run.out
    assert "requires" not in yaml(both, "more")
    assert made(both, "both", "more")[LLAMA] == wanted
    assert made(both, "more", "both")[LLAMA] == wanted
    assert "Linear(4, 16)" in made(both, "more")[LLAMA]
    assert not tree(both).exists()


def test_a_change_of_what_the_patch_makes_requires_it(both):
    both.run("status", "--vllm", NEWER)
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    wanted = (tree(both) / ENGINE).read_text()
    document = into(both, "--json").json
    assert document["new"]["requires"] == ["both"]
    assert document["new"]["releases"][0]["version"] == NEWER
    assert document["new"]["releases"][0]["state"] == "needed"
    assert (document["id"], document["written"]) == ("both", False)
    assert "requires:\n- both\n" in yaml(both, "more").replace("  - both", "- both")
    assert made(both, "more")[ENGINE] == wanted


def test_a_patch_before_which_it_gives_other_code_is_required(empty):
    insert = "\n- insert: self.ours = 1\n  after: self.proj = Linear(...)\n"
    empty.patch("both", insert)
    opened(empty, "both")
    change(empty, LLAMA, "        self.ours", "        self.mine = 2\n        self.ours")
    assert into(empty, "--json").json["new"]["requires"] == ["both"]


def test_a_name_that_the_patch_defines_requires_it(empty):
    empty.patch("both", SLOW_MODE, concerns="text: def start")
    opened(empty, "both")
    change(empty, ENGINE, "def start", "LIMIT = 1\n\n\ndef start")
    empty.run("refresh", "both")
    opened(empty, "both")
    change(empty, LLAMA, "class Llama", "from vllm.engine import LIMIT\n\n\nclass Llama")
    change(empty, LLAMA, "Linear(4, 8)", "Linear(4, LIMIT)")
    assert into(empty, "--json").json["new"]["requires"] == ["both"]


def test_an_earlier_patch_alone_is_required(empty):
    empty.patch("slow-mode", SLOW_MODE)
    empty.patch("both", NAME_PROJ, more="requires: [slow-mode]")
    opened(empty, "both")
    change(empty, ENGINE, 'mode="slow"', 'mode="slower"')
    assert into(empty, "--json").json["new"]["requires"] == ["slow-mode"]


def test_what_a_required_patch_requires_is_not_named_again(empty):
    empty.patch("slow-mode", SLOW_MODE)
    empty.patch("both", NAME_PROJ, more="requires: [slow-mode]")
    opened(empty, "both")
    change(empty, ENGINE, 'mode="slow"', 'mode="slower"')
    change(empty, LLAMA, "{prefix}.proj", "{prefix}.projection")
    assert into(empty, "--json").json["new"]["requires"] == ["both"]


def test_a_comment_is_not_lost(both):
    change(both, LLAMA, "# narrow", "# very narrow")
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    wanted = (tree(both) / LLAMA).read_text()
    into(both)
    assert made(both, "both", "more")[LLAMA] == wanted


def test_the_recipe_is_named_and_not_changed(both):
    both.run("edit", "--abort")
    (both.folder / "recipes").mkdir()
    recipe = both.folder / "recipes" / "ours.yaml"
    recipe.write_text(f"vllm: {VERSION}\npatches: [both]\n")
    both.run("edit", "both")
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    run = into(both)
    assert run.out.splitlines()[-1].startswith("next: add more after both in ")
    assert "both]" in recipe.read_text()


def test_what_git_ignores_keeps_the_checkout(both):
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    (tree(both) / "build").mkdir()
    (tree(both) / "build" / "notes").write_text("mine")
    run = into(both, code=1)
    assert "not in the patch  git ignores 1 new file" in run.out
    assert (tree(both) / "build" / "notes").read_text() == "mine"


def test_what_no_new_patch_can_be_made_of_is_refused(both):
    args = ("refresh", "both", "--into")
    refused(both, *args, "more", code="edit.nothing-new")
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    refused(both, *args, "both", code="importing.exists")
    refused(both, *args, "Not An Id", code="cli.bad-value")
    both.patch("both", NAME_PROJ)
    refused(both, *args, "more", code="edit.patch-changed")
    both.run("edit", "--abort", "both")
    refused(both, *args, "more", code="edit.not-begun")
    (both.folder / "recipes").mkdir()
    (both.folder / "recipes" / "ours.yaml").write_text(f"vllm: {VERSION}\npatches: [both]\n")
    both.run("edit")
    refused(both, "refresh", "--into", "more", code="edit.nothing-new")


def test_the_edit_of_a_patch_that_does_not_fit_is_refused(both):
    record = tree(both) / ".git" / "vpatch-edit.json"
    carried = '"carried": {"release": "0.49.0", "edits": "", "start": []}'
    record.write_text(record.read_text().replace('"carried": null', carried))
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    refused(both, "refresh", "both", "--into", "more", code="edit.carried")


def test_a_commit_names_the_new_patch(both):
    change(both, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    git(tree(both), "commit", "--quiet", "--all", "--message=[Bugfix] Wider heads")
    assert "not trusted, as its author is u@example" in into(both).err
    assert 'title: "[Bugfix] Wider heads"' in yaml(both, "more")


KEYWORD = "\n- find: launch($config, ...)\n  add-keyword: {depth: '1'}\n"


@pytest.mark.parametrize(
    ("edit", "old", "new"),
    [
        # In the other order, the keywords have another order, too.
        (KEYWORD, "depth=1", "depth=1, width=2"),
        # In the other order, the first patch is a conflict.
        (SLOW_MODE, 'mode="slow"', 'mode="slow", width=2'),
    ],
)
def test_a_patch_of_the_same_call_is_not_required(empty, edit, old, new):
    """The new patch does the same without the other one."""
    empty.patch("both", edit)
    opened(empty, "both")
    change(empty, ENGINE, old, new)
    assert into(empty, "--json").json["new"]["requires"] == []
    assert 'launch(config, mode="fast", width=2)' in made(empty, "more")[ENGINE]


RECIPE = f"vllm: {VERSION}\npatches: [slow-mode, name-proj]\n"


@pytest.fixture
def series(empty):
    """A project with two patches in a recipe, opened as a series."""
    empty.patch("slow-mode", SLOW_MODE)
    empty.patch("name-proj", NAME_PROJ)
    (empty.folder / "recipes").mkdir()
    (empty.folder / "recipes" / "ours.yaml").write_text(RECIPE)
    empty.run("edit")
    return empty


def change_series(project, path, old, new):
    file = project.folder / ".vpatch" / "edit" / path
    assert file.read_text().count(old) == 1
    file.write_text(file.read_text().replace(old, new))


def test_in_a_series_it_comes_last_and_requires_what_it_needs(series):
    before = snapshot(series.patches)
    change_series(series, ENGINE, 'mode="slow"', 'mode="slower"')
    change_series(series, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    run = series.run("refresh", "--into", "more")
    assert "  requires slow-mode\n" in run.out
    assert "the others stay as they are" in run.out
    assert run.out.splitlines()[-1].startswith("next: add more after name-proj in ")
    assert "not trusted" not in run.err
    now = snapshot(series.patches)
    assert {path: now[path] for path in before} == before
    assert 'mode="slower"' in made(series, "slow-mode", "name-proj", "more")[ENGINE]
    assert not (series.folder / ".vpatch" / "edit").exists()


def test_what_no_patch_of_a_series_got_becomes_one(series):
    change_series(series, ENGINE, 'mode="slow"', 'mode="slower"')
    (series.folder / ".vpatch/edit/vllm/more.py").write_text("MORE = 1\n")
    assert "vpatch refresh --into NEW-ID" in series.run("refresh", code=1).out
    assert 'mode="slower"' in yaml(series, "slow-mode")
    run = series.run("refresh", "--into", "more", "--json").json
    assert (run["id"], run["after"], run["new"]["requires"]) == (None, "name-proj", [])
    assert "slower" not in yaml(series, "more")
    assert (series.patches / "more" / "more.py").read_text() == "MORE = 1\n"


def test_it_comes_last_if_a_later_patch_would_not_fit_behind_it(series):
    series.run("edit", "--abort")
    series.run("edit", "slow-mode")
    change(series, LLAMA, "self.proj = Linear(4, 4)", "self.projection = Linear(4, 4)", "slow-mode")
    run = series.run("refresh", "--into", "more")
    assert "next: add more after name-proj in " in run.out
    assert "conflict" not in run.out


def test_a_later_patch_that_fits_at_no_place_is_named(series):
    series.run("edit", "--abort")
    series.run("edit", "slow-mode")
    change(series, LLAMA, "        self.proj = Linear(4, 4)  # narrow\n", "", "slow-mode")
    run = series.run("refresh", "--into", "more", code=1)
    assert f"{VERSION}             name-proj: needed -> conflict\n      " in run.out
    assert "next: add more after slow-mode in " in run.out


def test_a_series_that_changed_is_refused(series):
    change_series(series, LLAMA, "Linear(4, 8)", "Linear(4, 16)")
    series.patch("slow-mode", SLOW_MODE.replace("slow", "slower"))
    refused(series, "refresh", "--into", "more", code="edit.series-changed")


@pytest.mark.slow
@pytest.mark.parametrize("patch", [(), ("slow-mode",)], ids=["series", "patch"])
def test_a_kill_leaves_no_new_patch_or_a_whole_one(series, patch):
    if patch:
        series.run("edit", "--abort")
        series.run("edit", *patch)
    file = series.folder / ".vpatch" / "-".join(["edit", *patch]) / ENGINE
    file.write_text(file.read_text().replace('mode="slow"', 'mode="slower"'))
    seen = killed(series, "refresh", *patch, "--into", "more")
    assert seen["old"] > 0
    assert seen["new"] > 0
    assert seen["both"] == 0
