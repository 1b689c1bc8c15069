"""The vLLM that is installed for a Python: its package, its metadata and its RECORD."""

from __future__ import annotations

from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.engine.asking import answer_in, ask_script, no_python, python_named
from vpatch.errors import UsageError
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file
from vpatch.util.versions import read_version
from vpatch.wheel.metadata import WheelMetadataError
from vpatch.wheel.names import is_vllm
from vpatch.wheel.record import WheelRecordError, parse_record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.wheel.record import RecordRow

_SCRIPT = Path(__file__).parent / "payload" / "distributions.py"
_TIMEOUT = 120.0
_LARGEST = 64 * MEGABYTE
_SHOWN = 60
_FIRST = "vllm/__init__.py"
RECORD = "RECORD"


@dataclass(frozen=True)
class InstalledVllm:
    """A distribution of vLLM in a folder of packages; `info` is the folder of its metadata."""

    python: str
    info: Path
    distribution: str
    version: str
    rows: Mapping[str, RecordRow]

    @property
    def site(self) -> Path:
        """The folder of packages."""
        return self.info.parent

    @property
    def package(self) -> Path:
        return self.site / "vllm"

    @property
    def release(self) -> str:
        """The release whose code it has, such as 0.23.0."""
        return Version(self.version).public

    def __str__(self) -> str:
        return f"{self.distribution} {self.version} in {self.site}"


def package_of(typed: str, *, isolated: bool = True) -> tuple[Path | None, list[Path]]:
    """Ask a Python where it has vLLM, and for the folders of metadata that may be vLLM's.

    Without `isolated`, PYTHONPATH and the user's own folder of packages count, as for a server.

    Raises:
        UsageError: it is not a Python.
    """
    python = python_named(typed)
    # -B: what is imported by a .pth file is not to be compiled there.
    words = ("-IB" if isolated else "-B", str(_SCRIPT))
    said = ask_script(python, words, _TIMEOUT, typed)
    try:
        answer = answer_in(said.text)
        package = None if answer["package"] is None else Path(answer["package"]).resolve()
        return package, [Path(one) for one in answer["infos"]]
    except (ValueError, TypeError, LookupError) as error:
        raise no_python(f"it is not a Python:\n{said.ending}".rstrip(), typed) from error


def installed_vllm(typed: str) -> InstalledVllm:
    """Find the vLLM of a Python: a path, or a name on PATH. Nothing of vLLM runs.

    Raises:
        UsageError: it is not a Python, has no vLLM, several, or one in a folder of sources.
        WheelMetadataError: its METADATA has no version.
        WheelRecordError: its RECORD is missing, or lacks the package.
    """
    package, infos = package_of(typed)
    if package is None:
        raise UsageError(
            "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another with --python",
            code="engine.no-vllm",
        )
    named = [found for info in infos if (found := _read(typed, info)) is not None]
    with_package = [one for one in named if _FIRST in one.rows]
    if len(with_package) > 1:
        raise UsageError(
            f"it has several: {', '.join(str(one) for one in with_package)}",
            where=typed,
            hint="remove all of them with pip uninstall, and install one again",
            code="wheel.several-installed",
        )
    if not with_package or with_package[0].package.resolve() != package:
        raise _elsewhere(typed, package, named)
    return with_package[0]


def _read(typed: str, info: Path) -> InstalledVllm | None:
    """Read the metadata of a distribution; None if it is not vLLM."""
    try:
        head = BytesHeaderParser().parsebytes(read_file(info / "METADATA", _LARGEST))
    except OSError:
        return None  # what pip left of another version
    name, version = str(head["Name"]), read_version(str(head["Version"]))
    if not is_vllm(name):
        return None
    if version is None:
        raise WheelMetadataError(
            f"METADATA says the version {str(head['Version'])[:_SHOWN]!r}, which is none",
            where=str(info),
            hint="install vLLM again with pip, or remove this folder",
        )
    try:
        record = read_file(info / RECORD, _LARGEST)
    except OSError:
        record = b""
    return InstalledVllm(typed, info, name, str(version), parse_record(record, str(info / RECORD)))


def _elsewhere(typed: str, package: Path, named: Sequence[InstalledVllm]) -> Exception:
    """What to raise where no distribution lists the package that Python imports."""
    beside = [one for one in named if one.package.resolve() == package]
    if beside and not _is_editable(beside[0].info):
        return WheelRecordError(
            f"its RECORD does not list {_FIRST}",
            where=str(beside[0].info),
            hint="install vLLM again with pip, which writes it",
        )
    return UsageError(
        f"this Python takes vLLM from {package}, where pip did not install it",
        where=typed,
        hint="vpatch apply makes a patched folder of sources to install from",
        code="wheel.editable",
    )


def _is_editable(info: Path) -> bool:
    """Whether pip installed it from a folder of sources, to be changed there (PEP 610)."""
    try:
        found = parse_json(read_file(info / "direct_url.json", MEGABYTE))
        return bool(found["dir_info"]["editable"])
    except (OSError, ValueError, LookupError, TypeError):
        return False
