"""`vpatch import --update`: a newer form of a source becomes the patch that is there."""

from __future__ import annotations

import pytest

from tests.projects import ENGINE, FILES, LLAMA, VERSION, git, snapshot, write_tree

SLOW = f"""\
--- a/{ENGINE}
+++ b/{ENGINE}
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
"""
HEAD = f"""\
--- a/{LLAMA}
+++ b/{LLAMA}
@@ -3,2 +3,2 @@
         self.proj = Linear(4, 4)  # narrow
-        self.head = Linear(4, 8)
+        self.head = Linear(4, 16)
"""
ARGS = ("--vllm", VERSION, "--releases", "none")


@pytest.fixture
def update(empty):
    """Import SLOW as `fix`, with a comment and a claim of somebody; then update it by a diff."""
    (empty.folder / "fix.diff").write_text(SLOW)
    empty.run("import", "fix.diff", *ARGS)
    place = empty.patches / "fix/patch.yaml"
    text = place.read_text().replace("  - find", "  # mine\n  - find")
    text = text.replace('">=0.50.0"', '">=0.50,<9"').replace("'>=0.50.0'", "'>=0.50,<9'")
    text = text.replace(">=0.50.0", ">=0.50,<9")
    place.write_text(text)
    assert "<9" in text
    assert "# mine" in text

    def run(diff, *args, code=0):
        (empty.folder / "newer.diff").write_text(diff)
        return empty.run("import", "newer.diff", *ARGS, "--update", "--id", "fix", *args, code=code)

    return run


def declared(project):
    return (project.patches / "fix/patch.yaml").read_text()


def given(project):
    """What the patch makes of the release, by the paths."""
    project.run("apply", "--vllm", VERSION, "--patch", "fix")
    folder = project.folder / ".vpatch" / f"vllm-{VERSION}"
    return [(folder / path).read_bytes() for path in (ENGINE, LLAMA)]


def test_what_is_new_is_shown_and_the_rest_stays(empty, update):
    before = declared(empty)
    run = update(SLOW + HEAD)
    assert "what is new in the source:\n--- a/vllm/models/llama.py\n" in run.out
    assert "+        self.head = Linear(4, 16)" in run.out
    assert "-    return launch" not in run.out.partition("what is new in the patch:")[0]
    assert "gives the bytes of an import of newer.diff on 0.50.0; 1 of 1 edit stays" in run.out
    after = declared(empty)
    assert set(before.splitlines()) <= set(after.splitlines())
    assert [b"slow" in given(empty)[0], b"Linear(4, 16)" in given(empty)[1]] == [True, True]


def test_a_part_that_is_gone_goes(empty, update):
    update(SLOW + HEAD)
    update(HEAD)
    # The effect is no longer the one that the patch had.
    assert 'mode="slow"' not in declared(empty)
    assert "<9" in declared(empty)
    assert given(empty)[0] == FILES[ENGINE]


def test_the_same_source_changes_nothing(empty, update):
    # Sources have no documentation for a patch, and what it has of it stays.
    (empty.patches / "fix/ours.md").write_text("Ours.\n")
    beside = "edits:\n  - add-file: docs/ours.md\n    from: ours.md"
    (empty.patches / "fix/patch.yaml").write_text(declared(empty).replace("edits:", beside))
    before = snapshot(empty.patches)
    assert "says what an import of newer.diff says already; nothing was written" in update(SLOW).out
    assert snapshot(empty.patches) == before


def test_the_id_of_the_source_names_the_patch(empty, update):
    assert update
    (empty.folder / "fix.diff").write_text(SLOW + HEAD)
    run = empty.run("import", "fix.diff", *ARGS, code=2)
    assert "or give --update if this is its newer form" in run.err
    assert (
        "1 of 1 edit stays word for word" in empty.run("import", "fix.diff", *ARGS, "--update").out
    )
    (empty.folder / "diffs").mkdir()
    for name, text in (("1.diff", SLOW), ("2.diff", HEAD)):
        (empty.folder / "diffs" / name).write_text(text)
    run = empty.run("import", "diffs", *ARGS, "--update", code=2)
    assert "the source has 2 changes" in run.err


def test_several_commits_become_one_patch(empty, update):
    repository = write_tree(empty.folder / "ours")
    git(repository, "init", "--quiet")
    git(repository, "add", "--all")
    git(repository, "commit", "--quiet", "--message=base")
    for old, new in (('"fast"', '"slower"'), ('"slower"', '"slowest"')):
        file = repository / ENGINE
        file.write_text(file.read_text().replace(old, new))
        git(repository, "commit", "--quiet", "--all", f"--message={new}")
    assert update
    args = ("import", "ours", "--git-range", "HEAD~2..HEAD", *ARGS, "--update", "--id", "fix")
    output = empty.run(*args, "--json").json["updated"]
    assert output["written"]
    assert '+    return launch(config, mode="slowest")' in output["new"]
    assert "slowest" in declared(empty)
    assert "slower" not in declared(empty)
    assert [one.name for one in empty.patches.iterdir()] == ["fix"]


def test_a_patch_that_does_not_apply_there_is_refused(empty, update):
    place = empty.patches / "fix/patch.yaml"
    place.write_text(declared(empty).replace("fast", "fastest"))
    before = snapshot(empty.patches)
    run = update(SLOW, code=2)
    assert run.codes == ("edit.not-needed",)
    assert "vpatch edit fix --vllm VERSION" in run.err
    assert snapshot(empty.patches) == before


def test_a_comment_is_named_and_kept_if_asked(empty, update):
    newer = SLOW.replace("(config):\n-", "(config):\n+    # Slowly.\n-").replace("1,2 @@", "1,3 @@")
    run = update(newer.replace('"slow"', '"slower"'))
    assert f"left out  {ENGINE}:2  only comments" in run.out
    assert run.out.count("--exact") == 1
    update(newer.replace('"slow"', '"slower"'), "--exact")
    assert (
        given(empty)[0]
        == b'def start(config):\n    # Slowly.\n    return launch(config, mode="slower")\n'
    )


@pytest.mark.parametrize("option", [("--examples",), ("--text",)], ids=" ".join)
def test_an_option_of_new_patches_is_refused(update, option):
    run = update(SLOW + HEAD, *option, code=2)
    assert run.codes == ("cli.unused-option",)
    assert f"{option[0]} would have no effect with --update" in run.err
