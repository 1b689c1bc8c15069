"""Whether a tree is what it is called: a folder of anything else must not pass for vLLM."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from packaging.utils import canonicalize_name

from vpatch.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from vpatch.source.entry import CachedTree

# Files at the root that name the distribution. All of them are small; no more than this is read.
_LIMIT = 1 << 20
_HEADER = re.compile(r"^Name: *(\S+)", re.MULTILINE)
_SETUP = re.compile(r"""^\s*name\s*=\s*["']?([\w.-]+)""", re.MULTILINE)
# Upstream's build writes the second one, and the first one reads it.
_VERSIONS = ("version.py", "_version.py")


class _Files(Protocol):
    """The files at the root of a tree and those directly in its packages."""

    def has(self, path: str) -> bool: ...

    def start_of(self, path: str) -> bytes: ...

    def packages(self) -> Iterable[str]:
        """The Python packages at the root."""

    def has_wheel(self, package: str) -> bool:
        """Whether the metadata of the package's wheel is there, as in an unpacked one."""


def check_folder(tree: str, folder: Path, shown: str) -> None:
    """Refuse a folder that is not the source of `tree`, before anything else in it is read.

    A folder is one if it has the package (`vllm/__init__.py`), and either the package's version
    file or metadata with the distribution's name. A fork may have renamed the distribution, so one
    of the two is enough. A plugin whose package has another name needs the metadata.

    Raises:
        UsageError: it is something else; the error says what to name instead, if that is clear.
    """
    reason = _reason(tree, _OnDisk(folder))
    if reason is not None:
        advice = _advice(tree, folder, shown)
        raise UsageError(reason, where=shown, hint=advice, code="source.wrong-tree")


def check_tree(tree: CachedTree) -> None:
    """The same for a tree that was fetched.

    Raises:
        UsageError: it is something else.
    """
    reason = _reason(tree.pin.tree, _InCache(tree))
    if reason is not None:
        where = tree.pin.origin + (f"@{tree.pin.ref}" if tree.pin.ref else "")
        name = tree.pin.tree
        hint = _unpack_hint(name) if " in src/" in reason else f"name a source of {name}"
        raise UsageError(reason, where=where, hint=hint, code="source.wrong-tree")


def _reason(tree: str, files: _Files) -> str | None:
    package = tree.replace("-", "_")
    own = files.has(f"{package}/__init__.py")
    if own and (files.has_wheel(package) or any(files.has(f"{package}/{n}") for n in _VERSIONS)):
        return None
    names = sorted(set(_names(files)))
    if not own and files.has(f"src/{package}/__init__.py"):
        return (
            f"is not a source tree of {tree}: it has no {package}/__init__.py at its root; "
            "its code is in src/, where vpatch does not patch"
        )
    if not own and (tree == "vllm" or not any(True for _ in files.packages())):
        called = f" (its metadata says {', '.join(names)})" if names else ""
        return f"is not a source tree of {tree}: it has no {package}/__init__.py{called}"
    if tree in names:
        return None
    if names:
        return f"is not a source tree of {tree}: its metadata says {', '.join(names)}"
    return (
        f"is not a source tree of {tree}: no metadata (PKG-INFO, pyproject.toml, setup.cfg, "
        f"setup.py) has that name, and there is no {package}/{_VERSIONS[0]}"
    )


def _names(files: _Files) -> Iterator[str]:
    """What the metadata at the root calls the distribution."""
    for path, pattern in (("PKG-INFO", _HEADER), ("setup.cfg", _SETUP), ("setup.py", _SETUP)):
        if files.has(path):
            text = files.start_of(path).decode(errors="replace")
            yield from map(canonicalize_name, pattern.findall(text))
    if files.has("pyproject.toml"):
        # What is in the cache has a PKG-INFO.
        import tomllib  # noqa: PLC0415

        try:
            name = tomllib.loads(files.start_of("pyproject.toml").decode())["project"]["name"]
        except (ValueError, KeyError, TypeError, RecursionError):
            return  # it names nothing, or is not TOML
        if isinstance(name, str):
            yield canonicalize_name(name)


def _unpack_hint(tree: str) -> str:
    return f"unpack a wheel of {tree} into a folder, and give --tree {tree}=./FOLDER"


def _advice(tree: str, folder: Path, shown: str) -> str:
    """Name the folder that was probably meant."""
    if (folder / "src" / tree.replace("-", "_") / "__init__.py").is_file():
        return _unpack_hint(tree)
    if _reason(tree, _OnDisk(folder.resolve().parent)) is None:
        return "name the folder above it, which is one"
    inside = [
        child
        for child in sorted(folder.iterdir())
        if child.is_dir() and _reason(tree, _OnDisk(child)) is None
    ]
    if len(inside) == 1:
        return f"did you mean {shown.rstrip('/')}/{inside[0].name}?"
    others = [name for name in _names(_OnDisk(folder)) if name != tree]
    if others and _reason(others[0], _OnDisk(folder)) is None:
        return f"give it as --tree {others[0]}={shown}"
    return f"name the root of a checkout or an unpacked source archive of {tree}"


@dataclass(frozen=True)
class _OnDisk:
    folder: Path

    def has(self, path: str) -> bool:
        return (self.folder / path).is_file()

    def start_of(self, path: str) -> bytes:
        try:
            with (self.folder / path).open("rb") as file:
                return file.read(_LIMIT)
        except OSError:
            return b""  # reading the tree reports it

    def packages(self) -> Iterable[str]:
        return (path.parent.name for path in self.folder.glob("*/__init__.py"))

    def has_wheel(self, package: str) -> bool:
        return any(self.folder.glob(f"{package}-*.dist-info/METADATA"))


@dataclass(frozen=True)
class _InCache:
    tree: CachedTree

    @cached_property
    def _paths(self) -> frozenset[str]:
        return frozenset(self.tree.paths())

    def has(self, path: str) -> bool:
        return path in self._paths

    def start_of(self, path: str) -> bytes:
        return self.tree.read(path)[:_LIMIT]

    def packages(self) -> Iterable[str]:
        parts = (path.split("/") for path in self._paths)
        return (folder for folder, *file in parts if file == ["__init__.py"])

    def has_wheel(self, package: str) -> bool:
        return any(fnmatch(path, f"{package}-*.dist-info/METADATA") for path in self._paths)
