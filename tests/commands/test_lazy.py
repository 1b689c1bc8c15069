"""`vpatch --help` shows every command and imports none of them."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vpatch import commands
from vpatch import main as cli
from vpatch.registry import COMMANDS

# Answers as if click were the only package beside vpatch, and lists what was imported.
ALONE = """
import json, sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        top = name.partition(".")[0]
        if top not in {"click", "vpatch"} | sys.stdlib_module_names:
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, Missing())
from vpatch.main import main

sys.argv = ["vpatch", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print(json.dumps([end.code, sorted(sys.modules)]), file=sys.stderr)
"""


def alone(*args, **env):
    command = [sys.executable, "-c", ALONE, *args]
    run = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | env)
    code, modules = json.loads(run.stderr)
    assert code == 0
    return run.stdout, [name for name in modules if name.startswith("vpatch.")]


@pytest.mark.parametrize("args", [["--help"], ["-h"]], ids=" ".join)
def test_help_needs_click_alone_and_imports_no_command(args):
    shown, modules = alone(*args)
    for name in COMMANDS:
        assert re.search(rf"^  .* {name} ", shown, re.MULTILINE)
    assert {name for name in modules if not name.startswith("vpatch.console")} == {
        "vpatch.errors",
        "vpatch.main",
        "vpatch.registry",
        "vpatch.util",
        "vpatch.util.garbage",
        "vpatch.util.log_output",
        "vpatch.util.losable_stream",
        "vpatch.util.os_errors",
        "vpatch.util.own_environment",
        "vpatch.util.recursion",
        "vpatch.util.visible",
    }


def test_completion_needs_click_alone():
    words = {
        "_VPATCH_COMPLETE": "bash_complete",
        "COMP_WORDS": "vpatch upstream",
        "COMP_CWORD": "1",
    }
    shown, modules = alone(**words)
    assert shown.split() == ["plain,upstream-status", "plain,upstream-pr"]
    assert [name for name in modules if name.startswith("vpatch.commands")] == []


def test_the_list_of_commands_says_what_each_command_says():
    said = {name: cli.cli.get_command(None, name).get_short_help_str(1000) for name in COMMANDS}
    assert said == {name: command.help for name, command in COMMANDS.items()}


def test_every_command_is_listed():
    folder = Path(commands.__file__).parent
    files = {path.relative_to(folder) for path in folder.rglob("*command.py")}
    # `bench compare` is a part of `bench`.
    files -= {Path("bench/compare_command.py")}
    assert {Path(*one.module.split(".")).with_suffix(".py") for one in COMMANDS.values()} == files
