"""Collect the surface of a target from its files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vpatch.commands.compat.code.read import UnreadableError, outline_of_tree, parse
from vpatch.commands.compat.surface.items import Item, Ref, Spot, Surface
from vpatch.commands.compat.surface.walk import Walker

if TYPE_CHECKING:
    from vpatch.commands.compat.target import CompatTarget
    from vpatch.progress import Progress


def surface_of(target: CompatTarget, progress: Progress) -> Surface:
    """Return what a target takes from vLLM. Files that cannot be read are named."""
    surface = Surface(built=target.built)
    task = progress.start(f"Reading {target.name}")
    for module, path in target.modules.items():
        surface.files += 1
        is_package = path.endswith("/__init__.py") or path == "__init__.py"
        try:
            tree = parse(target.files[path])
            surface.outlines[path] = outline_of_tree(tree, target.files[path])
            walker = Walker(surface, path, module, is_package=is_package, tree=tree)
            walker.visit(tree)
            walker.note_what_is_read_first()
        except UnreadableError as error:
            surface.unread[path] = str(error)
        except RecursionError:
            surface.unread[path] = "is nested too deeply"
    task.done()
    for group, name, spot in target.entry_points:
        surface.add(Item("entry point", f"{group}: {name}", Spot(*spot), Ref((group,))))
    return surface
