"""The hooks that this repository offers to pre-commit."""

from __future__ import annotations

import subprocess
import sys

from ruamel.yaml import YAML

from tests.documents import ROOT
from vpatch import main as cli

HOOKS = ROOT / ".pre-commit-hooks.yaml"


def test_pre_commit_accepts_the_hooks():
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS)]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_each_hook_runs_a_command_with_options_that_it_has():
    for hook in YAML(typ="safe").load(HOOKS):
        program, name, *options = hook["entry"].split()
        assert (program, hook["id"]) == ("vpatch", f"vpatch-{name}")
        known = {option for one in cli._command(name).params for option in one.opts}
        assert {option for option in options if option.startswith("--")} <= known
