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
# What decides: these folders, and what they use of others to do so.
DECIDING = (
    *("codemods/", "declare/", "planning/"),
    *("library/loading.py", "library/patch.py"),
    *("source/memory.py", "source/searched.py", "source/tree.py", "source/word_index.py"),
    *("util/matching.py", "util/nearest_lines.py", "util/plural.py", "util/versions.py"),
    "util/words.py",
)
# What only keeps decisions, or tells of them.
_NOT_DECIDING = tuple(
    f"planning/{name}.py"
    for name in ("kept_decisions", "plan_cache", "proven", "recorded_plan", "telling")
)
_INSTALLED = re.compile(r"(.+?)-([^-]+)(?:-.*)?\.(?:dist|egg)-info")


@cache
def code_digest() -> str:
    """Return a digest of vpatch itself, the libraries by which it decides, and Python."""
    digest = hashlib.sha256(f"{sys.version} {_used()}".encode())
    package = str(Path(__file__).parents[1])
    for path in _sources(package):
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - pathlib takes twice as long
            digest.update(f"{path.removeprefix(package)}\0".encode() + file.read())
    return digest.hexdigest()


@cache
def content_digest() -> str:
    """Return a digest of what decides, the libraries by which it does, and Python's minor version.

    What is known of the content of a file holds while it stays: an edit of a command changes none
    of that.
    """
    python = f"{sys.version_info.major}.{sys.version_info.minor}"
    return hashlib.sha256(f"{python} {_used()} {decider_digest()}".encode()).hexdigest()


def _used() -> str:
    used = ", ".join(f"{name} {version}" for name, version in _versions().items())
    # pyflakes takes further names from the environment.
    return f"{sys.flags.optimize} {used} {os.environ.get('PYFLAKES_BUILTINS', '')}"


@cache
def decider_digest() -> str:
    """Return a digest of what decides in vpatch itself: the same on each machine."""
    digest = hashlib.sha256()
    package = str(Path(__file__).parents[1])
    for path in _sources(package):
        name = path.removeprefix(f"{package}/")
        if name.startswith(DECIDING) and name not in _NOT_DECIDING:
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - as above
                digest.update(f"{name}\0".encode() + hashlib.sha256(file.read()).digest())
    return digest.hexdigest()[:32]


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
