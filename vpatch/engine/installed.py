"""The vLLM that a Python has, found without importing it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from packaging.version import Version

from vpatch.engine.asking import answer_in, ask_script, python_named
from vpatch.errors import UsageError
from vpatch.util.versions import read_version

_SCRIPT = Path(__file__).parent / "payload" / "locate.py"
_TIMEOUT = 120.0


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
    """
    # Isolated: neither the current folder nor PYTHONPATH says where vLLM is.
    said = ask_script(python_named(typed), ("-IB", str(_SCRIPT)), _TIMEOUT, typed)
    package, distributions = _answer(said.text)
    if package is None or not distributions:
        raise UsageError(
            f"it has no vLLM\n{said.ending}".rstrip() if said.code else "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another",
            code="engine.no-vllm",
        )
    return InstalledPackage(Path(package), distributions[0][1], distributions)


def _answer(text: str) -> tuple[str | None, tuple[tuple[str, str], ...]]:
    try:
        found = answer_in(text)
        package, installed = found.get("package"), found.get("installed", ())
        versions = ((str(name), read_version(str(version))) for name, version in installed)
        named = tuple((name, str(version)) for name, version in versions if version is not None)
        return package and str(package), named
    except (ValueError, TypeError, AttributeError):
        return None, ()
