"""The vLLM that a Python has, found without importing it, and what may be a base for patches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.engine.asking import python_named
from vpatch.engine.distributions import distributions_of_vllm
from vpatch.engine.hidden import refuse_hidden
from vpatch.engine.import_path import ask_import_path
from vpatch.errors import UsageError
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vpatch.engine.distributions import Distribution
    from vpatch.engine.import_path import ImportPath

PACKAGE = "vllm"
_SHOWN = 60


@dataclass(frozen=True)
class InstalledPackage:
    """The vLLM of a Python, which the user named `python`; `package` is its folder.

    `distributions` are what it is installed as: the first one counts. `asked` is how the Python
    finds it.
    """

    python: str
    package: Path
    distributions: tuple[Distribution, ...]
    asked: ImportPath = field(repr=False)

    @property
    def info(self) -> Path:
        """The folder of its metadata."""
        return self.distributions[0].info

    @property
    def site(self) -> Path:
        """The folder of packages."""
        return self.distributions[0].site

    @property
    def distribution(self) -> str:
        """Its name in the package index, as it calls itself."""
        return self.distributions[0].name

    @property
    def version(self) -> str:
        """What its metadata says: 0.23.0+cpu."""
        return str(Version(self.distributions[0].version))

    @property
    def release(self) -> str:
        """The release whose code it has, such as 0.23.0."""
        return Version(self.version).public

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} in {self.site}"


def find_installed(typed: str) -> InstalledPackage:
    """Find the vLLM of a Python: a path, or a name on PATH. Nothing of vLLM runs.

    Raises:
        UsageError: it is not a Python, or has no vLLM.
        HiddenCodeError: Python would import other code than the sources that lie there.
    """
    # Isolated: neither the current folder nor PYTHONPATH says where vLLM is.
    asked = ask_import_path(python_named(typed), typed)
    named: dict[str, Distribution] = {}
    for one in distributions_of_vllm(asked.path):
        if one.has_package and read_version(one.version) is not None:
            named.setdefault(one.normal_name, one)
    if asked.package is None or not named:
        raise UsageError(
            "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another",
            code="engine.no-vllm",
        )
    refuse_hidden(asked, asked.package)
    # The name vllm comes first: vLLM asks for that.
    names = sorted(named, key=lambda name: (name != PACKAGE, name))
    return InstalledPackage(typed, asked.package, tuple(named[name] for name in names), asked)


def base_of(python: Path, environment: Mapping[str, str]) -> InstalledPackage:
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
    return InstalledPackage(str(python), package, (one,), asked)


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
