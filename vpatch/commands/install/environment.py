"""The vLLM that is installed for a Python: its package, its metadata and its RECORD."""

from __future__ import annotations

from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.commands.install.metadata import WheelMetadataError
from vpatch.commands.install.wheels.names import is_vllm
from vpatch.engine.asking import python_named
from vpatch.engine.distributions import MEMBER, RECORD, distributions_of_vllm
from vpatch.engine.import_path import ask_import_path
from vpatch.engine.installed import PACKAGE, InstalledPackage
from vpatch.errors import UsageError
from vpatch.source.wheel.record import WheelRecordError, parse_record
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vpatch.engine.distributions import Distribution
    from vpatch.engine.import_path import ImportPath
    from vpatch.source.wheel.record import RecordRow

_SHOWN = 60


class InstalledVllm(InstalledPackage):
    """A distribution of vLLM in a folder of packages, with its RECORD."""

    @cached_property
    def rows(self) -> Mapping[str, RecordRow]:
        """The lines of its RECORD, by their paths.

        Raises:
            WheelRecordError: it cannot be read.
        """
        return parse_record(self.distributions[0].record, str(self.info / RECORD))


def installed_vllm(typed: str) -> InstalledVllm:
    """Find the vLLM of a Python: a path, or a name on PATH. Nothing of vLLM runs.

    Raises:
        UsageError: it is not a Python, has no vLLM, several, or one in a folder of sources.
        WheelMetadataError: its METADATA has no version.
        WheelRecordError: its RECORD is missing, or lacks the package.
        PermissionError: this user may not read its metadata.
    """
    asked = ask_import_path(python_named(typed), typed)
    distributions = distributions_of_vllm(asked.path)
    named = [_read(typed, one, asked) for one in distributions if is_vllm(one.name)]
    with_package = [one for one in named if MEMBER in one.rows]
    if len(with_package) > 1:
        raise UsageError(
            f"it has several: {', '.join(str(one) for one in with_package)}",
            where=typed,
            hint="remove all of them with pip uninstall, and install one again",
            code="wheel.several-installed",
        )
    package = None if asked.package is None else asked.package.resolve()
    if package is None and asked.origin is None:
        raise UsageError(
            "it has no vLLM",
            where=typed,
            hint="install vLLM in this Python, or name another with --python",
            code="engine.no-vllm",
        )
    if not with_package or with_package[0].package.resolve() != package:
        raise _elsewhere(typed, package or Path(str(asked.origin)), named)
    return with_package[0]


def _read(typed: str, one: Distribution, asked: ImportPath) -> InstalledVllm:
    """Return a distribution as an answer.

    Raises:
        WheelMetadataError: its METADATA has no version.
    """
    if read_version(one.version) is None:
        raise WheelMetadataError(
            f"METADATA says the version {one.version[:_SHOWN]!r}, which is none",
            where=str(one.info),
            hint="install vLLM again with pip, or remove this folder",
        )
    return InstalledVllm(typed, one.site / PACKAGE, (one,), asked)


def _elsewhere(typed: str, package: Path, named: Sequence[InstalledVllm]) -> Exception:
    """What to raise where no distribution lists the package that Python imports.

    Raises:
        PermissionError: this user may not read a distribution, which may list it.
    """
    for info in sorted(package.parent.glob("vllm*.dist-info")):
        with suppress(FileNotFoundError, NotADirectoryError):
            (info / "METADATA").open("rb").close()
    beside = [one for one in named if one.package.resolve() == package]
    if beside and not beside[0].distributions[0].is_editable:
        return WheelRecordError(
            f"its RECORD does not list {MEMBER}",
            where=str(beside[0].info),
            hint="install vLLM again with pip, which writes it",
        )
    return UsageError(
        f"this Python takes vLLM from {package}, where pip did not install it",
        where=typed,
        hint="vpatch apply makes a patched folder of sources to install from",
        code="wheel.editable",
    )
