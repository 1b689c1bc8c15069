"""What `vpatch show --diff` shows of the effect of a patch."""

from __future__ import annotations

import subprocess

import pytest

from tests.projects import ENGINE, FILES, LLAMA, NO_SUCH, SLOW_MODE, VERSION, git, write_tree

DIFF = f"""diff --git a/{ENGINE} b/{ENGINE}
--- a/{ENGINE}
+++ b/{ENGINE}
@@ -1,2 +1,2 @@
 def start(config):
-    return launch(config, mode="fast")
+    return launch(config, mode="slow")
"""


def test_the_diff_of_a_release(project):
    run = project.run("show", "slow-mode", "--diff", "--vllm", VERSION)
    first, _, diff = run.out.partition("\n")
    assert first == f"slow-mode is needed in vllm-{VERSION}: 1 place to edit in 1 file"
    assert diff == DIFF


FURTHER = """
- text: {find: b = 2, replace: b = 3}
  files: vllm/dos.py
- add-file: vllm/compat.py
  from: compat.py
"""


def test_git_applies_what_is_shown(project, tmp_path):
    """Of a file without a last LF, of one with other line ends, and of a new one."""
    files = FILES | {ENGINE: FILES[ENGINE].rstrip(b"\n"), "vllm/dos.py": b"a = 1\r\nb = 2"}
    write_tree(project.folder / "source", files)
    folder = project.patch("slow-mode", SLOW_MODE + FURTHER, concerns="text: def start")
    (folder / "compat.py").write_text("x = 1\n")
    out = project.run("show", "slow-mode", "--diff", "--vllm", "./source").out
    assert out.count("\\ No newline at end of file\n") == 4
    git(tmp_path, "init", "--quiet", "copy")
    copy = write_tree(tmp_path / "copy", files)
    subprocess.run(["git", "apply", "-"], cwd=copy, input=out.encode(), check=True)
    assert b'mode="slow"' in (copy / ENGINE).read_bytes()
    assert (copy / "vllm/dos.py").read_bytes() == b"a = 1\r\nb = 3"
    assert (copy / "vllm/compat.py").read_bytes() == b"x = 1\n"


def test_a_recipe_applies_its_patches_before(project):
    project.patch("prefix", '- find: Linear(4, 4)\n  rewrite: Linear(4, 4, prefix="a")')
    (project.folder / "recipes").mkdir()
    recipe = project.folder / "recipes" / "mine.yaml"
    wide = '- find: Linear(4, 4, ...)\n  add-keyword: {wide: "True"}'
    project.patch("wide", wide)
    recipe.write_text(f"vllm: {VERSION}\npatches: [prefix, wide]\n")
    out = project.run("show", "wide", "--diff", "--recipe", "mine").out
    assert out.startswith(f"wide is needed in vllm-{VERSION}, in the recipe mine: ")
    assert '-        self.proj = Linear(4, 4, prefix="a")  # narrow\n' in out
    alone = project.run("show", "wide", "--diff", "--vllm", VERSION).out
    assert "-        self.proj = Linear(4, 4)  # narrow\n" in alone
    (error,) = project.run(
        "show", "slow-mode", "--diff", "--recipe", "mine", "--json", code=2
    ).json_errors
    assert error["code"] == "library.not-in-recipe"
    assert error["what"] == "the recipe mine does not take slow-mode"


def test_as_json(project):
    document = project.run("show", "slow-mode", "--diff", "--vllm", VERSION, "--json").json
    assert document["id"] == "slow-mode"
    (effect,) = document["effects"]
    assert effect.pop("reason")
    assert effect == {
        "tree": "vllm",
        "version": VERSION,
        "recipe": None,
        "state": "needed",
        "files": [ENGINE],
        "diff": DIFF,
    }
    assert project.run("show", "slow-mode", "--json").json["effects"] == []


def test_what_is_not_utf_8_is_escaped_in_json(project):
    source = write_tree(project.folder / "source", FILES)
    (source / LLAMA).write_bytes(b"# -*- coding: latin-1 -*-\n# caf\xe9\n" + FILES[LLAMA])
    asked = ("show", "name-proj", "--diff", "--vllm", "./source", "--json")
    (effect,) = project.run(*asked).json["effects"]
    assert "caf\\xe9" in effect["diff"]


def test_a_patch_that_is_not_needed_says_so(project):
    project.patch("gone", NO_SUCH, concerns="text: class Nowhere")
    run = project.run("show", "gone", "--diff", "--vllm", VERSION)
    assert run.out.startswith(f"gone is absent in vllm-{VERSION}: ")
    assert run.out.endswith("\nIt changes nothing there.\n")


def test_a_patch_that_does_not_fit_ends_with_1(project):
    project.patch("unfit", NO_SUCH)
    run = project.run("show", "unfit", "--diff", "--vllm", VERSION, code=1)
    assert run.out.startswith(f"unfit is conflict in vllm-{VERSION}: ")
    (effect,) = project.run("show", "unfit", "--diff", "--vllm", VERSION, "--json", code=1).json[
        "effects"
    ]
    assert (effect["state"], effect["diff"]) == ("conflict", "")


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("--vllm", VERSION), "--vllm would have no effect without --diff"),
        (("--recipe", "mine"), "--recipe would have no effect without --diff"),
        (("--diff",), "--diff needs a vLLM"),
        (("--diff", "--vllm", VERSION, "--recipe", "mine"), "both name a vLLM"),
        (("--diff", "--recipe", "none"), "there is no recipe 'none'"),
    ],
)
def test_wrong_use(project, args, what):
    assert what in project.run("show", "slow-mode", *args, code=2).err
