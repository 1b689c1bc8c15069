"""What imported patches mean for other releases, and which releases they claim by that."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from packaging.version import Version

from vpatch.commands.importing.claims import claimed_before, claimed_range
from vpatch.commands.importing.proof import OnRelease, on_release
from vpatch.deriving.other_releases import OtherFile
from vpatch.planning.state import State
from vpatch.source.spec import PypiSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vpatch.commands.importing.draft import Draft
    from vpatch.library.patch import Patch
    from vpatch.source.tree import Tree
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class ReleaseComparison:
    """Patches on top of `tree`, beside other releases.

    `asked` are the releases to compare, None for all in the cache. `release` is the one that has
    the changes already, if `tree` is that without them.
    """

    context: Context
    asked: tuple[str, ...] | None
    tree: Tree
    release: Tree | None

    def other_files(self, paths: Sequence[str]) -> dict[str, list[OtherFile]]:
        """What files are in the releases to compare; in one that moved a file, at its new place."""
        contents: dict[str, dict[bytes, list[str]]] = {path: {} for path in paths}
        for version in self._releases():
            with self.context.tree(PypiSpec(self.tree.pin.tree, version)) as tree:
                there = tree.paths()
                known = frozenset(there)
                for path in paths:
                    name = f"/{path.rpartition('/')[2]}"
                    same = [path] if path in known else [p for p in there if p.endswith(name)]
                    if len(same) == 1:
                        contents[path].setdefault(tree.read(same[0]), []).append(version)
        return {
            path: [OtherFile(tuple(versions), content) for content, versions in of_path.items()]
            for path, of_path in contents.items()
        }

    def rows(self, patches: Sequence[Patch], drafts: Sequence[Draft]) -> list[list[OnRelease]]:
        """What each patch means on each of the releases to compare."""
        versions = self._releases()
        if not versions:
            return []
        rows: list[list[OnRelease]] = []
        task = self.context.progress.start(
            "Comparing releases", total=len(versions), unit="release"
        )
        for version in versions:
            with ExitStack() as opened:
                tree = self.release
                if tree is None or tree.pin.version != version:
                    spec = PypiSpec(self.tree.pin.tree, version)
                    tree = opened.enter_context(self.context.tree(spec))
                rows.append(on_release(patches, drafts, tree, self.context.answers))
            task.advance(1)
        self.context.answers.save()
        task.done()
        return rows

    def _releases(self) -> list[str]:
        own = self.tree.pin.version
        asked = self.asked
        if asked is None:
            asked = self.context.cache.versions(self.tree.pin.tree)
        others = [version for version in asked if version != own]
        if self.release is None:
            return others
        return sorted([*others, str(own)], key=Version)

    def claim(self, releases: Sequence[OnRelease]) -> str:
        """The releases that a patch is needed in, as far as these tell."""
        origin = Version(str(self.tree.pin.version))
        needed = {
            Version(one.version): one.state in {State.NEEDED, State.CONFLICT, State.BLOCKED}
            for one in releases
        }
        if self.release is not None:
            return claimed_before(needed, origin)
        return claimed_range({**needed, origin: True}, origin)

    def first_with_it(self, releases: Sequence[OnRelease]) -> str:
        """The first release of those up to the origin that have the change."""
        origin = Version(str(self.tree.pin.version))
        first = origin
        for one in sorted(releases, key=lambda one: Version(one.version), reverse=True):
            if Version(one.version) < origin:
                if one.state is not State.UPSTREAMED:
                    break
                first = Version(one.version)
        return str(first)
