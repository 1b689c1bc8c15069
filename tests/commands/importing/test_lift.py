"""`vpatch import --lift` on the small vLLM: edits by text become edits by meaning, or stay."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from tests.projects import ENGINE, LLAMA, VERSION, snapshot

HEAD = """\
# Ours since May.
id: slow
title: "[Bugfix] Slow mode"   # as upstream calls it
why: it is too fast
symptoms: [too fast]
needed-in: {vllm: ">=0.50.0"}
concerns: {text: "def start"}
edits:
"""
TAIL = """\

# Threads.
remove-when: never
risks: |
  - slower
"""
SLOW = f"""\
  # The mode of the engine.
  - text:
      find: mode="fast"
      # quoted as upstream does
      replace: mode="slow"
    files: {ENGINE}
"""
WORD = f"""\
  # As text: imported as text.
  - text: {{find: "# narrow", replace: "# wide"}}
    files: {LLAMA}
"""
SHELL = """\
  - text: {find: "#!/bin/sh", replace: "#!/bin/bash"}
    files: tools/run.sh
"""
MEANT = """\
  - find: launch(..., mode="fast")
    rewrite: launch(..., mode="slow")
    within: start
"""
DIFF = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -2,3 +2,3 @@
     def __init__(self, prefix):
-        self.proj = Linear(4, 4)  # narrow
-        self.head = Linear(4, 8)
+        self.proj = Linear(4, 4)  # wide
+        self.head = Linear(4, 8, prefix=prefix)
"""


@pytest.fixture
def slow(empty):
    def write(edits, files=None, tail=TAIL):
        folder = empty.patches / "slow"
        folder.mkdir(parents=True)
        (folder / "patch.yaml").write_text(HEAD + edits + tail)
        for name, text in (files or {}).items():
            (folder / name).write_text(text)
        return folder

    return write


def lifted(project, *args, **options):
    return project.run("import", "--lift", "slow", "--vllm", VERSION, *args, **options)


def tree(project):
    project.run("apply", "--vllm", VERSION, "--patch", "slow", "--checkout", "out")
    return {path: (project.folder / "out" / path).read_bytes() for path in (ENGINE, LLAMA)}


def test_an_edit_by_text_becomes_one_by_meaning_and_all_else_stays(empty, slow):
    folder = slow(SLOW + WORD + SHELL)
    run = lifted(empty)
    assert f"lifted  text  {ENGINE}:2  becomes 1 rewrite" in run.out
    assert f"stays   text  {LLAMA}:3  only comments or blank lines change" in run.out
    assert "stays   text  tools/run.sh:1  the file is not Python" in run.out
    assert "1 of 3 edits by text lifted" in run.out
    word = WORD.replace("imported as text", "only comments or blank lines change")
    comments = "  # The mode of the engine.\n  # quoted as upstream does\n"
    shell = "  # As text: the file is not Python.\n" + SHELL
    assert (folder / "patch.yaml").read_text() == HEAD + comments + MEANT + word + shell + TAIL


def test_what_is_lifted_gives_the_same_bytes(empty, slow):
    slow(SLOW + WORD)
    before = tree(empty)
    lifted(empty)
    (empty.folder / "out").rename(empty.folder / "old")
    assert tree(empty) == before
    assert b'mode="slow"' in before[ENGINE]


def test_a_diff_is_lifted_in_part_and_its_file_goes(empty, slow):
    folder = slow("  - diff: both.diff\n", {"both.diff": DIFF})
    run = lifted(empty)
    assert f"lifted  diff  {LLAMA}:3  becomes" in run.out
    assert "removed both.diff" in run.out
    assert not (folder / "both.diff").exists()
    edits = YAML(typ="safe").load((folder / "patch.yaml").read_text())["edits"]
    assert [min(edit) for edit in edits] == ["files", "add-keyword"]
    assert "# As text: only comments or blank lines change." in (folder / "patch.yaml").read_text()


def test_a_diff_that_another_edit_uses_stays(empty, slow):
    folder = slow(SLOW, {"notes.diff": "x"})
    lifted(empty)
    assert (folder / "notes.diff").read_text() == "x"


def test_json_says_what_was_lifted(empty, slow):
    slow(SLOW + SHELL)
    found = lifted(empty, "--json").json["lifted"]
    assert (found["id"], found["version"], found["removed"]) == ("slow", VERSION, [])
    assert [(edit["becomes"], edit["why"]) for edit in found["edits"]] == [
        ({"rewrite": 1}, []),
        ({}, ["the file is not Python"]),
    ]


def test_an_edit_that_does_not_hold_with_the_others_stays(empty, slow):
    # Behind the second edit there is another call of the kind that the first would look for.
    more = f"""\
  - text: {{find: "    return launch(", replace: "    launch(0, mode='fast')\\n    return launch("}}
    files: {ENGINE}
"""
    folder = slow(SLOW.replace('mode="fast"', 'launch(config, mode="fast"').replace(
        'mode="slow"', 'launch(config, mode="slow"') + more)  # fmt: skip
    before = tree(empty)
    run = lifted(empty)
    assert "1 of 2 edits by text lifted" in run.out
    assert "stays   text  vllm/engine.py:2  with edits by meaning, the patch is conflict" in run.out
    (empty.folder / "out").rename(empty.folder / "old")
    assert tree(empty) == before
    assert "insert: launch(0, mode='fast')" in (folder / "patch.yaml").read_text()


def test_a_patch_below_is_applied_first(empty, slow):
    empty.patch("below", '- find: launch(...)\n  add-keyword: {steps: "2"}')
    folder = slow(SLOW, tail=TAIL + "requires: [below]\n")
    text = (folder / "patch.yaml").read_text()
    assert "requires: [below]" in text
    run = lifted(empty)
    assert "becomes 1" in run.out
    assert "launch(..., mode=" in (folder / "patch.yaml").read_text()


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        (SLOW.replace('"fast"', '"none"'), f"the patch 'slow' is conflict on {VERSION}"),
        (
            f"  [{{text: {{find: fast, replace: slow}}, files: {ENGINE}}}]\n",
            "its edits are not a list whose items begin with '- '",
        ),
    ],
)
def test_what_cannot_be_lifted_is_an_error_and_nothing_changes(empty, slow, edits, message):
    slow(edits)
    before = snapshot(empty.patches)
    run = lifted(empty, code=2)
    assert message in run.err
    assert snapshot(empty.patches) == before


def test_a_patch_that_is_lifted_already_stays_as_it_is(empty, slow):
    folder = slow(SLOW)
    lifted(empty)
    before, written = snapshot(empty.patches), folder.stat().st_ino
    run = lifted(empty)
    assert run.out == "slow  has no edit by text or diff: nothing is left to lift\n"
    assert (snapshot(empty.patches), folder.stat().st_ino) == (before, written)
    found = lifted(empty, "--json").json["lifted"]
    assert (found["version"], found["edits"]) == (VERSION, [])


def test_variants_are_not_lifted(empty, slow):
    folder = slow(SLOW)
    text = (folder / "patch.yaml").read_text()
    indented = "".join(f"    {line}\n" for line in SLOW.splitlines())
    new = text.replace(f"edits:\n{SLOW}", f"variants:\n  - name: one\n    edits:\n{indented}")
    (folder / "patch.yaml").write_text(new)
    assert "has variants" in lifted(empty, code=2).err


def test_a_patch_of_vpatch_is_not_written(empty):
    run = empty.run("import", "--lift", "mtp-proj-prefix", "--vllm", VERSION, code=2)
    assert "the patch 'mtp-proj-prefix' is not one of the project" in run.err
    assert run.codes == ("importing.not-liftable",)


def test_lift_takes_no_source(empty, slow):
    slow(SLOW)
    for args, named in [
        (("x.diff",), "a source"),
        (("--text", "--sandbox-path", "/opt"), "--sandbox-path, --text"),
        (("--upstreamed",), "--upstreamed"),
    ]:
        run = lifted(empty, *args, code=2)
        assert f"--lift changes a patch that is there, and does not take {named}\n" in run.err
        assert run.codes == ("cli.conflicting-options",)
