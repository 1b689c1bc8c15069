"""vpatch completion: what a shell offers."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.projects import VERSION

EDIT = "- {find: f(), rewrite: g()}"


@pytest.fixture
def offered(project):
    """Asks a shell's way for what may follow; the last word is begun."""

    def offer(*words):
        asked = {
            "_VPATCH_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(["vpatch", *words]),
            "COMP_CWORD": str(len(words)),
        }
        project.env.update(asked)
        run = project.run(in_process=False)
        for name in asked:
            del project.env[name]
        assert run.err == ""
        return [line.partition(",")[2] for line in run.out.split()]

    return offer


def test_ids_of_patches(project, offered):
    project.patch("a-first", EDIT)
    assert offered("show", "a-f") == ["a-first"]
    assert offered("status", "--patch", "a-f") == ["a-first"]
    assert offered("test", "a-first", "a-") == ["a-first"]
    assert "mtp-proj-prefix" in offered("status", "--why", "")


def test_names_of_recipes(offered):
    assert offered("apply", "--recipe", "vllm-0.2") == ["vllm-0.23"]
    assert offered("bump", "vllm-0.23") == ["vllm-0.23"]


def test_releases_are_those_that_were_listed(project, offered):
    assert offered("status", "--vllm", "0.") == []
    project.run("status", "--vllm", "all")
    assert f"{VERSION}" in offered("apply", "--vllm", "0.5")
    assert offered("status", "--vllm", "a") == ["all"]
    assert f"{VERSION},0.51.0" in offered("status", "--vllm", f"{VERSION},0.5")
    assert project.index.count("/vllm/") == 1


def test_patches_of_a_further_folder(project, offered):
    project.patch("elsewhere", EDIT)
    (project.patches / "elsewhere").parent.rename(project.folder / "more")
    assert offered("show", "else") == []
    assert offered("show", "--patches-dir", "more", "else") == ["elsewhere"]


def test_a_project_that_cannot_be_read_offers_nothing(project, offered):
    (project.folder / "vpatch.toml").write_text("[")
    assert offered("show", "m") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_that_of_the_shell(empty, shell):
    run = empty.run("completion", shell)
    assert f"_VPATCH_COMPLETE={shell}_complete" in run.out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=run.out, text=True, check=True)


def test_bash_completes_by_the_script(empty):
    script = f"""
{empty.run("completion", "bash").out}
COMP_WORDS=(vpatch sta) COMP_CWORD=1
_vpatch_completion vpatch sta vpatch
echo "${{COMPREPLY[*]}}"
"""
    programs = Path(sys.executable).parent
    env = {**empty.env, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    run = subprocess.run(
        ["bash", "-c", script], env=env, capture_output=True, text=True, check=True
    )
    assert run.stdout == "status\n"


def test_another_shell_is_refused(empty):
    assert "'bash', 'zsh', 'fish'" in empty.run("completion", "tcsh", code=2).err
