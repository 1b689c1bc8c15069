"""Patched files over an installed package, for one run, and without touching the package.

The copy that runs is made of links to the installed files, with the patched ones in their place. It
comes first on PYTHONPATH, which spawned workers inherit. To undo it is to remove it.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from vpatch.errors import VpatchError
from vpatch.planning.state import Change, overall_changes
from vpatch.util.digest import digest_of, short_digest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vpatch.engine.environment import Engine
    from vpatch.planning.state import Plan

_CACHE = "__pycache__"


class OverlayError(VpatchError):
    """The installed files are not those that the patches were made for."""

    code = "engine.files-differ"


def make_overlay(package: Path, changes: Mapping[str, Change], folder: Path) -> Path:
    """Make a copy of an installed package in `folder`, with those of the changes that lie in it.

    `changes` are keyed by paths in the tree, such as `vllm/config/speculative.py`. Returns what is
    to be put on PYTHONPATH.

    Raises:
        OverlayError: a file that is to be replaced differs from that of the tree.
    """
    inside = {
        path: change
        for path, change in changes.items()
        if PurePosixPath(path).parts[0] == package.name
    }
    _check(package, inside)
    replaced = {str(PurePosixPath(path).relative_to(package.name)) for path in inside}
    target = folder / package.name
    seen: set[Path] = set()
    for parent, names, files in os.walk(package, followlinks=True):
        seen.add(Path(parent).resolve())
        names[:] = [name for name in names if Path(parent, name).resolve() not in seen]
        relative = Path(parent).relative_to(package)
        (target / relative).mkdir(parents=True)
        if _CACHE in names:
            names.remove(_CACHE)
        for name in files:
            if str(relative / name) not in replaced:
                (target / relative / name).symlink_to(Path(parent, name))
        _link_bytecode(package / relative, target / relative, replaced, relative)
    for path, change in inside.items():
        written = folder / path
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_bytes(change.after)
    return folder


def as_released(engine: Engine, plan: Plan) -> dict[str, Change]:
    """Return what turns the touched files of an engine into those of the release.

    Some wheels of the CPU build have other Python files than the release that they are named after.
    vpatch installed such a wheel itself, so the release's own file is laid over. Somebody's own
    environment is left as it is: there it would be a guess.
    """
    return touched_as_released(engine, overall_changes(plan))


def touched_as_released(engine: Engine, changes: Mapping[str, Change]) -> dict[str, Change]:
    """Return the same for the files that some changes of a release touch."""
    return differing(
        engine, {path: c.before for path, c in changes.items() if c.before is not None}
    )


def differing(engine: Engine, released: Mapping[str, bytes]) -> dict[str, Change]:
    """Return what turns files of an engine into those of a release; see `as_released`."""
    changes: dict[str, Change] = {}
    for path, content in released.items() if engine.is_managed else ():
        installed = engine.package.parent / path
        own = installed.read_bytes() if installed.is_file() else content
        if own != content:
            changes[path] = Change(own, content)
    return changes


def on_top(below: Mapping[str, Change], changes: Mapping[str, Change]) -> dict[str, Change]:
    """Return changes of files that other changes have changed before."""
    all_changes = dict(below)
    for path, change in changes.items():
        all_changes[path] = Change(below[path].before, change.after) if path in below else change
    return all_changes


def _link_bytecode(source: Path, target: Path, replaced: set[str], relative: Path) -> None:
    """Compiled files of what is not replaced: compiling vLLM anew takes longer than a test."""
    if not (source / _CACHE).is_dir():
        return
    (target / _CACHE).mkdir()
    for compiled in (source / _CACHE).iterdir():
        if str(relative / f"{compiled.name.split('.')[0]}.py") not in replaced:
            (target / _CACHE / compiled.name).symlink_to(compiled)


def _check(package: Path, changes: Mapping[str, Change]) -> None:
    for path, change in changes.items():
        installed = package.parent / path
        content = installed.read_bytes() if installed.is_file() else None
        if content != change.before:
            raise OverlayError(
                f"the installed file is {_digest(content)}, and the tree's is "
                f"{_digest(change.before)}",
                where=str(installed),
                hint="use an environment with an unmodified vLLM of the tree's version",
            )


def _digest(content: bytes | None) -> str:
    return "absent" if content is None else short_digest(digest_of(content))
