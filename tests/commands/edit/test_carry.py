"""`vpatch edit ID --vllm NEW` where the patch does not fit: its change is laid in."""

from __future__ import annotations

import pytest

from tests.commands.edit.kill_driver import killed
from tests.index_server import sdist
from tests.projects import ENGINE, FILES, LLAMA, VERSION, archive, git, snapshot
from vpatch.commands.edit.declaration.variant_text import with_condition

NEW = "0.51.0"
BOTH = """\
# Ours since May.
id: both
title: "[Bugfix] Both"
why: it is too fast
symptoms: [too fast]
needed-in: {vllm: ">=0.50.0"}
concerns: {text: "def start"}
edits:
  # The mode of the engine.
  - find: launch($config, mode="fast")  # upstream's
    rewrite: launch($config, mode="slow")
  - find: self.proj = Linear(4, 4)
    rewrite: self.proj = Linear(4, 16)

remove-when: never
"""
START = FILES[ENGINE].decode()
# Upstream changed the line that the patch changes.
DIFFERS = START.replace('mode="fast"', 'mode="faster"')


@pytest.fixture
def both(empty):
    folder = empty.patches / "both"
    folder.mkdir(parents=True)
    (folder / "patch.yaml").write_text(BOTH)
    return empty


def released(project, engine, llama=None, version=NEW):
    files = {ENGINE: engine.encode()} | ({LLAMA: llama.encode()} if llama else {})
    project.index.add(version, archive(version, files))


def edit(project, *args, **options):
    return project.run("edit", "both", "--vllm", NEW, *args, **options)


def tree(project):
    return project.folder / ".vpatch" / "edit-both"


def yaml(project):
    return (project.patches / "both" / "patch.yaml").read_text()


def applied(project, version, *args, code=0):
    out = f"out-{version}"
    project.run("apply", "--vllm", version, "--patch", "both", "--checkout", out, *args, code=code)
    return {path: (project.folder / out / path).read_text() for path in (ENGINE, LLAMA)}


def test_what_is_left_has_conflict_markers(both):
    released(both, DIFFERS)
    run = edit(both)
    assert "the patch does not fit it: this is its change on 0.50.0, laid in" in run.out
    assert "1 of 2 edits find their places; these do not:" in run.out
    assert 'rewrite launch($config, mode="fast"): expected 1, found 0' in run.out
    assert f"conflict  {ENGINE}:2" in run.out
    text = (tree(both) / ENGINE).read_text()
    assert text == (
        "def start(config):\n"
        "<<<<<<< vllm-0.51.0\n"
        '    return launch(config, mode="faster")\n'
        "||||||| vllm 0.50.0\n"
        '    return launch(config, mode="fast")\n'
        "=======\n"
        '    return launch(config, mode="slow")\n'
        ">>>>>>> both on 0.50.0\n"
    )
    assert "Linear(4, 16)" in (tree(both) / LLAMA).read_text()
    assert git(tree(both), "diff", "--cached", "--name-only").split() == [ENGINE, LLAMA]


def test_an_example_of_the_new_release_is_not_written_anew(both):
    """Somebody wrote down what is right there."""
    released(both, DIFFERS)
    example = both.patches / "both" / "examples" / "needed-new"
    after = DIFFERS.replace("faster", "slowest")
    for side, text in (("before", DIFFERS), ("after", after)):
        (example / side / ENGINE).parent.mkdir(parents=True)
        (example / side / ENGINE).write_text(text)
        (example / side / LLAMA).parent.mkdir(parents=True)
    llama = FILES[LLAMA].decode()
    (example / "before" / LLAMA).write_text(llama)
    (example / "after" / LLAMA).write_text(llama.replace("Linear(4, 4)", "Linear(4, 16)", 1))
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slow"))
    run = both.run("refresh", "both", code=1)
    assert "example needed-new does not hold: the new variant makes other code" in run.out
    assert "vpatch test both shows; it did not hold before, either" in run.out
    assert (example / "after" / ENGINE).read_text() == after


def test_a_new_variant_is_for_what_an_old_one_excludes(both):
    old = "variants:\n- name: old\n  when: {none: [{text: flag}]}\n  edits:\n"
    (both.patches / "both" / "patch.yaml").write_text(BOTH.replace("edits:\n", old))
    released(both, f"{START}\n\nflag = True\n")
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slowest") + "\n\nflag = True\n")
    both.run("refresh", "both")
    assert "  when: {text: flag}\n" in yaml(both)


def test_refresh_refuses_what_nobody_solved(both):
    released(both, DIFFERS)
    edit(both)
    before = snapshot(both.patches)
    run = both.run("refresh", "both", code=2)
    assert run.codes == ("edit.conflict-markers",)
    assert f"{ENGINE}:2, {ENGINE}:4, {ENGINE}:6" in run.errors
    # One marker that is left over is enough.
    (tree(both) / ENGINE).write_text(START.replace("fast", "slow") + "\n>>>>>>> both on 0.50.0\n")
    assert both.run("refresh", "both", code=2).codes == ("edit.conflict-markers",)
    assert snapshot(both.patches) == before


def test_what_was_solved_becomes_a_variant(both):
    released(both, DIFFERS)
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slowest"))
    run = both.run("refresh", "both")
    assert "by a new variant, 'from 0.51.0'" in run.out
    assert yaml(both) == BOTH.partition("edits:")[0] + (
        "variants:\n"
        "  - name: up to 0.50.0\n"
        "    edits:\n"
        "      # The mode of the engine.\n"
        '      - find: launch($config, mode="fast")  # upstream\'s\n'
        '        rewrite: launch($config, mode="slow")\n'
        "      - find: self.proj = Linear(4, 4)\n"
        "        rewrite: self.proj = Linear(4, 16)\n"
        "  - name: from 0.51.0\n"
        "    edits:\n" + yaml(both).partition("  - name: from 0.51.0\n    edits:\n")[2]
    )
    assert 'mode="slow"' in applied(both, VERSION)[ENGINE]
    new = applied(both, NEW)
    assert 'mode="slowest"' in new[ENGINE]
    assert "Linear(4, 16)" in new[LLAMA]
    assert not tree(both).exists()
    assert "- find: self.proj = Linear(4, 4)" in yaml(both).partition("from 0.51.0")[2]


def test_one_more_variant_joins_those_that_are_there(both):
    newest = "0.52.0"
    released(both, DIFFERS)
    released(both, START.replace("fast", "brisk"), version=newest)
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slowest"))
    both.run("refresh", "both")
    before = yaml(both)
    run = both.run("edit", "both", "--vllm", newest)
    assert f"its change on {NEW}, laid in" in run.out
    (tree(both) / ENGINE).write_text(START.replace("fast", "calm"))
    both.run("refresh", "both")
    assert yaml(both).startswith(before.partition("\nremove-when")[0].rstrip("\n"))
    assert "  - name: from 0.52.0\n" in yaml(both)
    assert 'mode="slowest"' in applied(both, NEW)[ENGINE]
    assert 'mode="calm"' in applied(both, newest)[ENGINE]


THREE = """\
def start(config):
    first = launch(config, mode="fast")
    second = launch(config)
    third = launch(config)
"""
FOUND_BY_THREE = """\
  - find: |
      first = launch($config, mode="fast")
      second = launch($config)
      third = launch($config)
    rewrite: |
      first = launch($config, mode="slow")
      second = launch($config)
      third = launch($config)
"""


def test_what_three_sides_can_do_leaves_nothing_to_solve(both):
    """The edit needs three lines in a row, and upstream put one between the last two."""
    head, tail = BOTH.split("  # The mode of the engine.")
    rest = tail[tail.index("  - find: self.proj") :]
    (both.patches / "both" / "patch.yaml").write_text(head + FOUND_BY_THREE + rest)
    released(both, THREE, version=VERSION)
    newer = THREE.replace("    third", "    check(config)\n    third")
    released(both, newer)
    run = edit(both)
    assert "no conflict is left" in run.out
    assert (tree(both) / ENGINE).read_text() == newer.replace("fast", "slow")
    both.run("refresh", "both")
    assert applied(both, NEW)[ENGINE] == newer.replace("fast", "slow")
    assert applied(both, VERSION)[ENGINE] == THREE.replace("fast", "slow")


def test_a_line_that_gets_too_long_is_broken(both):
    """Upstream's ruff asks for that."""
    head, tail = BOTH.split("  # The mode of the engine.")
    rest = tail[tail.index("  - find: self.proj") :]
    longer = FOUND_BY_THREE.replace('"slow"', '"slowest"')
    (both.patches / "both" / "patch.yaml").write_text(head + longer + rest)
    released(both, THREE, version=VERSION)
    name = "m" * 45
    newer = THREE.replace("mode=", f"{name}=1, mode=")
    released(both, newer.replace("    third", "    check(config)\n    third"))
    edit(both)
    call = f'    first = launch(\n        config, {name}=1, mode="slowest"\n    )\n'
    assert call in (tree(both) / ENGINE).read_text()


def test_a_variant_that_would_change_another_release_gets_a_condition(both):
    """The new edit fits the old release as well, where it makes something else."""
    released(both, DIFFERS, FILES[LLAMA].decode().replace("Linear(4, 8)", "Linear(4, 9)"))
    edit(both)
    (tree(both) / ENGINE).write_text(DIFFERS)
    text = (tree(both) / LLAMA).read_text()
    (tree(both) / LLAMA).write_text(text.replace("Linear(4, 16)", "Linear(4, 32)"))
    both.run("refresh", "both")
    assert "Linear(4, 16)" in applied(both, VERSION)[LLAMA]
    assert "Linear(4, 32)" in applied(both, NEW)[LLAMA]
    assert "    when: {" in yaml(both)


def test_a_moved_file_is_followed(both):
    files = dict(FILES)
    files["vllm/core/engine.py"] = files.pop(ENGINE)
    text = BOTH.replace("    rewrite: launch", f"    files: {ENGINE}\n    rewrite: launch")
    (both.patches / "both" / "patch.yaml").write_text(text)
    both.index.add(NEW, sdist(NEW, files))
    run = edit(both)
    assert "as vpatch bump proposes: upstream moved code" in run.out
    both.run("refresh", "both")
    out = both.folder / "out"
    both.run("apply", "--vllm", NEW, "--patch", "both", "--checkout", "out")
    assert 'mode="slow"' in (out / "vllm/core/engine.py").read_text()
    assert 'mode="slow"' in applied(both, VERSION)[ENGINE]


def test_code_without_a_place_is_named(both):
    released(both, "def start(config):\n    return run(config)\n")
    both.index.add(NEW, archive(NEW, {ENGINE: b"def start(): ...\n", LLAMA: b"class Other: ...\n"}))
    run = edit(both)
    assert "0 of 2 edits find their places" in run.out
    document = edit(both, "--checkout", "other", "--json").json
    assert document["carried"]["release"] == VERSION
    assert document["carried"]["total"] == 2
    assert {one["path"] for one in document["carried"]["conflicts"]} == {ENGINE, LLAMA}


def test_a_patch_that_fits_nowhere_is_refused(both):
    released(both, DIFFERS)
    (both.patches / "both" / "patch.yaml").write_text(BOTH.replace('"fast"', '"none"'))
    run = edit(both, code=2)
    assert run.codes == ("edit.not-needed",)
    assert "it fits no other release" in run.errors
    assert not tree(both).exists()


def test_edits_that_somebody_changed_meanwhile_are_not_overlooked(both):
    released(both, DIFFERS)
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slowest"))
    (both.patches / "both" / "patch.yaml").write_text(BOTH.replace("16", "17"))
    assert both.run("refresh", "both", code=2).codes == ("edit.patch-changed",)
    # What only describes the patch may change.
    (both.patches / "both" / "patch.yaml").write_text(BOTH.replace("too fast", "much too fast"))
    both.run("refresh", "both")
    assert "much too fast" in yaml(both)


def test_a_file_beside_the_patch_stays_for_the_other_variants(both):
    folder = both.patches / "both"
    (folder / "more.py").write_text("SLOW = 1\n")
    (folder / "patch.yaml").write_text(
        BOTH.replace(
            "\nremove-when", "  - add-file: vllm/more.py\n    from: more.py\n\nremove-when"
        )
    )
    released(both, DIFFERS)
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slowest"))
    (tree(both) / "vllm" / "more.py").write_text("SLOW = 2\n")
    both.run("refresh", "both")
    assert (folder / "more.py").read_text() == "SLOW = 1\n"
    for version, number in ((VERSION, 1), (NEW, 2)):
        applied(both, version)
        text = (both.folder / f"out-{version}" / "vllm" / "more.py").read_text()
        assert text == f"SLOW = {number}\n"


def test_what_tells_no_releases_apart_is_refused(both):
    released(both, DIFFERS)
    edit(both)
    (tree(both) / ENGINE).write_text(START)
    run = both.run("refresh", "both", code=1)
    assert run.codes == ("edit.not-provable",)
    assert "an earlier variant fits what the work tree has" in run.errors
    assert yaml(both) == BOTH


@pytest.mark.parametrize(
    ("head", "condition"),
    [
        ("  - name: one\n", "{text: new}"),
        ("  - name: one\n    when: {text: old}\n", "{all: [text: old, text: new]}"),
        ("  - when:\n      text: old\n    name: one\n", "{all: [text: old, text: new]}"),
    ],
)
def test_a_condition_joins_what_a_variant_needs(head, condition):
    text = f"variants:\n{head}    # Ours.\n    edits: [1]\n  - name: two\n    edits: [2]\n"
    changed = with_condition(text, 0, {"text": "new"}, "patch.yaml")
    assert f"when: {condition}\n" in changed
    assert "    # Ours.\n    edits: [1]\n  - name: two\n    edits: [2]\n" in changed


@pytest.mark.slow
def test_a_kill_leaves_the_old_or_the_new(both):
    released(both, DIFFERS)
    edit(both)
    (tree(both) / ENGINE).write_text(START.replace("fast", "slower"))
    seen = killed(both, "refresh", "both")
    assert seen["old"] > 0
    assert seen["new"] > 0


def state_of(project, version):
    """The state of the patch in what it made of a release."""
    run = project.run("status", "--vllm", f"./out-{version}", "--patch", "both", "--json")
    return run.json["trees"][0]["decisions"][0]["state"]


# Upstream has another mode, and a check more.
CHECKED = DIFFERS.replace("    return", "    check_the(config)\n    return")


def test_an_old_variant_that_would_fit_again_gets_a_condition(both):
    """The new variant makes what the old one looks for: applied twice, both would fit."""
    released(both, CHECKED)
    edit(both)
    restored = CHECKED.replace("faster", "fast")
    (tree(both) / ENGINE).write_text(restored)
    run = both.run("refresh", "both")
    assert "by a new variant, 'from 0.51.0'" in run.out
    old, _, new = yaml(both).partition("  - name: from 0.51.0\n")
    assert "    when: {none: [{text: check_the(config), files: vllm/engine.py}]}\n" in old
    assert "    when:" not in new
    for version, wanted in ((VERSION, START.replace("fast", "slow")), (NEW, restored)):
        assert applied(both, version)[ENGINE] == wanted
        assert state_of(both, version) == "applied"


def test_a_new_variant_that_fits_what_an_old_one_makes_gets_a_condition(both):
    """Upstream has what the patch made, and more is to be done to it."""
    changed, llama = CHECKED.replace("faster", "slow"), "class Llama:\n    head = Linear(4, 8)\n"
    released(both, changed, llama)
    edit(both)
    (tree(both) / ENGINE).write_text(changed.replace("slow", "slower"))
    (tree(both) / LLAMA).write_text(llama)
    both.run("refresh", "both")
    for version, mode in ((VERSION, "slow"), (NEW, "slower")):
        assert f'mode="{mode}"' in applied(both, version)[ENGINE]
        assert state_of(both, version) == "applied"
    assert "    when: {text: check_the(config), files: vllm/engine.py}\n" in yaml(both)


SERVER = """\
from vllm.core.names import LIMIT


class Server:
    def start(self, size):
        check(size)
        return launch(size, LIMIT)


Server().start(1)
"""
IN_CLASS = """\
  - insert: |
      if size > LIMIT:
          raise ValueError(size)
    after: check(size)
    within: Server.start
"""


@pytest.fixture
def in_class(both):
    """The patch inserts into a method, and has an effect that names it."""
    text = BOTH.partition("edits:")[0].replace("def start", "def start(self")
    effect = "effect: {find: raise ValueError($_), within: Server.start}\n"
    text += f"{effect}edits:\n{IN_CLASS}\nremove-when: never\n"
    (both.patches / "both" / "patch.yaml").write_text(text)
    released(both, SERVER, version=VERSION)
    return both


def test_names_of_the_new_release_are_taken(in_class):
    """Upstream renamed the class, a parameter and a constant, and the effect follows."""
    newer = SERVER.replace("Server", "Engine").replace("size", "length").replace("LIMIT", "MOST")
    released(in_class, newer)
    run = edit(in_class)
    assert "no conflict is left" in run.out
    assert "look at" not in run.out
    in_class.run("refresh", "both")
    wanted = (
        "        check(length)\n        if length > MOST:\n            raise ValueError(length)\n"
    )
    assert applied(in_class, NEW)[ENGINE] == newer.replace("        check(length)\n", wanted)
    assert (
        "if size > LIMIT:\n            raise ValueError(size)" in applied(in_class, VERSION)[ENGINE]
    )
    assert "within: Engine.start" in yaml(in_class).partition("variants:")[0]


def test_what_may_be_wrong_is_named(in_class):
    """The edit fits, but not the condition; and upstream does not have a name any more."""
    text = yaml(in_class)
    edits = IN_CLASS.replace("\n  ", "\n      ").replace("  - insert", "      - insert", 1)
    variant = (
        f"variants:\n  - name: one\n    when: {{text: 'launch(size, LIMIT)'}}\n    edits:\n{edits}"
    )
    (in_class.patches / "both" / "patch.yaml").write_text(
        text.replace(f"edits:\n{IN_CLASS}", variant)
    )
    released(in_class, SERVER.replace("launch(size, LIMIT)", "run(size)").partition("\n\n")[2])
    run = edit(in_class)
    assert "1 of 1 edit find their places" in run.out
    assert "look at  the variant 'one' is not for such code" in run.out
    assert f"look at  {ENGINE}: the change names LIMIT, which is not there any more" in run.out
    document = edit(in_class, "--checkout", "other", "--json").json
    assert len(document["carried"]["doubts"]) == 2


def looked_at(project):
    document = edit(project, "--checkout", "other", "--json").json
    return document["carried"]["doubts"]


MORE = {"vllm/more.py": b"def again(config):\n    return launch(config, mode='fast')\n"}


@pytest.mark.parametrize(("before", "number"), [({}, 1), (MORE, 0)])
def test_a_place_that_upstream_adds_is_named(both, before, number):
    """It looks as all that the patch changes. Where the patch left one as it was, it may stay."""
    text = yaml(both).replace("    rewrite: launch", f"    files: {ENGINE}\n    rewrite: launch")
    (both.patches / "both" / "patch.yaml").write_text(text)
    both.index.add(VERSION, archive(VERSION, before))
    both.index.add(NEW, archive(NEW, {**MORE, ENGINE: DIFFERS.encode()}))
    note = (
        'vllm/more.py:2: `launch($config, mode="fast")` stays as it is in again; on vllm 0.50.0, '
        "the patch changes each such place of the package"
    )
    assert looked_at(both) == [note] * number


@pytest.mark.parametrize(("again", "number"), [("check(size)", 1), ("check(size, 1)", 0)])
def test_a_class_into_which_nothing_is_inserted_is_named(in_class, again, number):
    """The code did not go to that class: its own class does not name the other one."""
    own = SERVER.replace("        check(size)", "        size += 1\n        check(size, 1)")
    other = SERVER[SERVER.index("class") : SERVER.index("\n\n\nServer()")]
    other = other.replace("Server", "Other").replace("check(size)", again)
    released(in_class, f"{own}\n\n{other}\n")
    notes = [one for one in looked_at(in_class) if "`check(size)` stays as it is" in one]
    assert len(notes) == number
