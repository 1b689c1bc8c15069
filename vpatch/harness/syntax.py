"""Syntax errors in the files of a tree of one's own, found before an engine starts with them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from vpatch.engine import PAYLOAD
from vpatch.engine.process import run
from vpatch.errors import UsageError, VpatchError, combine
from vpatch.util.scratch import scratch_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from vpatch.planning.state import Change

_SECONDS = 300.0


def refuse_syntax_errors(python: Path, trees: Iterable[Mapping[str, Change]]) -> None:
    """Let an engine's Python compile what trees change in its packages.

    Raises:
        UsageError: a file has a syntax error; the error names all of them.
        VpatchError: the Python does not run.
    """
    with scratch_folder() as workdir:
        files = workdir / "files"
        files.mkdir()
        for changes in trees:
            for path, change in changes.items():
                written = files / path
                written.parent.mkdir(parents=True, exist_ok=True)
                written.write_bytes(change.after)
        command = [python, PAYLOAD / "syntax.py", files]
        ended = run(command, cwd=workdir, log=workdir / "log", timeout=_SECONDS)
        match = re.search(r"^vpatch:(.*)$", ended.log.read_text("utf-8", "replace"), re.MULTILINE)
        if match is None:
            raise VpatchError(
                f"the files of the tree cannot be compiled:\n{ended.ending}",
                where=str(python),
                hint="check that this Python works",
                code="harness.python-failed",
            )
    errors = [
        UsageError(
            f"syntax error: {message}",
            where=path if line is None else f"{path}:{line}",
            hint="correct this file of your tree",
            code="harness.syntax-error",
        )
        for path, line, message in json.loads(match[1])
    ]
    if errors:
        raise combine(errors)
