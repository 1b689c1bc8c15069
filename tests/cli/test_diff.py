from __future__ import annotations

import subprocess

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
