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
    """`folder` is that of the package `vllm`; `version` what its metadata says: 0.23.0+cpu."""

    folder: Path
    version: str

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
    package, version = _answer(said.text)
    if package is None or version is None:
        raise UsageError(
            f"it has no vLLM\n{said.ending}".rstrip() if said.code else "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another",
            code="engine.no-vllm",
        )
    return InstalledPackage(Path(package), version)


def _answer(text: str) -> tuple[str | None, str | None]:
    try:
        found = answer_in(text)
        package, version = found.get("package"), found.get("version")
        return package and str(package), (version and str(read_version(str(version)) or "")) or None
    except (ValueError, AttributeError):
        return None, None
