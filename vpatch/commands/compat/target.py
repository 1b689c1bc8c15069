"""Read a target: its Python files, its entry points, and the releases of vLLM that it declares."""

from __future__ import annotations

import os
import tomllib
from contextlib import suppress
from dataclasses import dataclass, field
from email.parser import BytesHeaderParser
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from vpatch.commands.compat.code.part import modules_of
from vpatch.commands.compat.code.read import LARGEST
from vpatch.errors import UsageError
from vpatch.operators.registrations import SOURCES, BuiltOperators, read_registrations
from vpatch.source.spec import EnvironmentSpec, WheelSpec, parse_tree
from vpatch.source.wheel.names import parse_wheel_name
from vpatch.util.home import expanded
from vpatch.util.untrusted import is_path, read_file

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from packaging.specifiers import SpecifierSet

    from vpatch.source.spec import TreeSpec
    from vpatch.workspace.context import Context

_ASIDE = frozenset(
    ["tests", "test", "benchmarks", "benchmark", "examples", "docs", "build", "dist"]
)
_NO_SOURCE = frozenset(["__pycache__", "node_modules", "site-packages"])
_METADATA = ("PKG-INFO", "METADATA", "entry_points.txt", "pyproject.toml", "CMakeLists.txt")
_NATIVE = (*SOURCES, ".cmake")
_GROUP = "vllm."
# The parts of `src/package/__init__.py`.
_BELOW_SRC = 3
# vllm-ascend has 700.
MOST_FILES = 20_000


@dataclass(frozen=True)
class CompatTarget:
    """Code outside vLLM. `links` are paths of links, which vpatch does not follow."""

    name: str
    version: str | None
    files: Mapping[str, bytes]
    modules: Mapping[str, str]
    entry_points: tuple[tuple[str, str, tuple[str, int]], ...]
    requires: SpecifierSet | None
    links: tuple[str, ...] = ()
    built: BuiltOperators = field(default_factory=BuiltOperators)


def read_target(context: Context, text: str) -> CompatTarget:
    """Read the target that the user names.

    Raises:
        UsageError: the target is not there, or it has no Python file.
    """
    path = expanded(text) if is_path(text) else None
    if path is not None and path.is_dir():
        return _of_folder(path, text)
    if path is not None and path.is_file() and path.suffix == ".py":
        return _of_file(path)
    if path is not None and path.is_file() and path.suffix == ".whl":
        name = canonicalize_name(parse_wheel_name(path.name).distribution)
        return _of_tree(context, WheelSpec(name, text), text)
    if "=" not in text:
        raise UsageError(
            "this is not a folder, a wheel, a Python file or NAME==VERSION",
            where=text[:80],
            hint="write for instance ./my-plugin, vllm-ascend==0.23.0 or my-plugin=env:PYTHON",
            code="compat.wrong-target",
        )
    return _of_tree(context, parse_tree(text), text)


def _of_tree(context: Context, spec: TreeSpec, shown: str) -> CompatTarget:
    with context.tree(spec) as tree:
        paths = tree.paths()
        name, version = tree.pin.tree, tree.pin.version
        if isinstance(spec, EnvironmentSpec) and not paths:
            raise _no_python(shown)
        return _target(name, version, paths, tree.read, shown, tuple(sorted(tree.links)))


def _of_folder(folder: Path, shown: str) -> CompatTarget:
    """Read a folder. If it is a package itself, its modules lie below the name of the package."""
    links: list[str] = []
    folder = folder.resolve()
    root = folder
    while (root / "__init__.py").is_file() and root.name.isidentifier() and root.parent != root:
        root = root.parent
    inside = folder.relative_to(root).as_posix()
    before = "" if folder == root else f"{inside}/"
    paths = [f"{before}{path}" for path in _paths_in(folder, links, shown)]
    links = [f"{before}{path}" for path in links]
    return _target(
        folder.name, None, paths, lambda path: _bytes_of(root / path), shown, tuple(links)
    )


def _of_file(path: Path) -> CompatTarget:
    name = path.name
    module = path.stem if path.stem.isidentifier() else "module"
    return CompatTarget(name, None, {name: _bytes_of(path)}, {module: name}, (), None)


def _bytes_of(path: Path) -> bytes:
    try:
        # One byte more than is read: `parse` says that it is too large.
        return read_file(path, LARGEST + 1)
    except OSError:
        return b" " * (LARGEST + 1)


def _paths_in(folder: Path, links: list[str], shown: str) -> Iterator[str]:
    count = 0
    for parent, folders, names in os.walk(folder):
        below = Path(parent)
        source: list[str] = []
        for name in sorted(folders):
            if (below / name).is_symlink():
                links.append(str((below / name).relative_to(folder)))
            elif not (name.startswith(".") or (below / name / "pyvenv.cfg").is_file()):
                source += [] if name in _NO_SOURCE else [name]
        folders[:] = source
        for name in sorted(names):
            relative = str((below / name).relative_to(folder))
            if (below / name).is_symlink():
                links.append(relative)
            elif name.endswith((".py", *_NATIVE)) or name in _METADATA:
                count += 1
                yield relative
        if count > MOST_FILES:
            raise UsageError(
                f"has more than {MOST_FILES} source files",
                where=shown,
                hint="name the folder of the package",
                code="compat.too-many-files",
            )


def _target(
    name: str,
    version: str | None,
    paths: Sequence[str],
    read: Callable[[str], bytes],
    shown: str,
    links: tuple[str, ...],
) -> CompatTarget:
    modules = _packages(paths)
    if not modules:
        raise _no_python(shown)
    files = {path: read(path) for path in modules.values()}
    metadata = _Metadata(paths, read)
    return CompatTarget(
        metadata.name or name,
        version or metadata.version,
        files,
        modules,
        tuple(metadata.entry_points()),
        metadata.requires(),
        links,
        read_registrations(*_native(paths, read)),
    )


def _native(
    paths: Iterable[str], read: Callable[[str], bytes]
) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return the C++ sources, and what builds them."""
    several = [path for path in paths if path.partition("/")[0] not in _ASIDE]
    sources = [path for path in several if path.endswith(SOURCES)]
    builds = [path for path in several if path.endswith(("CMakeLists.txt", ".cmake", "setup.py"))]
    texts = {path: read(path) for path in sources}
    return texts, {path: read(path) for path in builds} if texts else {}


def _no_python(shown: str) -> UsageError:
    return UsageError(
        "has no Python file that vpatch can read",
        where=shown,
        hint="name a folder with a package, a wheel, or a .py file",
        code="compat.no-python",
    )


def _packages(paths: Iterable[str]) -> dict[str, str]:
    """Return the modules of a target: those of its packages; without one, all there are."""
    python = [path for path in paths if path.endswith(".py")]
    inits = [path.split("/") for path in python if path.endswith("/__init__.py")]
    inner = {src[1] for src in inits if src[0] == "src" and len(src) == _BELOW_SRC}
    tops = {top[0] for top in inits if len(top) == _BELOW_SRC - 1}
    if inner:
        return modules_of([p for p in python if p.split("/")[1:2][0] in inner], "src/")
    tops -= _ASIDE
    if tops:
        return modules_of([path for path in python if path.partition("/")[0] in tops])
    modules = modules_of([path for path in python if path.partition("/")[0] not in _ASIDE])
    return modules or modules_of(python)


class _Metadata:
    """What the metadata of a distribution or of a project says."""

    def __init__(self, paths: Sequence[str], read: Callable[[str], bytes]) -> None:
        self._paths = paths
        self._read = read
        file = self._first("PKG-INFO") or self._first("*.dist-info/METADATA")
        self._head = BytesHeaderParser().parsebytes(read(file)) if file else None
        self._project: dict[str, Any] = {}
        if "pyproject.toml" in paths:
            with suppress(tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError):
                project = tomllib.loads(read("pyproject.toml").decode()).get("project")
                self._project = project if isinstance(project, dict) else {}

    def _first(self, pattern: str) -> str | None:
        return next((path for path in self._paths if fnmatch(path, pattern)), None)

    @property
    def name(self) -> str | None:
        named = self._head["Name"] if self._head else self._project.get("name")
        return canonicalize_name(named) if isinstance(named, str) else None

    @property
    def version(self) -> str | None:
        version = self._head["Version"] if self._head else self._project.get("version")
        return version if isinstance(version, str) else None

    def requires(self) -> SpecifierSet | None:
        """Return what the target requires of vLLM; None if it names no version."""
        texts: list[Any] = list((self._head.get_all("Requires-Dist") if self._head else None) or ())
        dependencies = self._project.get("dependencies", [])
        texts += dependencies if isinstance(dependencies, list) and not texts else []
        for text in texts:
            with suppress(InvalidRequirement, TypeError):
                one = Requirement(text)
                if canonicalize_name(one.name) == "vllm" and one.specifier:
                    return one.specifier
        return None

    def entry_points(self) -> Iterator[tuple[str, str, tuple[str, int]]]:
        path = self._first("*.dist-info/entry_points.txt") or self._first(
            "*.egg-info/entry_points.txt"
        )
        if path:
            yield from self._listed(path)
            return
        groups = self._project.get("entry-points", {})
        for group, names in groups.items() if isinstance(groups, dict) else ():
            if group.startswith(_GROUP) and isinstance(names, dict):
                yield from ((group, name, ("pyproject.toml", 1)) for name in names)

    def _listed(self, path: str) -> Iterator[tuple[str, str, tuple[str, int]]]:
        group = ""
        lines = self._read(path).decode(errors="replace").splitlines()
        for number, line in enumerate(map(str.strip, lines), 1):
            name, equals, _ = line.partition("=")
            if line.startswith("[") and line.endswith("]"):
                group = line[1:-1].strip()
            elif equals and line[0] not in "#;" and group.startswith(_GROUP):
                yield group, name.strip(), (path, number)
