"""`vpatch import` and `vpatch new` on the small vLLM, to the patches that they write."""

from __future__ import annotations

import runpy
from difflib import unified_diff

import pytest
from ruamel.yaml import YAML

from tests.helpers import skip_without_bubblewrap
from tests.projects import ENGINE, FILES, LLAMA, VERSION, archive, git, snapshot, write_tree
from vpatch.changes import time_limit
from vpatch.commands.importing import usecase as importing
from vpatch.deriving.strategies import STRATEGIES
from vpatch.library.loading import load_patch
from vpatch.trust.decision import EVERYTHING

ENGINE_DIFF = """\
--- a/vllm/engine.py
+++ b/vllm/engine.py
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
"""
LLAMA_DIFF = """\
--- a/vllm/models/llama.py
+++ b/vllm/models/llama.py
@@ -1,4 +1,5 @@
 class Llama:
     def __init__(self, prefix):
-        self.proj = Linear(4, 4)  # narrow
+        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow
         self.head = Linear(4, 8)
+        self.tail = None
"""
TEST_DIFF = "--- a/tests/test_x.py\n+++ b/tests/test_x.py\n@@ -1 +1 @@\n-a\n+b\n"


@pytest.fixture
def source(empty):
    def write(text, name="fix.diff"):
        file = empty.folder / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
        return name

    return write


def imported(project, *args, **options):
    return project.run("import", *args, "--vllm", VERSION, **options)


def declared(project, patch_id):
    file = project.patches / patch_id / "patch.yaml"
    return YAML(typ="safe").load(file.read_text())


def test_a_diff_becomes_a_patch_that_applies(empty, source):
    run = imported(empty, source(ENGINE_DIFF + LLAMA_DIFF + TEST_DIFF, "slow.diff"))
    assert "gives the same bytes as the source" in run.out
    assert "2 of 2 hunks of Python by meaning" in run.out
    assert "left aside  tests/test_x.py  1 hunk: it is a test" in run.out
    patch = declared(empty, "slow")
    assert [min(edit) for edit in patch["edits"]] == ["find", "add-keyword", "after"]
    assert patch["needed-in"] == {"vllm": ">=0.50.0"}
    empty.run("apply", "--vllm", VERSION, "--patch", "slow")
    assert b'mode="slow"' in (empty.target / ENGINE).read_bytes()
    assert b"self.tail = None\n" in (empty.target / LLAMA).read_bytes()


def test_progress_counts_files(empty, source):
    run = imported(empty, source(ENGINE_DIFF + LLAMA_DIFF + TEST_DIFF, "slow.diff"))
    assert "Finding edits (2 files)\n" in run.err
    assert "Finding edits" not in run.out
    assert "Finding edits (1 file)\n" in imported(empty, source(ENGINE_DIFF, "one.diff")).err


def test_a_part_of_a_source_is_no_success(empty, source):
    """A module that upstream moved: its hunks are not in the patch."""
    moved = LLAMA_DIFF.replace("models/llama.py", "models/lama.py")
    run = imported(empty, source(ENGINE_DIFF + moved, "slow.diff"), code=1)
    assert "left aside  vllm/models/lama.py  1 hunk: the release has no such file" in run.out
    assert "gives the same bytes as the source for what it takes" in run.out
    assert imported(empty, source(ENGINE_DIFF, "whole.diff")).code == 0


def test_hunks_with_wrong_counts_are_for_a_person_to_look_at(empty, source):
    run = imported(empty, source(ENGINE_DIFF.replace("1,2 +1,2", "1,1 +1,1")), code=1)
    assert "gives the same bytes as the source for what it takes" in run.out
    assert "look at  line 3: the counts of the hunk are corrected" in run.out


def test_an_empty_file_is_added(empty, source):
    added = "diff --git a/vllm/n/__init__.py b/vllm/n/__init__.py\nnew file mode 100644\n"
    imported(empty, source(ENGINE_DIFF + added))
    assert {"add-file": "vllm/n/__init__.py", "from": "__init__.py"} in declared(empty, "fix")[
        "edits"
    ]
    empty.run("apply", "--vllm", VERSION, "--patch", "fix")
    assert (empty.target / "vllm/n/__init__.py").read_bytes() == b""


def test_proposals_are_marked(empty, source):
    imported(empty, source(ENGINE_DIFF))
    lines = (empty.patches / "fix" / "patch.yaml").read_text().splitlines()
    for key in ("symptoms:", "needed-in:", "concerns:", "effect:", "remove-when: "):
        (at,) = [n for n, line in enumerate(lines) if line.startswith(key)]
        assert lines[at - 1].startswith("# Proposed by vpatch import"), key


def test_what_becomes_text_has_its_reason(empty, source):
    gone = LLAMA_DIFF.replace("+        self.tail = None\n", "").replace("1,5", "1,4")
    gone = gone.replace("-        self.proj", "         self.proj").replace(
        '+        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow\n', ""
    )
    gone = gone.replace("         self.head", "-        self.head").replace("1,4 +1,4", "1,4 +1,3")
    run = imported(empty, source(gone), "--text")
    assert "text  vllm/models/llama.py:4  imported as text" in run.out
    assert "# As text: imported as text." in (empty.patches / "fix" / "patch.yaml").read_text()
    assert "0 of 1 hunk of Python by meaning" in run.out


def test_json_says_what_was_imported(empty, source):
    empty.run("status", "--vllm", "0.51.0", "--patch", "x", code=2)
    run = imported(empty, source(ENGINE_DIFF + TEST_DIFF), "--releases", "0.51.0", "--json")
    (patch,) = run.json["patches"]
    assert patch["id"] == "fix"
    assert patch["gives"] == "exact"
    assert (patch["python_hunks"], patch["hunks_by_meaning"]) == (1, 1)
    assert patch["edits"] == {"rewrite": 1}
    assert [left["path"] for left in patch["aside"]] == ["tests/test_x.py"]
    (release,) = patch["releases"]
    assert (release["version"], release["state"], release["git"]) == ("0.51.0", "needed", "applies")


def test_an_example_is_written_that_holds(empty, source):
    imported(empty, source(ENGINE_DIFF), "--examples", "--releases", "none")
    run = empty.run("test", "fix")
    assert "1 of 1 example holds" in run.out


def test_another_release_is_shown_beside_git(empty, source):
    changed = {ENGINE: FILES[ENGINE].replace(b"config, mode", b"config, 1, mode")}
    empty.index.add("0.52.0", archive("0.52.0", changed))
    run = imported(empty, source(ENGINE_DIFF), "--releases", "0.51.0,0.52.0")
    lines = [line.split() for line in run.out.splitlines() if "git apply" in line]
    assert lines == [
        ["0.51.0", "needed", "git", "apply", "-3:", "applies"],
        ["0.52.0", "needed", "git", "apply", "-3:", "conflicts"],
    ]


@pytest.fixture
def merged(empty):
    """A project beside two releases: 0.51.0 has ENGINE_DIFF, and 0.52.0 has more."""
    slow = FILES[ENGINE].replace(b"fast", b"slow")
    empty.index.add("0.51.0", archive("0.51.0", {ENGINE: slow}))
    empty.index.add("0.52.0", archive("0.52.0", {ENGINE: slow + b"\n\nMORE = 1\n"}))
    return empty


def test_a_change_that_the_release_has_is_for_those_before(merged, source):
    name = source(f"Go slow (#12)\n\n{ENGINE_DIFF}")
    run = merged.run("import", name, "--vllm", "0.51.0", "--releases", "0.50.0,0.52.0")
    assert "0.51.0 has this change already: vpatch took it out" in run.out
    assert "gives the same bytes as the source" in run.out
    lines = [line.split()[:2] for line in run.out.splitlines() if "git apply" in line]
    assert lines == [["0.50.0", "needed"], ["0.51.0", "upstreamed"], ["0.52.0", "upstreamed"]]
    patch = declared(merged, "go-slow")
    assert patch["needed-in"] == {"vllm": ">=0.50.0,<0.51.0"}
    assert patch["remove-when"] == "no recipe pins a release before 0.51.0"
    text = (merged.patches / "go-slow" / "patch.yaml").read_text()
    assert "ref: vllm-project/vllm#12, is: pull request, relation: same change" in text
    assert "state: merged, release: 0.51.0" in text
    merged.run("apply", "--vllm", VERSION, "--patch", "go-slow")
    assert b'mode="slow"' in (merged.target / ENGINE).read_bytes()
    merged.run("status", "--vllm", "0.50.0,0.51.0,0.52.0", "--patch", "go-slow")


def test_the_first_release_with_a_change_is_told_of_those_compared(merged, source):
    name = source(f"Go slow (#12)\n\n{ENGINE_DIFF}")
    run = merged.run("import", name, "--vllm", "0.52.0", "--releases", "0.50.0,0.51.0", "--json")
    (patch,) = run.json["patches"]
    assert patch["upstreamed_in"] == "0.52.0"
    states = {one["version"]: one["state"] for one in patch["releases"]}
    assert states == {"0.50.0": "needed", "0.51.0": "upstreamed", "0.52.0": "upstreamed"}
    assert declared(merged, "go-slow")["needed-in"] == {"vllm": ">=0.50.0,<0.51.0"}
    text = (merged.patches / "go-slow" / "patch.yaml").read_text()
    assert "# It ends before 0.51.0, which has the change already.\nneeded-in:" in text
    text = (merged.patches / "go-slow" / "patch.yaml").read_text()
    assert "release: 0.51.0" in text


def test_a_merged_change_has_examples_of_both_states(merged, source):
    merged.run("import", source(ENGINE_DIFF), "--vllm", "0.51.0", "--examples")
    names = {path.name for path in (merged.patches / "fix" / "examples").iterdir()}
    assert names == {"needed-before-0.51.0", "upstreamed-0.51.0"}
    assert "2 of 2 examples hold" in merged.run("test", "fix").out


def test_what_a_merged_change_took_away_is_told_by_its_neighbours(merged, source):
    """No edit shows that a statement is gone, so the patch gets an effect of text."""
    two = FILES[LLAMA]
    gone = two.replace(b"        self.proj = Linear(4, 4)  # narrow\n", b"")
    merged.index.add("0.53.0", archive("0.53.0", {LLAMA: gone}))
    name = source(
        "--- a/vllm/models/llama.py\n+++ b/vllm/models/llama.py\n@@ -1,4 +1,3 @@\n class Llama:\n"
        "     def __init__(self, prefix):\n-        self.proj = Linear(4, 4)  # narrow\n"
        "         self.head = Linear(4, 8)\n"
    )
    run = merged.run("import", name, "--vllm", "0.53.0", "--releases", "0.50.0")
    assert [line.split()[:2] for line in run.out.splitlines() if "git apply" in line] == [
        ["0.50.0", "needed"],
        ["0.53.0", "upstreamed"],
    ]
    effect = declared(merged, "fix")["effect"]
    assert effect["text"].splitlines()[0] == "    def __init__(self, prefix):"


def test_a_release_that_only_seems_to_have_a_change_is_an_error(merged, source):
    run = merged.run("import", source(ENGINE_DIFF), "--vllm", VERSION, "--upstreamed", code=2)
    assert run.codes == ("importing.not-upstreamed",)
    tree = write_tree(merged.folder / "mine")
    (tree / ENGINE).write_bytes(FILES[ENGINE].replace(b"fast", b"slow"))
    run = merged.run("import", "--from-tree", "mine", "--vllm", VERSION, "--upstreamed", code=2)
    assert run.codes == ("cli.conflicting-options",)


def test_the_commits_of_a_range_become_patches(empty):
    fork = write_tree(empty.folder / "fork")
    git(empty.folder, "init", "--quiet", "--initial-branch=main", str(fork))
    git(fork, "add", "--all")
    git(fork, "commit", "--quiet", "--message", "base")
    for number, (old, new) in enumerate([(b"fast", b"slow"), (b"slow", b"slower")]):
        file = fork / ENGINE
        file.write_bytes(file.read_bytes().replace(old, new))
        text = f"[Bugfix] Step {number} (#1{number})\n\nIt raises ValueError: no."
        git(fork, "commit", "--quiet", "--all", "--message", text)
    run = imported(empty, "fork", "--git-range", "HEAD~2..HEAD")
    assert "2 patches written" in run.out
    first, second = declared(empty, "step-0"), declared(empty, "step-1")
    assert first["title"] == "[Bugfix] Step 0 (#10)"
    assert first["symptoms"] == ["It raises ValueError: no."]
    assert second["requires"] == ["step-0"]
    assert "vllm-project/vllm#11" in (empty.patches / "step-1" / "patch.yaml").read_text()
    empty.run("apply", "--vllm", VERSION, "--patch", "step-1")
    assert b'mode="slower"' in (empty.target / ENGINE).read_bytes()


def test_patches_that_fit_alone_in_any_order_require_nothing(empty, source):
    first = LLAMA_DIFF.replace("+        self.tail = None\n", "").replace("1,5", "1,4")
    source(first, "series/1-z.diff")
    one = "--- a/vllm/models/llama.py\n+++ b/vllm/models/llama.py\n@@ -3,2 +3,2 @@\n"
    before = '         self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow\n'
    change = "-        self.head = Linear(4, 8)\n+        self.head = Linear(4, 9)\n"
    source(f"{one}{before}{change}", "series/2-a.diff")
    run = imported(empty, "series")
    assert "requires" not in run.out
    assert "requires" not in declared(empty, "a")
    empty.run("apply", "--vllm", VERSION, "--patch", "a")
    assert b"Linear(4, 9)" in (empty.target / LLAMA).read_bytes()


def test_of_patches_of_one_call_only_those_that_need_another_require_it(empty, source):
    head = "--- a/vllm/engine.py\n+++ b/vllm/engine.py\n@@ -1,2 +1,2 @@\n def start(config):\n"
    steps = ['mode="fast"', 'mode="slow"', 'mode="slow", depth=1', 'mode="slow", depth=2']
    calls = [f"    return launch(config, {step})\n" for step in steps]
    for number, name in enumerate(("z", "b", "c")):
        source(f"{head}-{calls[number]}+{calls[number + 1]}", f"series/{number}-{name}.diff")
    imported(empty, "series")
    requires = [declared(empty, name).get("requires", []) for name in "zbc"]
    assert requires == [[], [], ["b"]]
    empty.run("apply", "--vllm", VERSION, "--patch", "c", "--patch", "z")
    assert calls[3].encode() in (empty.target / ENGINE).read_bytes()


def test_a_changed_tree_becomes_a_patch(empty):
    tree = write_tree(empty.folder / "mine")
    (tree / ENGINE).write_bytes(FILES[ENGINE].replace(b"fast", b"slow"))
    (tree / "vllm/more.py").write_text("MORE = 1\n")
    run = imported(empty, "--from-tree", "mine", "--id", "slow")
    assert "1 patch written" in run.out
    patch = declared(empty, "slow")
    assert patch["edits"][0]["add-file"] == "vllm/more.py"
    assert (empty.patches / "slow" / "more.py").read_text() == "MORE = 1\n"


WRONG = ENGINE_DIFF.replace('-    return launch(config, mode="fast")', "-    return 1")
UNDEFINED = ENGINE_DIFF.replace('mode="slow"', "mode=nowhere_defined")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (WRONG, "importing.does-not-apply"),
        (ENGINE_DIFF.replace("\n", "\r\n"), "importing.crlf"),
        (
            "diff --git a/vllm/engine.py b/vllm/engine.py\nGIT binary patch\n",
            "importing.unsupported",
        ),
        (TEST_DIFF, "importing.nothing-left"),
    ],
)
def test_nothing_is_written_if_a_diff_is_wrong(empty, source, text, code):
    source(ENGINE_DIFF, "diffs/1.diff")
    source(text, "diffs/2.diff")
    before = snapshot(empty.folder)
    run = imported(empty, "diffs", code=2)
    assert code in run.codes
    assert snapshot(empty.folder) == before


def test_code_that_vpatch_would_not_apply_is_refused(empty, source):
    name = source(UNDEFINED)
    before = snapshot(empty.folder)
    run = imported(empty, name, code=1)
    assert run.codes == ("importing.not-provable",)
    assert "nowhere_defined, which is not defined" in run.err
    assert {k: v for k, v in snapshot(empty.folder).items() if "patches/" in k} == {}
    assert before.keys() <= snapshot(empty.folder).keys()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (f"x = '{'a' * 150_000}'", "vllm/n.py:1 has 150006 bytes"),
        (f"raise ValueError('{'a b' * 50_000}')", "vllm/n.py:1 has 150020 bytes"),
        ("x = '\0'", "has a NUL in it: it is not text: vllm/n.py"),
    ],
)
def test_what_no_patch_yaml_can_hold_is_told_of_the_source(empty, source, text, named):
    added = f"--- /dev/null\n+++ b/vllm/n.py\n@@ -0,0 +1 @@\n+{text}\n"
    run = imported(empty, source(ENGINE_DIFF + added), code=2)
    assert named in run.err
    assert ".importing-" not in run.err
    assert snapshot(empty.patches) == {}


def test_an_import_without_end_is_stopped(empty, source, monkeypatch):
    monkeypatch.setattr(time_limit, "LONGEST_SECONDS", -1)
    run = imported(empty, source(ENGINE_DIFF), code=2)
    assert run.codes == ("importing.too-slow",)


def test_a_title_without_end_makes_a_short_id(empty, source):
    imported(empty, source(f"{'a' * 1000}\n{ENGINE_DIFF}"), "--releases", "none")
    assert [folder.name for folder in empty.patches.iterdir()] == ["a" * 80]


def test_a_file_that_is_not_text_is_an_error(empty, source):
    empty.index.add(
        "0.52.0",
        archive("0.52.0", {"vllm/x.bin": b"a\xff\nb\n"}),
    )
    name = source("--- a/vllm/x.bin\n+++ b/vllm/x.bin\n@@ -2 +2 @@\n-b\n+c\n")
    run = empty.run("import", name, "--vllm", "0.52.0", code=2)
    assert run.codes == ("importing.no-edit",)


def test_a_patch_that_is_there_is_left_alone(project):
    (project.folder / "slow-mode.diff").write_text(ENGINE_DIFF)
    before = snapshot(project.patches)
    run = imported(project, "slow-mode.diff", code=2)
    assert run.codes == ("importing.exists",)
    assert snapshot(project.patches) == before
    imported(project, "slow-mode.diff", "--id", "slower")
    assert declared(project, "slower")["id"] == "slower"


@pytest.mark.parametrize(
    "args",
    [
        [],
        ["fix.diff", "--from-tree", "."],
        ["--git-range", "a..b", "--from-tree", "."],
    ],
)
def test_one_source_is_to_be_named(empty, source, args):
    source(ENGINE_DIFF)
    assert imported(empty, *args, code=2).codes == ("cli.conflicting-options",)


def test_a_folder_is_no_release(empty, source):
    write_tree(
        empty.folder / "tree",
        {"vllm/__init__.py": b"", "pyproject.toml": b'[project]\nname = "vllm"\n'},
    )
    run = empty.run("import", source(ENGINE_DIFF), "--vllm", "./tree", code=2)
    assert run.codes == ("cli.bad-value",)


def test_a_new_patch_loads_and_is_absent(empty):
    run = empty.run("new", "fix-it")
    assert run.out == "wrote patches/fix-it/patch.yaml\n"
    assert "fix-it" in empty.run("list").out
    status = empty.run("status", "--vllm", VERSION, "--patch", "fix-it", "--json").json
    assert status["trees"][0]["decisions"][0]["state"] == "absent"
    assert empty.run("new", "other", "--json").json["id"] == "other"


def test_a_new_patch_with_a_test_declares_it(empty):
    run = empty.run("new", "fix-it", "--test")
    files = ["patches/fix-it/patch.yaml", "patches/fix-it/test_behaviour.py"]
    assert run.out == "".join(f"wrote {file}\n" for file in files)
    (proof,) = load_patch(empty.patches / "fix-it", EVERYTHING).declaration.proof
    test = runpy.run_path(empty.folder / files[1])
    assert proof.test == "test_behaviour.py"
    assert [name for name in test if name.startswith("test_")] == [*proof.fails_before]
    with pytest.raises(pytest.fail.Exception, match=r"not written yet: .* test_behaviour.py of"):
        test["test_what_the_patch_cures"]()
    assert empty.run("new", "other", "--test", "--json").json["test"] == (
        "patches/other/test_behaviour.py"
    )
    assert empty.run("new", "third", "--json").json["test"] is None
    assert not (empty.patches / "third" / "test_behaviour.py").exists()


def test_a_new_patch_needs_an_id_of_its_own(empty):
    empty.run("new", "fix-it")
    assert empty.run("new", "fix-it", code=2).codes == ("importing.exists",)
    assert empty.run("new", "Fix_It", code=2).codes == ("cli.bad-value",)
    assert {path.name for path in empty.patches.iterdir()} == {"fix-it"}


def test_what_the_code_raises_before_the_change_is_a_proposed_symptom(merged, source):
    """A tree without the patch says that, and not what the patch raises."""
    old = b'def start(config):\n    raise ValueError("this mode is too slow")\n'
    merged.index.add("0.53.0", archive("0.53.0", {ENGINE: old}))
    name = source(
        "Say why (#12)\n\nIt raises ValueError: the mode is not known at all\n"
        "and before ValueError: this mode is too slow\n\n"
        "--- a/vllm/engine.py\n+++ b/vllm/engine.py\n@@ -2 +2 @@\n"
        '-    raise ValueError("this mode is too slow")\n'
        '+    raise ValueError("the mode is not known at all")\n'
    )
    merged.run("import", name, "--vllm", "0.53.0", "--releases", "none")
    assert declared(merged, "say-why")["symptoms"] == [
        "and before ValueError: this mode is too slow"
    ]


def test_a_docstring_that_is_left_out_makes_no_conflict(empty, source):
    """The code of the patch fits a release with another docstring."""
    code = FILES[LLAMA].decode()
    old = code.replace("prefix):\n", 'prefix):\n        """Make it."""\n')
    new = old.replace("Make it.", "Make it narrow.").replace("Linear(4, 4)", "Linear(4, 4, x=1)")
    body = "".join(unified_diff(*(t.splitlines(keepends=True) for t in (old, new)), "a", "b"))
    empty.index.add(VERSION, archive(VERSION, {LLAMA: old.encode()}))
    later = old.replace("Make it.", "Make one of them.")
    empty.index.add("0.51.0", archive("0.51.0", {LLAMA: later.encode()}))
    body = body.replace("--- a\n+++ b", f"--- a/{LLAMA}\n+++ b/{LLAMA}")
    run = imported(empty, source(body))
    assert "gives the same code as the source, without all of its comments, docstrings" in run.out
    assert "a docstring changes; --exact keeps it as text" in run.out
    run = empty.run("status", "--vllm", "0.51.0", "--patch", "fix", "--json")
    assert [one["state"] for one in run.json["trees"][0]["decisions"]] == ["needed"]


def test_a_comment_that_is_left_out_is_said(empty, source):
    diff = (
        ENGINE_DIFF
        + """\
--- a/vllm/models/llama.py
+++ b/vllm/models/llama.py
@@ -1,4 +1,4 @@
 class Llama:
     def __init__(self, prefix):
-        self.proj = Linear(4, 4)  # narrow
+        self.proj = Linear(4, 4)  # wide
         self.head = Linear(4, 8)
"""
    )
    run = imported(empty, source(diff), "--json")
    (patch,) = run.json["patches"]
    assert patch["gives"] == "code"
    assert [(left["path"], left["line"]) for left in patch["left_out"]] == [(LLAMA, 3)]
    run = imported(empty, source(diff), "--id", "again")
    assert f"left out  {LLAMA}:3  only comments or blank lines change; --exact keeps" in run.out
    run = imported(empty, source(diff), "--id", "exact", "--exact")
    assert "gives the same bytes as the source" in run.out


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [
        (("--text", "--exact"), "--text and --exact exclude each other", "conflicting-options"),
        (
            ("--sandbox-path", "/opt"),
            "--sandbox-path would have no effect without --from-script",
            "unused-option",
        ),
        (("--only", "a"), "--only would have no effect without --from-module", "unused-option"),
    ],
)
def test_options_that_would_change_nothing_are_refused(empty, source, options, message, error):
    run = imported(empty, source(ENGINE_DIFF), *options, code=2)
    assert message in run.err
    assert run.codes == (f"cli.{error}",)
    assert not empty.patches.exists()


def test_one_assignment_of_a_module_is_chosen(empty):
    (empty.folder / "patches.py").write_text(
        "from vllm import engine\n"
        "orig = engine.start\n"
        "engine.start = lambda config: orig(config) or 1\n"
        "engine.stop = len('a')\n"
    )
    args = ("--from-module", "patches.py", "--releases", "none")
    assert imported(empty, *args, code=2).codes == ("importing.other-assignment",)
    run = imported(empty, *args, "--only", "engine.start")
    assert "note  line 4: vllm.engine.stop is left out" in run.out
    empty.run("apply", "--vllm", VERSION, "--patch", "patches")
    assert b"return _unpatched_start(config) or 1" in (empty.target / ENGINE).read_bytes()


def test_a_wrong_id_or_folder_is_refused_before_any_work(empty, source):
    diff = source(ENGINE_DIFF)
    run = imported(empty, diff, "--id", "My Fix", code=2)
    assert run.err.startswith("error: 'My Fix' is not an id of a patch\n  next: use small letters")
    run = imported(empty, diff, "--output-dir", diff, code=2)
    assert run.err.startswith("error: fix.diff: the patches cannot be written there: it is a file")


def test_two_imports_of_one_id_at_once(empty, source, monkeypatch):
    """The other one is through while this one proves its patch."""
    name = source(ENGINE_DIFF, "slow.diff")

    def put(made, staging, folder):
        monkeypatch.setattr(importing, "_put_in_place", put_in_place)
        (folder / "slow").mkdir(parents=True)
        (folder / "slow" / "patch.yaml").write_text("id: slow\n")
        return put_in_place(made, staging, folder)

    put_in_place = importing._put_in_place
    monkeypatch.setattr(importing, "_put_in_place", put)
    run = imported(empty, name, code=2)
    assert run.codes == ("importing.exists",)
    assert (empty.patches / "slow" / "patch.yaml").read_text() == "id: slow\n"
    assert [path.name for path in empty.patches.iterdir()] == ["slow"]


@pytest.mark.parametrize(
    ("head", "code"),
    [
        (f"@@ -{'9' * 5000} +1 @@", "importing.no-diff"),
        (f"@@ -1 +{'9' * 5000} @@", "importing.no-diff"),
        # These are no heads of hunks.
        ("@@ -²,2 +1,2 @@", "importing.unsupported"),
        ("@@ -1,٣ +1 @@", "importing.unsupported"),
    ],
)
def test_numbers_that_no_hunk_has(empty, source, head, code):
    name = source(ENGINE_DIFF.replace("@@ -1,2 +1,2 @@", head), "slow.diff")
    run = imported(empty, name, code=2)
    assert run.codes == (code,)


@pytest.mark.parametrize("sign", ["-", "~", "("])
def test_code_that_is_nested_without_end(empty, source, sign):
    name = source(ENGINE_DIFF.replace('"slow"', sign * 100_000 + '"slow"'), "slow.diff")
    assert imported(empty, name, code=None).code in {1, 2}


SCRIPT = r"""
import pathlib, vllm
engine = pathlib.Path(vllm.__file__).parent / "engine.py"
engine.with_suffix(".py.bak").write_text("old")
engine.with_name("fast.py").write_text("FAST = 1\n")
engine.write_text(engine.read_text().replace("fast", "slow"))
print(f"{vllm.__version__}: \x1b[31mone place")
"""


def test_a_script_is_imported_with_all_that_it_leaves(empty, source, monkeypatch):
    skip_without_bubblewrap()
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    run = imported(empty, "--from-script", source(SCRIPT, "slow.py"))
    assert "  left aside  vllm/engine.py.bak  a backup\n" in run.out
    assert "  note  vllm/fast.py is a new file\n" in run.out
    assert f"  printed  {VERSION}: \\x1b[31mone place\n" in run.out
    assert sorted(min(edit) for edit in declared(empty, "slow")["edits"]) == ["add-file", "find"]
    run = imported(empty, "--from-script", "slow.py", "--id", "again", "--json")
    assert run.json["patches"][0]["printed"] == [f"{VERSION}: \\x1b[31mone place"]


def test_a_strategy_that_fails_is_named_and_costs_nothing_else(empty, source, monkeypatch):
    def keywords(_):
        raise TypeError("ParamStar")
        yield

    others = [one for one in STRATEGIES if one.__name__ != "keywords"]
    monkeypatch.setattr("vpatch.deriving.derive.STRATEGIES", (keywords, *others))
    run = imported(empty, source(ENGINE_DIFF + LLAMA_DIFF, "slow.diff"), "-v")
    assert "gives the same bytes as the source" in run.out
    assert (
        "note  vllm/models/llama.py, line 3: the strategy 'keywords' failed: TypeError" in run.out
    )
    assert "Traceback (most recent call last)" in run.err
    assert len(declared(empty, "slow")["edits"]) == 3
