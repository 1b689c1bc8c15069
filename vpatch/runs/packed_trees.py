"""Trees as files that travel to a node: what patches change, and the own files of each tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import BaseModel

from vpatch.harness.target import TreeContent
from vpatch.planning.state import Change
from vpatch.util.digest import digest_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pydantic import JsonValue


class PackedTree(BaseModel):
    """What a job says of a tree whose files travel in a folder."""

    folder: str
    is_release: bool
    changed: list[str]
    own: list[str]

    def unpacked(self, sent: Path) -> TreeContent:
        """Return the tree again, from the folder of all that was sent."""
        root = sent / self.folder
        changes = {
            path: Change(_read(root / "before" / path), (root / "after" / path).read_bytes())
            for path in self.changed
        }
        own = {path: (root / "own" / path).read_bytes() for path in self.own}
        return TreeContent(changes, own, self.is_release)


@dataclass(frozen=True)
class PackedTrees:
    """Trees, and all their files by the paths at which they travel."""

    trees: list[PackedTree]
    files: dict[str, bytes]


def packed(trees: Sequence[TreeContent], at: str = "trees") -> PackedTrees:
    """Pack trees in a folder `at`."""
    files: dict[str, bytes] = {}
    for number, tree in enumerate(trees):
        for path, change in tree.changes.items():
            files[f"{at}/{number}/after/{path}"] = change.after
            if change.before is not None:
                files[f"{at}/{number}/before/{path}"] = change.before
        files |= {f"{at}/{number}/own/{path}": content for path, content in tree.files.items()}
    listed = [
        PackedTree(
            folder=f"{at}/{number}",
            is_release=tree.is_release,
            changed=sorted(tree.changes),
            own=sorted(tree.files),
        )
        for number, tree in enumerate(trees)
    ]
    return PackedTrees(listed, files)


def digests_of(files: Mapping[str, bytes]) -> dict[str, JsonValue]:
    """Return the digest of each file, by paths in their order."""
    return {path: digest_of(content) for path, content in sorted(files.items())}


def _read(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
