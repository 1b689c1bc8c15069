"""`vpatch edit` and `refresh` on the small vLLM: the work tree becomes the patch."""

from __future__ import annotations

import shutil

import pytest

from tests.commands.edit.kill_driver import killed
from tests.projects import ENGINE, FILES, LLAMA, NAME_PROJ, VERSION, git, snapshot

NEWER = "0.51.0"
COMMENTED = """\
# Ours since May.
id: both
title: "[Bugfix] Both"   # as upstream calls it
why: it is too fast
symptoms: [too fast]
needed-in: {vllm: ">=0.50.0"}
concerns: {text: "def start"}
edits:
  # The mode of the engine.
  - find: launch($config, mode="fast")  # upstream's
    # Slow is right.
    rewrite: launch($config, mode="slow")

  # The name of the layer.
  - find: self.proj = Linear(...)
    add-keyword: {prefix: 'f"{prefix}.proj"'}

# Threads.
remove-when: never
"""


@pytest.fixture
def both(empty):
    """A project with one patch of two edits, opened."""
    folder = empty.patches / "both"
    folder.mkdir(parents=True)
    (folder / "patch.yaml").write_text(COMMENTED)
    opened(empty, "both")
    return empty


def opened(project, patch_id, *args, **options):
    return project.run("edit", patch_id, "--vllm", VERSION, *args, **options)


def tree(project, patch_id="both"):
    return project.folder / ".vpatch" / f"edit-{patch_id}"


def change(project, path, old, new, patch_id="both"):
    file = tree(project, patch_id) / path
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))


def yaml(project, patch_id="both"):
    return (project.patches / patch_id / "patch.yaml").read_text()


def made(project, *patches):
    """What the patches make of the small vLLM."""
    shutil.rmtree(project.folder / "out", ignore_errors=True)
    names = [word for patch in patches for word in ("--patch", patch)]
    project.run("apply", "--vllm", VERSION, *names, "--checkout", "out")
    return {path: (project.folder / "out" / path).read_text() for path in (ENGINE, LLAMA)}


def test_the_change_is_staged_on_top_of_the_patches_before(project):
    project.patch("name-proj", NAME_PROJ, more="requires: [slow-mode]")
    project.patch("zoo", "\n- find: start\n  rewrite: begin\n  within: nothing\n")
    shutil.rmtree(project.patches / "zoo")
    run = opened(project, "name-proj")
    assert "below it: slow-mode" in run.out
    where = tree(project, "name-proj")
    log = git(where, "log", "--format=%s").splitlines()
    assert log == ["[Bugfix] slow-mode", f"vllm-{VERSION}"]
    assert git(where, "diff", "--cached", "--name-only").split() == [LLAMA]
    assert git(where, "status", "--porcelain") == f"M  {LLAMA}\n"
    assert "prefix=" in (where / LLAMA).read_text()
    assert 'mode="slow"' in (where / ENGINE).read_text()


def test_what_comes_later_is_named(project):
    run = opened(project, "name-proj")
    assert "as they come later: slow-mode" in run.out
    assert run.out.splitlines()[-1].endswith("then run vpatch refresh name-proj")


def test_nothing_is_written_where_nothing_changed(both):
    run = both.run("refresh", "both")
    assert "says what the work tree says already" in run.out
    assert yaml(both) == COMMENTED
    assert not tree(both).exists()


def test_another_value_changes_one_line(both):
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    run = both.run("refresh")
    assert '+    rewrite: launch($config, mode="slower")' in run.out
    assert "1 of 2 edits stay word for word" in run.out
    assert yaml(both) == COMMENTED.replace('mode="slow"', 'mode="slower"')
    assert 'mode="slower"' in made(both, "both")[ENGINE]
    assert not tree(both).exists()


def test_one_more_keyword_joins_the_edit_that_adds_one(both):
    change(both, LLAMA, 'prefix=f"{prefix}.proj")', 'prefix=f"{prefix}.proj", bias=False)')
    wanted = (tree(both) / LLAMA).read_text()
    both.run("refresh")
    assert yaml(both) == COMMENTED.replace(".proj\"'}", '.proj"\', bias: "False"}')
    assert made(both, "both")[LLAMA] == wanted


def test_a_further_change_becomes_a_further_edit(both):
    change(both, LLAMA, "self.head = Linear(4, 8)", "self.head = Linear(4, 16)")
    run = both.run("refresh")
    assert "2 of 2 edits stay word for word" in run.out
    before, _, after = COMMENTED.partition("\n# Threads.")
    assert yaml(both).startswith(before)
    assert yaml(both).endswith("\n# Threads." + after)
    assert "Linear(4, 16)" in made(both, "both")[LLAMA]


def test_what_is_taken_back_goes_with_its_comment(both):
    change(both, ENGINE, 'mode="slow"', 'mode="fast"')
    both.run("refresh")
    first = COMMENTED.index("  # The mode of the engine.")
    second = COMMENTED.index("\n  # The name of the layer.")
    assert yaml(both) == COMMENTED[:first] + COMMENTED[second:].removeprefix("\n")
    assert made(both, "both")[ENGINE] == FILES[ENGINE].decode()


def test_an_edit_that_becomes_another_keeps_its_comment(both):
    change(both, ENGINE, 'launch(config, mode="slow")', "launch([config])")
    both.run("refresh")
    assert "  # The mode of the engine.\n  - find: launch(" in yaml(both)
    assert "launch([config])" in made(both, "both")[ENGINE]


def test_an_edit_that_is_by_meaning_now_does_not_say_as_text(empty):
    patch = (
        "# Ours.\n# As text: 9 statements become 1.\n"
        f"- text: {{find: 'mode=\"fast\"', replace: 'mode=\"slow\"'}}\n  files: {ENGINE}\n"
    )
    empty.patch("both", patch)
    opened(empty, "both")
    change(empty, ENGINE, 'launch(config, mode="slow")', "launch([config])")
    empty.run("refresh")
    text = yaml(empty)
    assert "  # Ours.\n  - find: launch(" in text
    assert "As text" not in text


def test_new_files_come_and_change_and_go(both):
    (tree(both) / "vllm" / "slow.py").write_text("SLOW = 1\n")
    both.run("refresh")
    assert (both.patches / "both" / "slow.py").read_text() == "SLOW = 1\n"
    opened(both, "both")
    change(both, "vllm/slow.py", "1", "2")
    before = yaml(both)
    both.run("refresh")
    assert yaml(both) == before
    assert (both.patches / "both" / "slow.py").read_text() == "SLOW = 2\n"
    opened(both, "both")
    (tree(both) / "vllm" / "slow.py").rename(tree(both) / "vllm" / "slower.py")
    both.run("refresh")
    assert yaml(both) == before.replace("add-file: vllm/slow.py", "add-file: vllm/slower.py")
    opened(both, "both")
    (tree(both) / "vllm" / "slower.py").unlink()
    run = both.run("refresh")
    assert "removed slow.py" in run.out
    assert yaml(both) == COMMENTED
    assert not (both.patches / "both" / "slow.py").exists()


def test_code_at_another_place_changes_the_place_alone(empty):
    empty.patch(
        "placed",
        """
- insert: |
    # Ours.
    self.ours = 1
  after: self.proj = Linear(...)  # why there
  within: "*.__init__"
""",
    )
    opened(empty, "placed")
    before, own = yaml(empty, "placed"), "        # Ours.\n        self.ours = 1\n"
    change(empty, LLAMA, own, "", "placed")
    change(empty, LLAMA, "Linear(4, 8)\n", "Linear(4, 8)\n" + own, "placed")
    empty.run("refresh")
    lines = before.splitlines(), yaml(empty, "placed").splitlines()
    assert [(a, b) for a, b in zip(*lines, strict=True) if a != b] == [
        (
            "    after: self.proj = Linear(...)  # why there",
            "    after: self.head = Linear(4, 8)  # why there",
        )
    ]


VARIANTS = """\
variants:
  - name: fast  # from 0.50
    when: {text: fast}
    edits:
      - find: launch($config, mode="fast")
        rewrite: launch($config, mode="slow")
  # Nobody knows why.
  - name: older
    when: {text: no such text}
    edits:
      - find: launch($config, mode="old")
        rewrite: launch($config, mode="slow")
effect:
  find: launch(..., mode="slow")
"""


@pytest.fixture
def variants(empty):
    folder = empty.patches / "of-two"
    folder.mkdir(parents=True)
    head, tail = COMMENTED.split("edits:", maxsplit=1)[0], "remove-when: never\n"
    (folder / "patch.yaml").write_text(head.replace("id: both", "id: of-two") + VARIANTS + tail)
    opened(empty, "of-two")
    return empty


def test_other_variants_stay_and_the_effect_takes_what_both_make(variants):
    before = yaml(variants, "of-two")
    change(variants, ENGINE, 'mode="slow"', 'mode="slower"', "of-two")
    variants.run("refresh", "of-two")
    edits, effect = before.split("effect:\n")
    assert yaml(variants, "of-two") == (
        edits.replace('mode="slow"', 'mode="slower"', 1)
        + "effect:\n"
        + '  any:\n    - find: launch(..., mode="slow")\n    - find: launch(..., mode="slower")\n'
        + effect.partition("\n")[2]
    )


def test_an_effect_that_says_something_else_needs_a_person(variants):
    change(variants, ENGINE, 'launch(config, mode="slow")', "launch([config])", "of-two")
    before = snapshot(variants.patches)
    run = variants.run("refresh", "of-two", code=1)
    assert run.codes == ("edit.not-provable",)
    assert "effect" in run.errors
    assert snapshot(variants.patches) == before
    assert tree(variants, "of-two").exists()


def test_an_example_that_does_not_hold_is_written_anew(both):
    example = both.patches / "both" / "examples" / f"needed-{VERSION}"
    for side in ("before", "after"):
        for path in (ENGINE, LLAMA):
            place = example / side / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes((tree(both) / path).read_bytes() if side == "after" else FILES[path])
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    run = both.run("refresh")
    assert f"example needed-{VERSION}: its code after the patch is written anew\n" in run.out
    assert 'mode="slower"' in (example / "after" / ENGINE).read_text()
    both.run("test", "both")


def test_an_example_that_cannot_be_read_needs_a_person(both):
    example = both.patches / "both" / "examples" / f"needed-{VERSION}"
    (example / "after").mkdir(parents=True)
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    run = both.run("refresh", "--json", code=1)
    assert not run.json["examples_hold"]
    (note,) = run.json["examples"]
    assert "before" in note


def test_a_later_patch_that_does_not_fit_any_more_is_shown(project):
    project.patch(
        "tail",
        "\n- find: Linear(4, 4, prefix=$p)\n  rewrite: Linear(4, 5, prefix=$p)\n",
        more="requires: [name-proj]",
    )
    opened(project, "name-proj")
    change(project, LLAMA, 'prefix=f"{prefix}.proj"', "name=prefix", "name-proj")
    run = project.run("refresh", "name-proj", code=1)
    assert "tail: needed -> conflict" in run.out
    assert f"a person must look: tail stops an apply on {VERSION}\n" in run.out
    assert "name=prefix" in yaml(project, "name-proj") or "name: prefix" in yaml(
        project, "name-proj"
    )


def test_other_releases_are_shown_before_and_after(both):
    both.run("status", "--vllm", NEWER)
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    document = both.run("refresh", "--json").json
    states = [(one["version"], one["before"], one["after"]) for one in document["releases"]]
    assert states == [(NEWER, "needed", "needed")]
    assert document["same"] == 1
    opened(both, "both")
    change(both, ENGINE, 'mode="slower"', 'mode="slow"')
    assert both.run("refresh", "--releases", "none", "--json").json["releases"] == []


def test_abort_removes_the_checkout_alone(both):
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    (tree(both) / "vllm" / "new.py").write_text("NEW = 1\n")
    run = both.run("edit", "--abort")
    diff = (both.folder / ".vpatch" / "edit-both.diff").read_text()
    assert "edit-both.diff" in run.out
    assert '+    return launch(config, mode="slower")' in diff
    assert "+NEW = 1" in diff
    opened(both, "both")
    both.run("edit", "--abort")
    assert not (both.folder / ".vpatch" / "edit-both-2.diff").exists()
    assert "both stays as it is" in run.out
    assert not tree(both).exists()
    assert yaml(both) == COMMENTED


def test_what_edit_did_is_there_as_json(both):
    document = opened(both, "both", "--json").json
    assert (document["outcome"], document["files"]) == ("unchanged", [])
    document = both.run("edit", "--abort", "both", "--json").json
    assert (document["id"], document["outcome"]) == ("both", "aborted")
    document = opened(both, "both", "--json").json
    assert (document["outcome"], document["version"]) == ("created", VERSION)
    assert document["files"] == [ENGINE, LLAMA]


def test_a_checkout_that_is_there_is_not_written_again(both):
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    run = opened(both, "both")
    assert "is there already" in run.out
    assert 'mode="slower"' in (tree(both) / ENGINE).read_text()


def test_a_file_that_is_not_in_the_patch_keeps_the_checkout(both):
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    (tree(both) / "build").mkdir()
    (tree(both) / "build" / "notes").write_text("mine")
    run = both.run("refresh", code=1)
    assert "not in the patch  git ignores 1 new file" in run.out
    assert (tree(both) / "build" / "notes").read_text() == "mine"
    assert 'mode="slower"' in yaml(both)


def refused(project, *args, code):
    before = snapshot(project.folder)
    run = project.run(*args, code=None)
    assert run.codes == (code,)
    assert snapshot(project.folder) == before
    return run


def test_what_cannot_be_opened_is_refused(both):
    refused(both, "edit", "both", "--vllm", NEWER, code="edit.other-patch")
    refused(both, "edit", "mtp-proj-prefix", "--vllm", VERSION, code="edit.foreign-patch")
    (both.folder / "full").mkdir()
    (both.folder / "full" / "file").touch()
    for place in ("full", "full/file"):
        args = ("edit", "both", "--vllm", VERSION, "--checkout", place)
        refused(both, *args, code="checkout.not-empty")
    both.patch("absent", NAME_PROJ, concerns="text: no such text")
    args = ("edit", "absent", "--vllm", VERSION)
    assert both.run(*args, code=2).codes == ("edit.not-needed",)
    assert not tree(both, "absent").exists()
    refused(both, "edit", code="cli.missing-option")
    refused(both, "edit", "--abort", "--vllm", VERSION, code="cli.unused-option")


def test_a_recipe_must_take_the_patch(both):
    both.patch("other", NAME_PROJ)
    (both.folder / "recipes").mkdir()
    recipe = f"vllm: {VERSION}\npatches: [other]\n"
    (both.folder / "recipes" / "ours.yaml").write_text(recipe)
    both.run("edit", "--abort")
    args = ("edit", "both", "--recipe", "ours")
    assert both.run(*args, code=2).codes == ("edit.not-in-series",)
    run = both.run("edit", "other")
    assert f"other on vllm {VERSION}" in run.out


def test_an_edit_must_be_begun_and_be_clear(both):
    refused(both, "refresh", "nothing", code="edit.not-begun")
    refused(both, "refresh", "other", "--checkout", tree(both), code="edit.not-begun")
    refused(both, "edit", "--abort", "other", "--checkout", tree(both), code="edit.other-patch")
    both.patch("name-head", NAME_PROJ.replace("proj", "head"))
    opened(both, "name-head")
    refused(both, "refresh", code="edit.several")
    (tree(both) / ".git" / "vpatch-edit.json").write_text("{}")
    refused(both, "refresh", "both", code="edit.damaged-record")


def test_a_patch_that_somebody_changed_meanwhile_is_not_undone(both):
    file = both.patches / "both" / "patch.yaml"
    file.write_text(COMMENTED.replace('mode="slow"', 'mode="slowest"'))
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    refused(both, "refresh", code="edit.patch-changed")
    # What describes the patch may change.
    file.write_text(COMMENTED.replace("too fast", "much too fast"))
    both.run("refresh")
    assert "much too fast" in yaml(both)
    assert 'mode="slower"' in yaml(both)


def test_a_series_that_somebody_changed_meanwhile_is_refused(project):
    project.patch("name-proj", NAME_PROJ, more="requires: [slow-mode]")
    opened(project, "name-proj")
    project.patch(
        "slow-mode", '\n- find: launch($config, mode="fast")\n  rewrite: launch($config)\n'
    )
    refused(project, "refresh", code="edit.series-changed")


def test_a_patch_of_which_nothing_remains_is_refused(both):
    git(tree(both), "checkout", "HEAD", "--", ".")
    run = refused(both, "refresh", code="edit.nothing-left")
    assert "refs/vpatch/patched" in run.errors
    git(tree(both), "checkout", "refs/vpatch/patched", "--", ".")
    assert "says what the work tree says already" in both.run("refresh").out


def test_a_list_in_brackets_is_not_written(both):
    both.run("edit", "--abort")
    edits = (
        '[{find: "launch($config, mode=\\"fast\\")", rewrite: "launch($config, mode=\\"slow\\")"}]'
    )
    head = COMMENTED.split("edits:", maxsplit=1)[0]
    (both.patches / "both" / "patch.yaml").write_text(f"{head}edits: {edits}\nremove-when: never\n")
    opened(both, "both")
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    refused(both, "refresh", code="edit.unwritable")


def test_a_variant_must_be_known(variants):
    file = variants.patches / "of-two" / "patch.yaml"
    file.write_text(file.read_text().replace("when: {text: fast}", "when: {text: gone}"))
    refused(variants, "refresh", "of-two", code="edit.not-needed")


@pytest.mark.slow
def test_a_kill_leaves_the_old_or_the_new(both):
    change(both, ENGINE, 'mode="slow"', 'mode="slower"')
    seen = killed(both, "refresh", "both")
    assert seen["old"] > 0
    assert seen["new"] > 0


GENERAL = """\
  - find: $target = Linear(4, 4)
    rewrite: $target = Linear(4, 16)
"""


@pytest.mark.parametrize(
    ("old", "new", "edits"),
    [
        ("(4, 16)", "(4, 16, old=self.proj)", GENERAL.replace("16)", "16, old=$target)")),
        (
            "        self.proj",
            "        print(self.proj)\n        self.proj",
            f"{GENERAL}  - insert: print($target)\n    before: $target = Linear(4, 16)\n",
        ),
    ],
)
def test_what_is_new_has_the_metavariables_of_the_patch(empty, old, new, edits):
    folder = empty.patches / "general"
    folder.mkdir(parents=True)
    text = COMMENTED.partition("  # The mode")[0].replace("id: both", "id: general")
    (folder / "patch.yaml").write_text(f"{text}{GENERAL}remove-when: never\n")
    opened(empty, "general")
    change(empty, LLAMA, old, new, "general")
    empty.run("refresh", "general")
    assert f"edits:\n{edits}" in yaml(empty, "general")
