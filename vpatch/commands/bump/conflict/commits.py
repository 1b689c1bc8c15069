"""The commits that settle a bump, and how they reach the branch that is checked out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import read_lock
from vpatch.commands.bump.conflict.record import ended_record
from vpatch.commands.bump.lock_text import lock_text
from vpatch.commands.bump.recipe_edit import read_recipe_text, renamed_recipe, settled_recipe
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.checkout import NewCommit, changed_paths
from vpatch.source.tree import LOCK_FILE
from vpatch.util.files import replace_file
from vpatch.workspace.selection import Request

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from vpatch.commands.bump.repository import OwnRepository
    from vpatch.library.patch import Patch
    from vpatch.workspace.context import Context

_TREE = "vllm"


@dataclass(frozen=True)
class WaitingRecipe:
    """A recipe that is unsettled, in the work tree or in what is committed.

    `text` is the recipe without that. `patches` are those that a person decides on.
    """

    name: str
    path: Path
    text: bytes
    release: str
    patches: tuple[str, ...]


class Settling:
    """What of a project settles its recipes: changed patches, the recipes, and their locks."""

    def __init__(self, context: Context, own: OwnRepository) -> None:
        self._context = context
        self._own = own
        root = own.repo.work_tree
        self._root = (root or context.project.folder).resolve()
        self.recipes = list(self._waiting())

    def _in_repo(self, path: Path) -> str:
        """A path as git has it."""
        return os.path.relpath(path.resolve(), self._root)

    def _committed(self, path: str) -> bytes | None:
        return git.content_at(self._own.repo, self._own.parent, path)

    def _waiting(self) -> Iterator[WaitingRecipe]:
        library = self._context.library
        for name, path in sorted(library.own_recipes.items()):
            place = self._in_repo(path)
            if place.startswith(".."):
                continue
            recipe, positions = library.read_recipe(path)
            mark = recipe.unsettled
            if mark is None:
                # A run that was killed may have written the file, and no commit.
                committed = read_recipe_text((self._committed(place) or b"").decode())
                mark = None if committed is None else committed.unsettled
            if mark is not None:
                text = settled_recipe(recipe, positions)
                yield WaitingRecipe(name, path, text, mark.release, mark.patches)

    def commits(
        self, changed: Context, taken: Mapping[str, Sequence[Patch]], states: str
    ) -> list[NewCommit]:
        """The commits: patches, recipes, then locks.

        Args:
            changed: the project with the settled recipes.
            taken: the patches of each recipe.
            states: what they mean, for the message.

        Raises:
            UsageError: something else is not committed.
        """
        recipes: dict[str, bytes | None] = {self._in_repo(r.path): r.text for r in self.recipes}
        locks: dict[str, bytes | None] = dict(
            each for one in self.recipes for each in self._locks(changed, one)
        )
        folders = {
            self._in_repo(patch.folder): patch.id for each in taken.values() for patch in each
        }
        patches = self._changed_patches(folders, {**recipes, **locks})
        ids = dict.fromkeys(i for f, i in folders.items() for p in patches if p.startswith(f"{f}/"))
        releases = ", ".join(dict.fromkeys(one.release for one in self.recipes))
        wanted = [
            NewCommit(f"patches: fit {', '.join(ids)} to vLLM {releases}\n", patches),
            NewCommit(f"recipes: settle vLLM {releases}\n\n{states}", recipes),
            NewCommit(f"lock: take vLLM {releases}\n", locks),
        ]
        return [
            one
            for one in wanted
            if any(self._committed(path) != content for path, content in one.files.items())
        ]

    def _changed_patches(
        self, folders: Mapping[str, str], written: Mapping[str, bytes | None]
    ) -> dict[str, bytes | None]:
        """The files of patches that are not as they are committed.

        Raises:
            UsageError: another patch or recipe is not, or a lock.
        """
        patches: dict[str, bytes | None] = {}
        others: list[str] = []
        code = [self._in_repo(path) for path in self._context.library.code]
        for one in changed_paths(self._own.repo, self._own.parent):
            path = one.path
            file = self._root / path
            content = file.read_bytes() if file.is_file() else None
            if any(path.startswith(f"{folder}/") for folder in folders):
                patches[path] = content
            elif path in written:
                is_recipe = any(self._in_repo(each.path) == path for each in self.recipes)
                if not is_recipe and content != written[path]:
                    others.append(path)
            elif any(path == folder or path.startswith(f"{folder}/") for folder in code):
                others.append(path)
        if others:
            raise UsageError(
                f"{', '.join(others)} differs from what is committed",
                hint="commit it first: no patch of these recipes is in it",
                code="bump.uncommitted",
            )
        return patches

    def _locks(self, changed: Context, one: WaitingRecipe) -> Iterator[tuple[str, bytes]]:
        """The locks that are committed of the recipe, or of the one that it is made of."""
        listed = changed.library.recipe_selection(changed.library.recipe(one.name)).patches
        for path in git.files_below(self._own.repo, self._own.parent, ""):
            if path.rpartition("/")[2] != LOCK_FILE:
                continue
            lock = read_lock(self._root / path)
            name, version = lock.recipe or "", lock.source.version or ""
            names = {name, renamed_recipe(name, version, one.release)}
            if lock.source.tree == _TREE and one.name in names:
                chosen = tuple(patch for patch in lock.chosen if patch in listed)
                if chosen or not lock.chosen:
                    request = Request(recipe=one.name, patches=chosen, security=lock.security)
                    yield path, lock_text(changed, request, _TREE)

    def write(self, branch: str, commits: Sequence[NewCommit], *, end: bool) -> str:
        """Write the files, and commit them to the branch that is checked out; its last commit.

        The branch comes last. Until then the command can run again. With `end`, the record of the
        bump goes with it.

        Raises:
            UnavailableError: it cannot be written.
            GitError: somebody else changed the branch meanwhile.
        """
        repo, parent = self._own.repo, self._own.parent
        files = {path: content for one in commits for path, content in one.files.items()}
        for path, content in files.items():
            file = self._root / path
            if content is not None and (not file.is_file() or file.read_bytes() != content):
                replace_file(file, content.decode())
        for one in self.recipes:
            # The one that is committed may be settled already.
            if one.path.read_bytes() != one.text:
                replace_file(one.path, one.text.decode())
        git.add_to_index(repo, sorted(files))
        refs: dict[str, tuple[str | None, str | None]] = ended_record(repo, branch) if end else {}
        tip = parent
        if commits:
            tip = git.write_commits(repo, parent, commits, self._own.who, datetime.now(UTC))
            refs[f"refs/heads/{branch}"] = (parent, tip)
        if refs:
            git.set_refs(repo, refs)
        return tip
