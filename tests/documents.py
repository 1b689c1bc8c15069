"""README.md and the pages in docs/, and what they show."""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text(encoding="utf-8")
_STEP = re.compile(
    r"^`([\w./-]+)`\n\n```\w+\n(.*?)^```|^```console\n(.*?)^```", re.MULTILINE | re.DOTALL
)
_COMMAND = re.compile(r"^\$ (.*)\n((?:[^$].*\n|\n)*)", re.MULTILINE)


def page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def script(name):
    """A script in docs/, as a module."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages():
    """Each document by its path from the root."""
    files = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
    return {f.relative_to(ROOT).as_posix(): f.read_text(encoding="utf-8") for f in files}


def shown(name):
    """The output that README or a page shows under this name."""
    marked = rf"<!-- shown: {re.escape(name)} -->\n```text\n(.*?)^```"
    found = [
        m[1]
        for text in pages().values()
        for m in re.finditer(marked, text, re.MULTILINE | re.DOTALL)
    ]
    assert len(found) == 1, (name, len(found))
    return found[0]


def run(command, folder, codes=(0,)):
    """Run a command of a reader, with this vpatch on the PATH."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode in codes, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def followed(text, folder):
    """Do what a page says, in its order: write the files, run the commands, compare what is shown.

    Returns how many files were written, and how many commands were run.
    """
    files = commands = 0
    for path, content, console in _STEP.findall(text):
        if path:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(content, encoding="utf-8")
            files += 1
        for command, output in _COMMAND.findall(console):
            assert run(command, folder).rstrip() == output.rstrip(), command
            commands += 1
    return files, commands
