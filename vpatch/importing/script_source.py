"""A script that edits files: it runs on a copy of the release, and its effect is the change."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.importing.sandbox import run_sandboxed
from vpatch.importing.tree_source import compared
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from vpatch.importing.change import SourceChange
    from vpatch.importing.stack import Stack
    from vpatch.source.tree import Tree

# Where a script sees the release, if nobody says otherwise.
DEFAULT_PLACE = Path("/vpatch/vllm")
# The last lines of what a script said.
_SHOWN = 10


def from_script(script: Path, tree: Tree, stack: Stack, seen_at: Path) -> list[SourceChange]:
    """Run a script on a copy of a release, and read what it changed.

    The script runs in the copy's root without arguments. It can change nothing else, and reaches
    no network.

    Args:
        script: a file of Python (`.py`), a program, or a script for `sh`.
        tree: the release.
        stack: the release as the changes read so far leave it.
        seen_at: the absolute path at which the script looks for the root, such as a site-packages.

    Raises:
        UsageError: the script fails, or changes nothing, or takes files away.
        UnavailableError: there is no sandbox.
    """
    if not seen_at.is_absolute() or len(seen_at.parts) < 2:  # noqa: PLR2004
        raise UsageError(
            f"{seen_at} is no absolute path of a folder",
            hint="give --at the folder in which the script looks for vllm/, such as "
            "/usr/local/lib/python3.12/dist-packages",
            code="cli.bad-value",
        )
    with scratch_folder() as name:
        root = Path(name) / "vllm"
        for path in tree.paths():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(stack.read(path) or b"")
        done = run_sandboxed(_command(script.resolve()), root, seen_at)
        if done.returncode:
            raise UsageError(
                f"the script ended with {done.returncode}{_said(done.stdout, done.stderr)}",
                where=str(script),
                hint="it has no network and can write nothing outside of the release; give --at "
                "if it looks for vllm/ elsewhere, or run it yourself and use --from-tree",
                code="importing.script-failed",
            )
        return [compared(root, stack, script.stem, str(script), _said(done.stdout, done.stderr))]


def _command(script: Path) -> list[str]:
    if os.access(script, os.X_OK):
        return [str(script)]
    if script.suffix == ".py":
        return [shutil.which("python3") or "python3", str(script)]
    return [shutil.which("sh") or "sh", str(script)]


def _said(*texts: str) -> str:
    lines = [line for text in texts for line in text.splitlines() if line.strip()]
    return "".join(f"\n  {line}" for line in lines[-_SHOWN:])
