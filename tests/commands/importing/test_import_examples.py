"""`vpatch import --examples`: the example holds, or a note says why there is none."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from tests.projects import ENGINE, LLAMA, VERSION, archive
from vpatch.commands.importing import run as import_run
from vpatch.workspace.examples import ExampleResult

SLOW = """\
--- a/vllm/engine.py
+++ b/vllm/engine.py
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
"""
SLOWER = SLOW.replace('"slow"', '"slower"').replace('"fast"', '"slow"')
COMMENT = """\
--- a/vllm/models/llama.py
+++ b/vllm/models/llama.py
@@ -3 +3 @@
-        self.proj = Linear(4, 4)  # narrow
+        self.proj = Linear(4, 4)  # wide
"""


def new_file(path, *lines):
    body = "".join(f"+{line}\n" for line in lines)
    return f"--- /dev/null\n+++ b/{path}\n@@ -0,0 +1,{len(lines)} @@\n{body}"


@pytest.fixture
def imported(empty):
    def run(text, *args, vllm=VERSION):
        (empty.folder / "fix.diff").write_text(text)
        args = ("fix.diff", "--vllm", vllm, "--releases", "none", *args)
        return empty.run("import", *args, "--examples")

    return run


def declared(project, patch_id):
    return YAML(typ="safe").load((project.patches / patch_id / "patch.yaml").read_text())


def test_an_example_has_what_the_patch_gives(empty, imported):
    """The source has other comments, and the patch leaves those out."""
    run = imported(
        SLOW
        + COMMENT.replace("# wide", "# wide\n+        self.tail = None").replace("+3 @@", "+3,2 @@")
    )
    assert "gives the same code as the source" in run.out
    after = empty.patches / "fix/examples" / f"needed-{VERSION}" / "after"
    assert b'mode="slow"' in (after / ENGINE).read_bytes()
    assert b"# narrow\n        self.tail = None\n" in (after / LLAMA).read_bytes()
    assert "1 of 1 example holds" in empty.run("test", "fix").out


@pytest.mark.parametrize(
    ("lines", "concerns"),
    [
        # What the new file imports of the tree, that of its own folder first.
        (
            ["from vllm.engine import start", "from .llama import Llama", "X = (start, Llama)"],
            {"find": "class Llama: ..."},
        ),
        (["from ..engine import start", "X = start"], {"find": "def start(...): ..."}),
        # What is beside it.
        (["import os", "X = os.sep"], {"find": "class Llama: ..."}),
        (["MORE = 1"], {"find": "class Llama: ..."}),
    ],
)
def test_a_new_file_concerns_what_is_around_it(empty, imported, lines, concerns):
    imported(new_file("vllm/models/more.py", *lines))
    assert declared(empty, "fix")["concerns"] == concerns
    assert "1 of 1 example holds" in empty.run("test", "fix").out
    status = ("status", "--vllm", VERSION, "--patch", "fix", "--json")
    (decision,) = empty.run(*status).json["trees"][0]["decisions"]
    assert decision["state"] == "needed"


def test_a_new_file_in_a_new_folder_concerns_the_one_above(empty, imported):
    imported(new_file("vllm/more/data/x.json", "{}"))
    assert declared(empty, "fix")["concerns"] == {"find": "def start(...): ..."}
    assert "1 of 1 example holds" in empty.run("test", "fix").out


def test_a_new_file_that_a_release_has_is_an_example_of_both_states(empty, imported):
    empty.index.add("0.51.0", archive("0.51.0", {"vllm/more.py": b"MORE = 1\n"}))
    imported(new_file("vllm/more.py", "MORE = 1"), vllm="0.51.0")
    assert "2 of 2 examples hold" in empty.run("test", "fix").out


def test_a_patch_that_requires_another_says_that_it_has_no_example(empty):
    for number, text in enumerate((SLOW, SLOWER), 1):
        (empty.folder / "series").mkdir(exist_ok=True)
        (empty.folder / f"series/{number}.diff").write_text(text)
    args = ("series", "--vllm", VERSION, "--releases", "none", "--examples")
    run = empty.run("import", *args)
    first, second = sorted(path.name for path in empty.patches.iterdir())
    assert (empty.patches / first / "examples").is_dir()
    assert not (empty.patches / second / "examples").exists()
    assert f"note  no example: the patch requires {first}, and an example has" in run.out


def test_an_example_that_would_not_hold_is_left_out_with_its_reason(empty, imported, monkeypatch):
    """The place counts in the whole release, and not in the files that change."""

    def fail(_):
        yield ExampleResult(f"needed-{VERSION}", ("it fails",))

    monkeypatch.setattr(import_run, "run_examples", fail)
    assert f"note  no example needed-{VERSION}: it fails" in imported(SLOW).out
    assert not (empty.patches / "fix" / "examples").exists()
