"""Trees as files that travel to a node: what patches change, and the own files of each tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vpatch.harness.target import TreeContent
from vpatch.planning.state import Change

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path


def packed(
    trees: Sequence[TreeContent], at: str = "trees"
) -> tuple[list[dict[str, Any]], dict[str, bytes]]:
    """Return what a job says of trees, and the files that it says it of, in a folder `at`."""
    told: list[dict[str, Any]] = []
    files: dict[str, bytes] = {}
    for number, tree in enumerate(trees):
        for path, change in tree.changes.items():
            files[f"{at}/{number}/after/{path}"] = change.after
            if change.before is not None:
                files[f"{at}/{number}/before/{path}"] = change.before
        files |= {f"{at}/{number}/own/{path}": content for path, content in tree.files.items()}
        told.append(
            {
                "folder": f"{at}/{number}",
                "is_release": tree.is_release,
                "changed": sorted(tree.changes),
                "own": sorted(tree.files),
            }
        )
    return told, files


def unpacked(told: Sequence[Mapping[str, Any]], folder: Path) -> list[TreeContent]:
    """Return the trees again, from a folder with the files."""
    found = []
    for tree in told:
        root = folder / tree["folder"]
        changes = {
            path: Change(_read(root / "before" / path), (root / "after" / path).read_bytes())
            for path in tree["changed"]
        }
        own = {path: (root / "own" / path).read_bytes() for path in tree["own"]}
        found.append(TreeContent(changes, own, tree["is_release"]))
    return found


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
