"""Write a tiny model into an empty folder."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from vpatch.engine.asking import no_python, python_named
from vpatch.errors import UnavailableError, UsageError
from vpatch.harness.models import writer_of
from vpatch.util import child_environment
from vpatch.util.scratch import clear_parts, staging_folder
from vpatch.util.uninterrupted import uninterrupted

_NO_PACKAGE = "ModuleNotFoundError"
_CONFIG = "config.json"


def write_model(folder: Path, kind: str, python: str | None) -> list[Path]:
    """Write the files of a model, and return their paths, sorted by name.

    `python` names the one that writes them; without one, it is that of vpatch.

    Raises:
        UsageError: the folder is not empty, or the Python does not start or lacks a package.
        UnavailableError: the files cannot be written.
    """
    program = Path(sys.executable) if python is None else python_named(python)
    if folder.exists() and _has_entries(folder):
        raise UsageError(
            "the folder is not empty" if folder.is_dir() else "this is a file, and not a folder",
            where=str(folder),
            hint="name a new folder, or an empty one",
            code="harness.folder-not-empty",
        )
    is_new = not folder.exists()
    try:
        # A folder that is there may be a mount, or where a shell is, so it stays.
        with staging_folder(folder, "model") as staging:
            _run(program, kind, staging)
            names = sorted(path.name for path in staging.iterdir())
            with uninterrupted():
                # vLLM takes no folder without a config for a model.
                for name in sorted(names, key=_CONFIG.__eq__):
                    (staging / name).rename(folder / name)
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.rmdir()
        raise
    return [folder / name for name in names]


def _has_entries(folder: Path) -> bool:
    if not folder.is_dir():
        return True
    clear_parts(folder)
    return any(folder.iterdir())


def _run(python: Path, kind: str, folder: Path) -> None:
    try:
        ended = subprocess.run(
            [python, "-B", writer_of(kind), folder, kind],
            env=child_environment.environment(engine=True),
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        raise no_python(f"it is not a Python: {error}", str(python)) from error
    if ended.returncode == 0:
        return
    last = (ended.stderr.splitlines() or [f"it ended with {ended.returncode}"])[-1]
    if last.startswith(_NO_PACKAGE):
        raise UsageError(
            f"the kind {kind} needs torch and safetensors: {last.partition(': ')[2]}",
            where=str(python),
            hint="give --python PYTHON, the Python of a vLLM; "
            "`vpatch engine --vllm 0.23` makes one, with the extra `engine`",
            code="harness.missing-package",
        )
    raise UnavailableError(
        f"the model cannot be written: {last}",
        where=str(folder.parent),
        hint="free space there, or name another folder, or a Python of a vLLM",
        code="harness.model-not-made",
    )
