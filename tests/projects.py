"""A small vLLM, small patches for it, and what a folder holds."""

from __future__ import annotations

import os
import subprocess
import textwrap
from contextlib import contextmanager
from pathlib import Path

from tests.index_server import sdist
from vpatch.library.loading import load_patch
from vpatch.planning.plan import plan
from vpatch.progress import Silent
from vpatch.source.cache import Cache
from vpatch.source.pip_settings import PipSettings
from vpatch.source.resolve import open_tree
from vpatch.source.spec import FolderSpec
from vpatch.trust.decision import EVERYTHING

VERSION = "0.50.0"
LLAMA = "vllm/models/llama.py"
ENGINE = "vllm/engine.py"
FILES = {
    ".gitignore": b"/build/\n*.so\n__pycache__/\n",
    "PKG-INFO": b"Metadata-Version: 2.1\nName: vllm\nVersion: 0.50.0\n",
    "vllm/__init__.py": b"",
    LLAMA: b"""class Llama:
    def __init__(self, prefix):
        self.proj = Linear(4, 4)  # narrow
        self.head = Linear(4, 8)
""",
    ENGINE: b"""def start(config):
    return launch(config, mode="fast")
""",
    "tools/run.sh": b"#!/bin/sh\r\n",
}
# What a second release has more: bytes that do not compress.
LARGE = {f"vllm/large{number}.py": os.urandom(6000).hex().encode() for number in range(8)}
NAME_PROJ = """
- find: self.proj = Linear(...)
  add-keyword: {prefix: 'f"{prefix}.proj"'}
"""
NAMED = b'        self.proj = Linear(4, 4, prefix=f"{prefix}.proj")  # narrow\n'
SLOW_MODE = """
- find: launch($config, mode="fast")
  rewrite: launch($config, mode="slow")
"""
# Fits no line of the small vLLM.
NO_SUCH = """
- find: self.tail = Linear(...)
  add-keyword: {prefix: '"tail"'}
"""


def write_patch(patches, patch_id, edits, *, concerns="text: class Llama", more=""):
    folder = patches / patch_id
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "patch.yaml").write_text(
        f"""id: {patch_id}
title: "[Bugfix] {patch_id}"
why: Without it, the small model fails.
symptoms: [it fails]
needed-in: {{vllm: ">=0.50"}}
concerns: {{{concerns}}}
edits:
{textwrap.indent(edits.strip(), "  ")}
remove-when: never
{more}"""
    )
    return folder


def write_tree(folder, files=FILES):
    for path, data in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
        (folder / path).chmod(0o755 if path.endswith(".sh") else 0o644)
    return folder


def archive(version=VERSION, files=None):
    return sdist(version, FILES | (files or {}))


@contextmanager
def opened(base, files=FILES):
    """The small vLLM out of a cache below `base`."""
    source = write_tree(base / "source", files)
    with open_tree(
        FolderSpec("vllm", str(source)),
        cache=Cache(base / "cache"),
        settings=PipSettings(),
        offline=True,
        progress=Silent(),
    ) as tree:
        yield tree


def folder_plan(folder, patches, base, name="vllm"):
    """A plan for a tree that lies in a folder."""
    with open_tree(
        FolderSpec(name, str(folder)),
        cache=Cache(base / "cache"),
        settings=PipSettings(),
        offline=True,
        progress=Silent(),
    ) as tree:
        return plan(patches, tree)


def plan_of(tree, *folders):
    return plan([load_patch(folder, EVERYTHING) for folder in folders], tree)


def snapshot(folder):
    """Every file, link and folder below `folder`: its mode, and what it holds."""
    found = {}
    for parent, folders, names in os.walk(folder):
        for name in folders + names:
            path = Path(parent) / name
            if path.is_symlink():
                content = str(path.readlink())
            else:
                content = path.read_bytes() if path.is_file() else None
            found[str(path.relative_to(folder))] = (path.lstat().st_mode, content)
    return found


def names_in(folder):
    """What is in a folder, and in the rooms of vpatch there, but their lock and ignore files."""
    rooms = [path for path in folder.iterdir() if path.suffix == ".vpatch" and path.is_dir()]
    left = [f"{workdir.name}/{path.name}" for workdir in rooms for path in workdir.iterdir()]
    names = [path.name for path in folder.iterdir() if path not in rooms]
    names = [name for name in names if name != ".gitignore"]
    return sorted(names + [name for name in left if not name.endswith(("/lock", "/.gitignore"))])


def git(repo, *args):
    who = ["-c", "user.name=U", "-c", "user.email=u@example"]
    command = ["git", "-C", str(repo), *who, *args]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def commit(project):
    """Commit all that a project has."""
    git(project.folder, "add", "--all")
    git(project.folder, "commit", "--quiet", "--message=x")


def own_repository(folder):
    """Make a git repository of a user's folder: vpatch may commit there."""
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.name", "Somebody")
    git(folder, "config", "user.email", "s@example")
