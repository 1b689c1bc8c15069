"""What a user names to trust, as patches, recipes and targets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.library.catalog import find_library
from vpatch.library.patch import DECLARATION

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from vpatch.app.context import Context


def paths_to_trust(context: Context, paths: Sequence[Path], hosts: Sequence[str]) -> list[Path]:
    if hosts and not paths:
        return []
    chosen: list[Path] = []
    for path in paths or (context.project.folder,):
        chosen += _items(path)
    return list(dict.fromkeys(chosen))


def _items(path: Path) -> Iterator[Path]:
    """A patch's folder, a file, or all that a project has."""
    if path.is_file() or (path / DECLARATION).is_file():
        yield path
        return
    found = find_library(path.absolute()).code
    if not found:
        raise UsageError(
            "this folder has no patches, recipes or targets of its own",
            where=str(path),
            hint="name the folder of a project or of a patch",
            code="trust.nothing-to-trust",
        )
    yield from found
