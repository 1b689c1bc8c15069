"""List the packages of an image, as their own metadata describes them.

    python3 packages.py RESULT

It runs in an image, where vpatch is not. RESULT is a file for JSON. Python's packages are those on
the path of this python3, and Debian's are those that dpkg has installed. A licence is what a
package's metadata says, word for word: nothing is read out of a text of a licence.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import TypedDict

_ROOT = Path("/")
_LONGEST = 200
_FORMAT = re.compile(r"^Format(-Specification)?:.*(copyright-format|dep5|DEP-5|DEP5)", re.MULTILINE)
_LICENSE = re.compile(r"^License:[ \t]*(\S.*)$", re.MULTILINE)
_CLASSIFIER = "License :: "


class PackageFacts(TypedDict):
    """A package. `licenses` are names or SPDX expressions; `supplier` is empty if nobody says.

    `requires` are the requirements of a Python package, as PEP 508 has them.
    """

    name: str
    version: str
    architecture: str
    supplier: str
    licenses: list[str]
    requires: list[str]


class PackageList(TypedDict):
    """All packages. `system` is as ID and VERSION_ID of os-release say it, such as debian 12.

    `markers` are the values by which requirements choose, as PEP 508 has them.
    """

    system: list[str]
    markers: dict[str, str]
    python: list[PackageFacts]
    debian: list[PackageFacts]


def package_list(root: Path = _ROOT) -> PackageList:
    """Return the packages; Debian's are read below `root`."""
    return {
        "system": system(root),
        "markers": markers(),
        "python": python_packages(),
        "debian": debian_packages(root),
    }


def markers() -> dict[str, str]:
    return {
        "implementation_name": sys.implementation.name,
        "implementation_version": platform.python_version(),
        "os_name": os.name,
        "platform_machine": platform.machine(),
        "platform_python_implementation": platform.python_implementation(),
        "platform_release": platform.release(),
        "platform_system": platform.system(),
        "platform_version": platform.version(),
        "python_full_version": platform.python_version(),
        "python_version": ".".join(platform.python_version_tuple()[:2]),
        "sys_platform": sys.platform,
    }


def python_packages() -> list[PackageFacts]:
    """Return the packages of this Python: of two with one name, the one that it imports."""
    packages: dict[str, PackageFacts] = {}
    for one in importlib.metadata.distributions():
        fields = one.metadata
        name, version = fields["Name"], fields["Version"]
        key = re.sub("[-_.]+", "-", name or "").lower()
        if not key or not version or key in packages:
            continue
        packages[key] = {
            "name": name,
            "version": version,
            "architecture": "",
            "supplier": _supplier(fields),
            "licenses": _licenses(fields),
            "requires": [str(value) for value in fields.get_all("Requires-Dist", [])],
        }
    return [packages[key] for key in sorted(packages)]


def _supplier(fields: importlib.metadata.PackageMetadata) -> str:
    for key in ("Maintainer", "Author", "Maintainer-email", "Author-email"):
        for value in fields.get_all(key, []):
            if _is_short(str(value)) and str(value) != "UNKNOWN":
                return str(value).strip()
    return ""


def _licenses(fields: importlib.metadata.PackageMetadata) -> list[str]:
    for key in ("License-Expression", "License"):
        for value in fields.get_all(key, []):
            # Many a package has the whole text there: what it is would be a guess.
            if _is_short(str(value)) and str(value) != "UNKNOWN":
                return [str(value).strip()]
    names = [str(value) for value in fields.get_all("Classifier", [])]
    names = [name.rpartition(" :: ")[2] for name in names if name.startswith(_CLASSIFIER)]
    return [name for name in names if name != "OSI Approved"]


def _is_short(text: str) -> bool:
    return 0 < len(text.strip()) <= _LONGEST and "\n" not in text.strip()


def debian_packages(root: Path) -> list[PackageFacts]:
    """Return the packages that dpkg has installed; none in an image without dpkg."""
    folder = root / "var" / "lib" / "dpkg"
    # Images without a shell have a file for each package.
    parts = sorted((folder / "status.d").glob("*")) if (folder / "status.d").is_dir() else []
    files = [folder / "status", *(file for file in parts if not file.name.endswith(".md5sums"))]
    packages: dict[tuple[str, str], PackageFacts] = {}
    for file in files:
        text = _text(file)
        for paragraph in re.split(r"\n[ \t]*\n", text):
            fields = dict(re.findall(r"^([A-Za-z-]+):[ \t]*(.*)$", paragraph, re.MULTILINE))
            name, version = fields.get("Package"), fields.get("Version")
            state = fields.get("Status", "install ok installed")
            if not name or not version or not state.endswith(" installed"):
                continue
            architecture = fields.get("Architecture", "")
            packages[name, architecture] = {
                "name": name,
                "version": version,
                "architecture": architecture,
                "supplier": fields.get("Maintainer", ""),
                "licenses": _debian_licenses(root / "usr" / "share" / "doc" / name / "copyright"),
                "requires": [],
            }
    return [packages[key] for key in sorted(packages)]


def _debian_licenses(file: Path) -> list[str]:
    """Return the short names of a copyright file that Debian's format makes readable."""
    text = _text(file)
    if not _FORMAT.search(text):
        return []
    names = (name.strip() for name in _LICENSE.findall(text))
    return sorted({name for name in names if _is_short(name)})


def system(root: Path) -> list[str]:
    text = _text(root / "etc" / "os-release")
    fields = dict(re.findall(r"^(ID|VERSION_ID)=[\"']?([^\"'\n]*)", text, re.MULTILINE))
    return [fields.get("ID", ""), fields.get("VERSION_ID", "")]


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(package_list()), encoding="utf-8")
