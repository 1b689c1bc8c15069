"""Asking a Python about the vLLM that it has."""

from __future__ import annotations

import re
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vpatch.engine.process import run
from vpatch.errors import UsageError
from vpatch.util.scratch import scratch_folder
from vpatch.util.untrusted import parse_json

if TYPE_CHECKING:
    from collections.abc import Sequence

MARK = "vpatch:"


def new_mark() -> str:
    """Return what begins an answer of a Python, and nothing else that it prints."""
    return f"vpatch-{secrets.token_hex(16)}:"


def no_python(what: str, where: str | None = None) -> UsageError:
    """Return what to raise where somebody named something else than a Python."""
    return UsageError(
        what,
        where=where,
        hint="give the path of a Python in which vLLM is installed",
        code="engine.no-python",
    )


def python_named(typed: str) -> Path:
    """Find a Python: a path, or a name on PATH.

    Raises:
        UsageError: there is no such program.
    """
    program = shutil.which(typed)
    if program is None:
        raise no_python(f"{typed} is not a Python")
    return Path(program).absolute()


@dataclass(frozen=True)
class Said:
    """What a Python printed, and its last lines for people."""

    text: str
    ending: str


def ask(python: Path, words: Sequence[str], timeout: float, typed: str) -> Said:
    """Run a Python with some arguments in an empty folder.

    Args:
        python: the path of the Python.
        words: its arguments.
        timeout: in seconds.
        typed: the Python as the user named it.

    Raises:
        UsageError: it is not a Python.
    """
    with scratch_folder() as workdir:
        try:
            ended = run([python, *words], cwd=workdir, log=workdir / "log", timeout=timeout)
        except OSError as error:
            raise no_python(f"it is not a Python: {error}", typed) from error
        return Said(ended.log.read_text(encoding="utf-8", errors="replace"), ended.ending)


def answer_in(text: str, mark: str = MARK) -> Any:
    """Return the JSON behind a mark, between whatever else was printed; None without any.

    Raises:
        ValueError: it is not JSON.
    """
    line = re.search(rf"^{re.escape(mark)}(.*)$", text, re.MULTILINE)
    return parse_json(line[1]) if line else None
