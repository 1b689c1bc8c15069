"""Environments with a real vLLM in them: made from the package index, or somebody's own."""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vpatch.engine.asking import MARK, answer_in, ask, new_mark
from vpatch.engine.kinds import KINDS
from vpatch.engine.making import EngineError, fill, install_aside
from vpatch.engine.removal import removing
from vpatch.errors import UsageError, VpatchError
from vpatch.util.disk_size import disk_size
from vpatch.util.filelock import note_of_wait, try_lock, wait_for_lock, wait_to_make
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vpatch.engine.kinds import Kind
    from vpatch.progress import Progress

# Written last: an environment without it was not finished.
_COMPLETE = "vpatch-engine.json"
# payload/install_cpu.py writes the name and the digest of the wheel of vLLM.
_WHEEL = "vpatch-wheel.json"
_PROBE_TIMEOUT = 300.0
PROBE = """
import importlib.util, json
spec = importlib.util.find_spec("vllm")
found = {"package": spec.submodule_search_locations[0] if spec else None, "kind": None}
found["pytest"] = importlib.util.find_spec("pytest") is not None
if spec:
    from vllm.platforms import current_platform
    found["kind"] = ("cpu" if current_platform.is_cpu() else
                     "cuda" if current_platform.is_cuda() else current_platform.device_name)
print("\\nvpatch:" + json.dumps(found))
"""


@dataclass(frozen=True)
class Engine:
    """A Python with a vLLM. `version` is that of the release; `package` the folder of `vllm`.

    `kind` is cpu, cuda, or what a plugin's platform calls its device. `is_managed` says that
    vpatch made it from the package index; `fresh`, that it did so just now.
    """

    python: Path
    package: Path
    kind: str
    version: str
    has_pytest: bool = True
    is_managed: bool = field(default=False, compare=False)
    fresh: bool = field(default=False, compare=False)

    @property
    def folder(self) -> Path:
        """The environment's own folder."""
        return self.python.parent.parent

    def __str__(self) -> str:
        return f"vLLM {self.version} ({self.kind})"


@contextmanager
def managed_engine(
    kind: Kind, version: str, cache: Path, progress: Progress, *, offline: bool = False
) -> Iterator[Engine]:
    """Open the environment for an exact release, made where it is missing; nobody removes it then.

    Raises:
        EngineError: it cannot be made on this machine, or without the network.
        VpatchError: the package index has no such build, or the environment is damaged.
    """
    folder = _folder(cache, kind, version)
    lock_file = cache / "locks" / folder.name
    tell = note_of_wait(folder.name, progress, "makes")
    fresh = False
    while True:
        with wait_for_lock(lock_file, exclusive=False, on_wait=tell):
            if (folder / _COMPLETE).exists():
                yield replace(_locate(folder / "bin" / "python", kind), fresh=fresh)
                return
        if offline:
            raise EngineError(
                f"the cache has no {kind} engine with vLLM {version}",
                where=str(folder),
                hint=f"make it once: vpatch engine --engine {kind} --vllm {version}",
                code="engine.not-in-cache",
            )
        lock = wait_to_make(lock_file, on_wait=tell, exists=(folder / _COMPLETE).exists)
        if lock is not None:
            with lock:
                if not (folder / _COMPLETE).exists():
                    _make(kind, version, folder, progress)
                    fresh = True


@contextmanager
def open_engine(
    typed: str,
    version: str,
    cache: Path,
    progress: Progress,
    *,
    look: Callable[[str], Engine],
    offline: bool = False,
) -> Iterator[Engine]:
    """Open `cpu`, `cuda` or a Python, with an exact release; `look` looks at that of a Python.

    Raises:
        UsageError: the Python has another release, or has no vLLM.
        VpatchError: as `managed_engine`.
    """
    kind = KINDS.get(typed)
    if kind is not None:
        with managed_engine(kind, version, cache, progress, offline=offline) as managed:
            yield managed
        return
    own = look(typed)
    if own.version != version:
        raise UsageError(
            f"it has vLLM {own.version}, not {version}",
            where=typed,
            hint=f"give --vllm {own.version}, or another Python",
            code="engine.wrong-version",
        )
    yield own


def has_engine(kind: Kind, version: str, cache: Path) -> bool:
    """Whether the environment for an exact release is there, and finished."""
    return (_folder(cache, kind, version) / _COMPLETE).exists()


def existing_engine(typed: str) -> Engine:
    """Look at somebody's own environment, by its Python: a path, or a name on PATH.

    Raises:
        UsageError: it is not a Python, or it has no vLLM, or its vLLM does not start.
    """
    program = shutil.which(typed)
    if program is None:
        raise UsageError(
            f"{typed} is neither cpu, cuda nor a Python",
            hint="give --engine cpu, cuda, or the path of a Python in which vLLM is installed",
            code="engine.no-python",
        )
    python = Path(program).absolute()
    # What a .pth file prints is not the answer.
    mark = new_mark()
    output = ask(python, ("-c", PROBE.replace(MARK, mark)), _PROBE_TIMEOUT, typed)
    probe = probed(output.text, mark)
    if probe is None:
        raise UsageError(
            f"its vLLM does not start:\n{output.ending}",
            where=str(python),
            hint="make `import vllm` work in this Python",
            code="engine.vllm-does-not-start",
        )
    if not probe.package:
        raise UsageError(
            "it has no vLLM",
            where=str(python),
            hint="install vLLM in this Python",
            code="engine.no-vllm",
        )
    package = Path(probe.package)
    return Engine(python, package, probe.kind, _version_of(package), probe.pytest)


class EngineProbe(NamedTuple):
    """What PROBE tells: the folder of vllm, what that runs on, and whether pytest is there.

    The first two are empty where there is no vllm.
    """

    package: str
    kind: str
    pytest: bool


def packages_beside(
    engine: Engine, packages: Sequence[str], progress: Progress, *, offline: bool = False
) -> Path | None:
    """Return a folder for PYTHONPATH with packages that an engine of vpatch's lacks.

    The folder lies in the engine and goes with it. An environment of the user's gets None: its user
    decides what is in it.

    Raises:
        EngineError: they are not there, and cannot be installed.
    """
    if not packages or not engine.is_managed:
        return None
    environment = engine.folder
    named = hashlib.sha256("\n".join(sorted(packages)).encode()).hexdigest()[:16]
    target = environment / "beside" / named
    if not target.is_dir():
        if offline:
            raise EngineError(
                f"the engine lacks {' and '.join(packages)}",
                where=str(environment),
                hint="run this once without --offline",
                code="engine.not-in-cache",
            )
        install_aside(environment, packages, target, progress)
    return target


def probed(text: str, mark: str = MARK) -> EngineProbe | None:
    """Return what PROBE found, from what it printed between whatever vLLM prints."""
    try:
        answer = answer_in(text, mark)
        if not answer:
            return None
        package, kind = (str(answer[key] or "") for key in ("package", "kind"))
        return EngineProbe(package, kind, bool(answer["pytest"]))
    except (LookupError, TypeError, ValueError):
        return None  # not PROBE wrote it


def managed_folders(cache: Path) -> list[Path]:
    """The environments in the cache, finished or not."""
    return sorted(
        path for path in (cache / "engines").glob("*") if path.is_dir() and not path.is_symlink()
    )


def remove_engine(folder: Path, progress: Progress) -> int:
    """Remove an environment, unless it is in use; return the bytes freed."""
    lock = try_lock(folder.parent.parent / "locks" / folder.name, exclusive=True)
    if lock is None:
        progress.note(f"{folder.name} is in use by another vpatch process and stays")
        return 0
    with lock:
        size = disk_size(folder)
        with removing(folder):
            (folder / _COMPLETE).unlink(missing_ok=True)
            shutil.rmtree(folder)
    return size


def _folder(cache: Path, kind: Kind, version: str) -> Path:
    python = f"py{sys.version_info.major}.{sys.version_info.minor}"
    return cache / "engines" / f"engine-{kind}-{version}-{python}"


def _make(kind: Kind, version: str, folder: Path, progress: Progress) -> None:
    if kind == "cuda" and not Path("/dev/nvidiactl").exists():
        raise EngineError(
            "a cuda engine needs an NVIDIA GPU, and this machine has none",
            hint="use --engine cpu, or run this on a machine that has a GPU",
            code="engine.no-gpu",
        )
    if folder.exists():
        shutil.rmtree(folder)  # what an interrupted run left
    try:
        fill(kind, version, folder, progress)
        engine = _locate(folder / "bin" / "python", kind)
        if engine.version != version:
            raise VpatchError(
                f"it has vLLM {engine.version}, not {version}",
                where=str(folder),
                hint="check pip's settings for another index, and run the command again",
                code="engine.damaged",
            )
        record = {"kind": kind, "vllm": version}
        wheel = folder / _WHEEL
        if wheel.exists():
            record["wheel"] = json.loads(wheel.read_text(encoding="utf-8"))
            wheel.unlink()
        (folder / _COMPLETE).write_text(json.dumps(record), encoding="utf-8")
    finally:
        if folder.exists() and not (folder / _COMPLETE).exists():
            shutil.rmtree(folder)


def _locate(python: Path, kind: Kind) -> Engine:
    """An environment that vpatch made: where its vLLM lies need not be asked."""
    packages = list(python.parent.parent.glob("lib/python3*/site-packages/vllm"))
    if len(packages) != 1:
        raise VpatchError(
            "it has no vLLM",
            where=str(python),
            hint="run vpatch cache clear, then run the command again",
            code="engine.damaged",
        )
    return Engine(python, packages[0], kind, _version_of(packages[0]), is_managed=True)


def _version_of(package: Path) -> str:
    """The release, without importing it, and without the local part that a platform appends."""
    file = package / "_version.py"
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    match = re.search(r"^__version__ = .*?'([^']+)'", text, re.MULTILINE)
    version = read_version(match[1]) if match else None
    if version is None:
        raise UsageError(
            "it does not say its version",
            where=str(file),
            hint="use a vLLM that was installed from a wheel",
            code="engine.no-version",
        )
    return version.public
