"""How a Python finds vLLM, asked of it without running anything of vLLM."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Timer
from typing import TYPE_CHECKING, Any

from vpatch.engine import PAYLOAD
from vpatch.engine.asking import new_mark, no_python
from vpatch.util.untrusted import MEGABYTE, parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_SCRIPT = PAYLOAD / "which_vllm.py"
_TIMEOUT = 120.0
_LARGEST = 32 * MEGABYTE
_LAST = 5
_ANSWERS = 2


@dataclass(frozen=True)
class ImportPath:
    """Where a Python finds vLLM.

    Attributes:
        executable: the Python as it calls itself.
        path: the folders in which it looks for packages.
        package: the folder of the `vllm` that it imports; None if it finds none. That of an archive
            is a path inside of it.
        is_package: whether this is a package with an `__init__`, and not just a folder.
        origin: the file that an import runs first; None where there is none.
        suffixes: what the names of extension modules end with.
        pycache: the folder in which it keeps bytecode; None for that beside the sources.
        starting: the files whose code runs at each start, before anything is imported.
        importers: what of this code takes part in imports of vLLM, in sentences without a subject.
    """

    executable: Path
    path: tuple[str, ...]
    package: Path | None
    is_package: bool
    origin: str | None
    suffixes: tuple[str, ...]
    pycache: str | None
    starting: tuple[str, ...]
    importers: tuple[str, ...]


def ask_import_path(
    python: Path,
    typed: str,
    environment: Mapping[str, str] | None = None,
    *,
    isolated: bool = True,
) -> ImportPath:
    """Ask a Python where it finds vLLM.

    The first answer comes before any code of the environment runs, so that what this code prints
    or changes has no part in it. Its lines begin with a random mark.

    Args:
        python: the path of the Python.
        typed: the Python as the user named it.
        environment: the environment variables; by default those of this process.
        isolated: whether PYTHONPATH and the user's own folder of packages are left out.

    Raises:
        UsageError: it is not a Python that works.
    """
    mark = new_mark()
    variables = dict(os.environ if environment is None else environment) | {"VPATCH_MARK": mark}
    variables["VPATCH_SEES"] = "isolated" if isolated else "all"
    try:
        # -B: what the environment's own code imports is not to be compiled there.
        output = _output_of([python, "-ISB", _SCRIPT], variables)
    except OSError as error:
        raise no_python(f"it is not a Python that works: {error}", typed) from error
    answers = [line[len(mark) :] for line in output.splitlines() if line.startswith(mark)]
    last_lines = [line for line in output.splitlines() if not line.startswith(mark)][-_LAST:]
    try:
        if len(answers) == _ANSWERS:
            return _import_path(parse_json(answers[0]), parse_json(answers[1]))
        if len(answers) == 1:
            starting = ", ".join(map(str, parse_json(answers[0])["starting"]))
            last_lines.append(f"what it runs at each start ends it: {starting}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        last_lines = [f"its answer is not one: {error}"]
    text = "\n".join(last_lines)
    raise no_python(f"it is not a Python that works:\n{text}".rstrip(":\n"), typed)


def _output_of(command: Sequence[str | Path], variables: Mapping[str, str]) -> str:
    """Run a Python, and return what it prints, up to a limit of size and of time.

    Raises:
        OSError: it cannot be started.
    """
    with subprocess.Popen(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        # What it starts ends with it: else nobody closes the pipe.
        start_new_session=True,
    ) as process:
        timer = Timer(_TIMEOUT, _kill, [process.pid])
        timer.start()
        try:
            return process.stdout.read(_LARGEST).decode(errors="replace") if process.stdout else ""
        finally:
            timer.cancel()
            # Its own end may still be to come; no output is read any more.
            _kill(process.pid)


def _kill(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _import_path(plain: dict[str, Any], live: dict[str, Any]) -> ImportPath:
    """Read the two answers of the script: without, and with what runs at each start."""
    # Code at the start can also hide vLLM from a question, and not from an import.
    seen = live if live["places"] or live["origin"] is not None else plain
    places = [str(one) for one in seen["places"]]
    # A namespace has no file that runs; a single file has no places.
    origin = None if seen["origin"] is None else str(seen["origin"])
    importers = [
        f"{name} is imported when Python starts, before anybody asks for it"
        for name in map(str, live["loaded"])
    ]
    importers += [
        f"{one if one.isprintable() else json.dumps(one)} has a part in the import of "
        f"{int(count)} modules"
        for one, count in live["importers"].items()
    ]
    if live["places"] != plain["places"] or live["origin"] != plain["origin"]:
        there = live["origin"] or (live["places"] or ["elsewhere"])[0]
        importers.append(f"code that runs when Python starts makes it take vllm from {there}")
    return ImportPath(
        Path(str(plain["executable"])),
        tuple(str(one) for one in plain["path"]),
        Path(os.path.abspath(places[0])) if places else None,  # noqa: PTH100 - links stay
        bool(places) and origin is not None,
        origin,
        tuple(str(one) for one in plain["suffixes"]),
        None if plain["pycache"] is None else str(plain["pycache"]),
        tuple(str(one) for one in plain["starting"]),
        tuple(importers),
    )
