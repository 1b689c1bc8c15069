"""A digest of the code that decides: what it once found holds only while this code is the same."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Their versions decide what is read and what is made.
_USED = ("libcst", "packaging", "pydantic", "pydantic_core", "pyflakes", "ruamel_yaml")
_INSTALLED = re.compile(r"(.+?)-([^-]+)(?:-.*)?\.(?:dist|egg)-info")


@cache
def code_digest() -> str:
    """Return a digest of vpatch itself, the libraries by which it decides, and Python."""
    used = ", ".join(f"{name} {version}" for name, version in _versions().items())
    # pyflakes takes further names from the environment.
    names = os.environ.get("PYFLAKES_BUILTINS", "")
    digest = hashlib.sha256(f"{sys.version} {sys.flags.optimize} {used} {names}".encode())
    package = str(Path(__file__).parents[1])
    for path in _sources(package):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes twice as long
            digest.update(f"{path.removeprefix(package)}\0".encode() + file.read())
    return digest.hexdigest()


def _sources(package: str) -> Iterator[str]:
    """The files of a package, in the same order everywhere; no data."""
    for parent, folders, names in os.walk(package):
        folders[:] = sorted(name for name in folders if name != "data")
        for name in sorted(names):
            if name.endswith(".py"):
                yield f"{parent}/{name}"


def _versions() -> dict[str, str]:
    """Return the versions of the libraries: the names of installed folders have them."""
    versions: dict[str, str] = {}
    for place in sys.path:
        try:
            names = [path.name for path in Path(place or os.curdir).iterdir()]
        except OSError:
            continue  # an archive, or a folder that is not there
        for name in names:
            match = _INSTALLED.fullmatch(name)
            library = match and match[1].lower().replace(".", "_")
            if match and library in _USED:
                versions.setdefault(str(library), match[2])
    if len(versions) < len(_USED):
        # Installed in another way. The import takes longer than all of the above.
        from importlib.metadata import version  # noqa: PLC0415

        versions = {name: version(name) for name in _USED}
    return dict(sorted(versions.items()))
