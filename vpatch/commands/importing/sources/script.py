"""A script that edits files: it runs on a copy of the release, and its effect is the change."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.importing.sources.script_effect import effect_on_copy, limit_broken
from vpatch.commands.importing.sources.source import read_source
from vpatch.confinement.sandbox import LARGEST_WRITTEN, NOBODY, run_sandboxed
from vpatch.confinement.script_python import script_python, write_stub
from vpatch.confinement.view import OWN_PLACE
from vpatch.errors import BadValueError, UsageError
from vpatch.util.plural import counted
from vpatch.util.scratch import scratch_folder
from vpatch.util.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.changes.change import SourceChange
    from vpatch.changes.stack import Stack
    from vpatch.confinement.sandbox import Finished
    from vpatch.confinement.script_python import ScriptPython

# Where a script sees the release, if nobody says otherwise.
DEFAULT_PLACE = Path("/vpatch/vllm")
# The last lines of what a script printed, for an error and for a result.
_SHOWN = 10
_PRINTED = 40
_LONGEST_LINE = 300
_BEYOND = 128


def from_script(script: Path, stack: Stack, seen_at: Path) -> list[SourceChange]:
    """Run a script on a copy of a release, and read what it changed.

    The script runs in the copy's root without arguments. It can change nothing else, and reaches
    nobody.

    Args:
        script: a file of Python (`.py`), a program, or a script for `sh`.
        stack: the release as the changes read so far leave it.
        seen_at: the absolute path at which the script looks for the root, such as a site-packages.

    Raises:
        UsageError: the script cannot be read, fails, breaks a limit, changes nothing or too much,
            or takes files away.
        UnavailableError: there is no sandbox.
    """
    if not seen_at.is_absolute() or len(seen_at.parts) < 2:  # noqa: PLR2004
        raise BadValueError(
            f"{seen_at} is no absolute path of a folder",
            hint="give --sandbox-path the folder in which the script looks for vllm/, such as "
            "/usr/local/lib/python3.12/dist-packages",
        )
    content = read_source(script, hint="name a file that has the script")
    python = script_python(_python_named(content) or "python3")
    with _scratch() as scratch:
        root = scratch / "copy"
        for path in stack.tree.paths():
            place = root / path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(stack.read(path) or b"")
        if (root / "vllm" / "__init__.py").is_file():
            write_stub(python, root, seen_at, stack.tree.pin.version or "0")
        command = _command(script, content, python, scratch / "own")
        _hand_over(scratch)
        finished = run_sandboxed(command, python, scratch, seen_at)
        lines = _lines(finished.output)
        _refuse_failed(finished, script, lines)
        change = effect_on_copy(root, stack, script, _last(lines))
    return [stack.push(replace(change, printed=_printed_lines(lines)))]


def _python_named(content: bytes) -> str | None:
    """The Python that the first line of a script names."""
    if not content.startswith(b"#!"):
        return None
    words = content.partition(b"\n")[0][2:].decode(errors="replace").split()
    names = [word for word in words if Path(word).name.startswith("python")]
    return names[0] if names else None


@contextmanager
def _scratch() -> Iterator[Path]:
    """Make the folders of a run, and remove whatever the script leaves in them."""
    with scratch_folder() as scratch:
        try:
            for name in ("copy", "own", "tmp/home", "shm"):
                (scratch / name).mkdir(parents=True)
            yield scratch
        finally:
            # Folders may be closed, or nested deeper than Python follows. Neither follows a link.
            for words in (["chmod", "-R", "u+rwX", "--"], ["rm", "-rf", "--"]):
                subprocess.run([*words, str(scratch)], check=False, capture_output=True)


def _command(script: Path, content: bytes, python: ScriptPython, own: Path) -> list[str]:
    """Put the script where the sandbox shows it, and return the command that runs it."""
    place = own / "script" / script.name
    place.parent.mkdir()
    place.write_bytes(content)
    shown = f"{OWN_PLACE}/script/{script.name}"
    if os.access(script, os.X_OK) and content.startswith((b"#!", b"\x7fELF")):
        return [shown]
    return [python.program if script.suffix == ".py" else shutil.which("sh") or "sh", shown]


def _hand_over(scratch: Path) -> None:
    """Let the user of the script read what is its own, and write the copy."""
    for path in (scratch / "own", *(scratch / "own").rglob("*")):
        path.chmod(0o755)
    if os.geteuid() == 0:
        for name in ("copy", "tmp", "shm"):
            for path in (scratch / name, *(scratch / name).rglob("*")):
                os.chown(path, NOBODY, NOBODY)


def _refuse_failed(finished: Finished, script: Path, lines: list[str]) -> None:
    if finished.broke is not None:
        raise limit_broken(finished.broke, script, _last(lines))
    if not finished.code and finished.not_started is None:
        return
    how = f"the script ended with {finished.code}"
    if finished.not_started is not None:
        how = f"the script cannot be started: {finished.not_started}"
    elif (number := finished.code - _BEYOND) in signal.valid_signals():
        how = f"the script was ended by a signal: {signal.strsignal(number) or number}"
        if number == signal.SIGXFSZ:
            how += f" ({LARGEST_WRITTEN} bytes)"
    raise UsageError(
        f"{how}{_last(lines)}",
        where=str(script),
        hint="it sees only the system's programs, its Python, itself and the release, and has no "
        "network; give --sandbox-path if it looks for vllm/ elsewhere, or run it yourself on a "
        "copy of the release, and give the copy to --from-tree",
        code="importing.script-failed",
    )


def _lines(output: str) -> list[str]:
    """The lines of an output that have something in them, safe to show."""
    shown = (visible(line.rstrip())[:_LONGEST_LINE] for line in output.split("\n"))
    return [line for line in shown if line.strip()]


def _last(lines: list[str]) -> str:
    return "".join(f"\n  {line}" for line in lines[-_SHOWN:])


def _printed_lines(lines: list[str]) -> tuple[str, ...]:
    above = len(lines) - _PRINTED
    first = [f"({counted(above, 'line')} more above)"] if above > 0 else []
    return (*first, *lines[-_PRINTED:])
