"""The use case `cache clear`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.engine.environment import managed_folders, remove_engine
from vpatch.engine.overlay_cache import list_overlays, remove_overlay
from vpatch.source.cache import KINDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.workspace.context import Context


def clear_cache(context: Context, names: Sequence[str]) -> int:
    """Remove entries by their names, or everything; return bytes freed.

    An overlay stays while it is in use, and one that somebody's file names unless it is named.

    Raises:
        UsageError: the cache has no such entry.
        VpatchError: an entry is in use, or cannot be removed.
    """
    folders = {path.name: path for path in managed_folders(context.cache.folder)}
    overlays = {one.name for one in list_overlays(context.cache.folder)}
    known = {*folders, *overlays, *KINDS}
    trees = [name for name in names if name not in known]
    freed = 0
    if trees or not names:
        freed = context.cache.clear(trees or None, context.progress)
    freed += sum(context.cache.clear_kind(name) for name in names if name in KINDS)
    for name in names or folders:
        if name in folders:
            freed += remove_engine(folders[name], context.progress)
    for name in sorted(overlays if not names else overlays.intersection(names)):
        freed += remove_overlay(context.cache.folder, name, context.progress, named=name in names)
    return freed
