"""docs/how-to/bump-conflicts.md: ten patches over a release that breaks two of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.edit.library_conflicts import take_away
from tests.documents import ROOT, page
from tests.projects import git, own_repository

PATCHES = (
    "cpu-spec-decode-expand-copy-back",
    "cpu-spec-decode-synthetic-mode",
    "deepgemm-next-n-3",
    "draft-hf-config-path",
    "gdn-accepted-count-bounds",
    "gdn-gates-of-spec-tokens",
    "import-time-op-compat",
    "mamba-align-chunks-with-drafts",
    "mamba-state-shape-num-spec",
    "o-proj-bf16-fallback",
)
TAKEN = {
    "import-time-op-compat": "rms_norm_per_block_quant is asked for",
    "mamba-align-chunks-with-drafts": "the end of a chunk is a local variable (0.26)",
}
FINDINGS = ("vpatch bump mine", "vpatch apply --recipe mine")
SCHEDULER = "vllm/v1/core/sched/scheduler.py"
ANCHOR = "            end = end // block_size * block_size\n"


def write_project(folder):
    for patch in PATCHES:
        copy = folder / "patches" / patch
        shutil.copytree(ROOT / "patches" / patch, copy)
        if patch in TAKEN:
            take_away(copy, TAKEN[patch])
    (folder / "recipes").mkdir()
    listed = "".join(f"  - {patch}\n" for patch in PATCHES)
    (folder / "recipes" / "mine.yaml").write_text(f"vllm: 0.25.1\npatches:\n{listed}")
    (folder / ".gitignore").write_text(".vpatch/\n")
    own_repository(folder)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=Ten patches on 0.25.1")


def run(command, folder):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command.split(),
        cwd=folder,
        env={**os.environ, "PATH": path, "COLUMNS": "120"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def refuse_what_is_not_so(shown, output):
    """Each line that is shown is printed, in this order; `...` stands for any."""
    lines = iter(output.splitlines())
    for line in shown.splitlines():
        assert line == "..." or line in lines, f"{line!r} is not in\n{output}"


@pytest.mark.slow
def test_a_recipe_is_carried_over_conflicts_by_its_page(tmp_path):
    text = page("how-to/bump-conflicts.md")
    write_project(tmp_path)
    (solution,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (mark,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    consoles = "".join(re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    findings = list(FINDINGS)
    for command, shown in re.findall(r"^\$ (.*)\n((?:[^$].*\n)*)", consoles, re.MULTILINE):
        if command.startswith("vpatch refresh mamba"):
            checkout = tmp_path / ".vpatch" / "edit-mamba-align-chunks-with-drafts"
            upstream = git(checkout, "show", f"HEAD:{SCHEDULER}")
            (checkout / SCHEDULER).write_text(upstream.replace(ANCHOR, ANCHOR + solution, 1))
        expected = 1 if findings and command.startswith(findings[0]) else 0
        del findings[:expected]
        code, output = run(command, tmp_path)
        assert code == expected, f"{command}\n{output}"
        refuse_what_is_not_so(shown, output.replace(f"{tmp_path}/", ""))
        if command.startswith("git switch"):
            assert (tmp_path / "recipes" / "mine.yaml").read_text().endswith(mark)
    assert findings == []
    assert "unsettled" not in (tmp_path / "recipes" / "mine.yaml").read_text()
    assert git(tmp_path, "status", "--porcelain") == ""
