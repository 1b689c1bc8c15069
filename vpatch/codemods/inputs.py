"""All that decides what a codemod.py does: its source, and those of the modules that it imports."""

from __future__ import annotations

import hashlib
import json
import sys
import sysconfig
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import spec_from_loader
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.codemods.allowed import scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import CodeType, ModuleType


@dataclass(frozen=True)
class ImportedModule:
    """The source of a module that a codemod imports."""

    source: bytes
    path: Path
    is_package: bool
    line: int


@dataclass(frozen=True)
class Inputs:
    """What decides what a codemod does.

    `modules` are those that it imports, and that these import, by name; without Python's, libcst's
    and vpatch's. `digest` is of all that decides, or None if it may read more. `reason` then says
    where and how, as `FILE:LINE: what`.
    """

    digest: str | None
    modules: Mapping[str, ImportedModule] = field(default_factory=dict)
    reason: str | None = None


class _NotKnownError(Exception):
    """What a module decides by cannot be told; its text says where and why."""


def inputs_of(source: bytes, path: Path) -> Inputs:
    """Tell what decides what a codemod does, from sources alone: nothing of it runs.

    `path` is where the codemod lies. Its imports are found as Python would find them now.
    """
    modules: dict[str, ImportedModule] = {}
    try:
        _collect(source, path, "", modules)
    except _NotKnownError as error:
        return Inputs(None, reason=str(error))
    # The path is in what a codemod reports that fails; -O leaves out its asserts.
    parts: list[object] = [str(path), sys.flags.optimize, hashlib.sha256(source).hexdigest()]
    for name, module in sorted(modules.items()):
        parts.append([name, module.is_package, hashlib.sha256(module.source).hexdigest()])
    return Inputs(hashlib.sha256(json.dumps(parts).encode()).hexdigest(), modules)


def _collect(source: bytes, path: Path, package: str, modules: dict[str, ImportedModule]) -> None:
    """Add to `modules` what a source imports, and what that imports.

    Raises:
        _NotKnownError: it may read more, or a module or its source cannot be found.
    """
    try:
        findings = scan(source, package)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _NotKnownError(f"{path}: it is not Python: {error}") from error
    if findings.refused is not None:
        raise _NotKnownError(f"{path}:{findings.refused.line}: {findings.refused.what}")
    for name, line in findings.pure.items():
        if (hiding := _hiding(name)) is not None:
            raise _NotKnownError(f"{path}:{line}: it imports {name}, and gets {hiding}")
    for name, line in {**findings.optional, **findings.imports}.items():
        parent, _, _ = name.rpartition(".")
        if parent and name not in findings.imports:
            # `from package import name`: it is a module only if the package is one.
            _add(parent, path, line, modules)
            if not modules[parent].is_package:
                continue
        _add(name, path, line, modules, needed=name in findings.imports)


def _add(
    name: str, importer: Path, line: int, modules: dict[str, ImportedModule], *, needed: bool = True
) -> None:
    if name in modules:
        return
    places: Sequence[str] | None = None
    parent = name.rpartition(".")[0]
    if parent:
        _add(parent, importer, line, modules)
        if not modules[parent].is_package:
            raise _NotKnownError(f"{importer}:{line}: it imports {name}: {parent} is no package")
        places = [str(modules[parent].path.parent)]
    spec = _spec(name, places)
    if spec is None and not needed:
        return
    if spec is None:
        raise _NotKnownError(f"{importer}:{line}: it imports {name}, which cannot be found")
    if type(spec.loader) is not SourceFileLoader or spec.origin is None:
        raise _NotKnownError(f"{importer}:{line}: it imports {name}, which has no Python source")
    path = Path(spec.origin)
    try:
        source = path.read_bytes()
    except OSError as error:
        raise _NotKnownError(f"{path}: it cannot be read: {error.strerror}") from error
    is_package = spec.submodule_search_locations is not None
    modules[name] = ImportedModule(source, path, is_package, line)
    _collect(source, path, name if is_package else parent, modules)


@cache
def _hiding(name: str) -> str | None:
    """The file that a module of Python's standard library is hidden by, where there is one."""
    spec = _spec(name, None)
    origin = None if spec is None else spec.origin
    if origin in {None, "built-in", "frozen"}:
        return None
    folders = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
    file = Path(str(origin)).resolve()
    within = (file.parent, file.parent.parent)  # a module, or a package or an extension module
    return None if any(folder in within for folder in folders) else str(origin)


def _spec(name: str, places: Sequence[str] | None) -> ModuleSpec | None:
    """Find a module as `import` does, but without importing the packages that it is in."""
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec: ModuleSpec | None = None if find is None else find(name, places)
        if spec is not None:
            return spec
    return None


@contextmanager
def fresh(modules: Mapping[str, ImportedModule]) -> Iterator[None]:
    """Import these modules anew inside the block, from these bytes.

    So they keep nothing from one file to the next, and no older bytecode runs in place of a source.
    Afterwards `sys.modules` is as it was.
    """
    if not modules:
        yield
        return
    originals = {name: sys.modules.pop(name) for name in modules if name in sys.modules}
    finder = _Finder(modules)
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(originals)


class _Finder(MetaPathFinder, Loader):
    def __init__(self, modules: Mapping[str, ImportedModule]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        module = self._modules.get(fullname)
        if module is None:
            return None
        return spec_from_loader(
            fullname, self, origin=str(module.path), is_package=module.is_package
        )

    def exec_module(self, module: ModuleType) -> None:
        known = self._modules[module.__name__]
        exec(compiled(known.source, known.path), module.__dict__)  # noqa: S102


@cache
def compiled(source: bytes, path: Path) -> CodeType:
    """Compile a source.

    Raises:
        SyntaxError, ValueError: it is not Python.
    """
    return compile(source, str(path), "exec", dont_inherit=True)
