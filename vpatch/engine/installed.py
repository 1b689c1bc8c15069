"""The vLLM that a Python has, found without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.engine.asking import python_named
from vpatch.engine.distributions import distributions_of_vllm
from vpatch.engine.hidden import refuse_hidden
from vpatch.engine.import_path import ask_import_path
from vpatch.errors import UsageError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from pathlib import Path

    from vpatch.engine.import_path import ImportPath


@dataclass(frozen=True)
class InstalledPackage:
    """`folder` is that of the package `vllm`; `version` what its metadata says: 0.23.0+cpu.

    `distributions` are the names and versions under which it is installed.
    """

    folder: Path
    version: str
    distributions: tuple[tuple[str, str], ...]

    @property
    def release(self) -> str:
        """The release whose code it has, such as 0.23.0."""
        return Version(self.version).public


def find_installed(typed: str) -> InstalledPackage:
    """Find the vLLM of a Python: a path, or a name on PATH. Nothing of vLLM runs.

    Raises:
        UsageError: it is not a Python, or has no vLLM.
        HiddenCodeError: Python would import other code than the sources that lie there.
    """
    # Isolated: neither the current folder nor PYTHONPATH says where vLLM is.
    asked = ask_import_path(python_named(typed), typed)
    distributions = _names_and_versions(asked)
    if asked.package is None or not distributions:
        raise UsageError(
            "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another",
            code="engine.no-vllm",
        )
    refuse_hidden(asked, asked.package)
    return InstalledPackage(asked.package, distributions[0][1], distributions)


def _names_and_versions(asked: ImportPath) -> tuple[tuple[str, str], ...]:
    """Return what the package is installed as; the name vllm comes first: vLLM asks for that."""
    versions: dict[str, str] = {}
    for one in distributions_of_vllm(asked.path):
        version = read_version(one.version)
        if one.has_package and version is not None:
            versions.setdefault(one.normal_name, str(version))
    return tuple(sorted(versions.items(), key=lambda pair: (pair[0] != "vllm", pair)))
