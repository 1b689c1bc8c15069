"""The commits that a bump makes, a phase each: files of the user's repository, and messages."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.checkout.lockfile import read_lock
from vpatch.commands.bump.lock_text import lock_text
from vpatch.commands.bump.markdown import markdown
from vpatch.commands.bump.next_project import StagedRecipe, staged
from vpatch.commands.bump.proof import BumpProof
from vpatch.commands.bump.recipe_edit import bumped_recipe, renamed_recipe
from vpatch.commands.bump.report import BumpReport, RecipeBump, release
from vpatch.commands.bump.verdict import Verdict
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.checkout import NewCommit, changed_files
from vpatch.library.catalog import is_installed
from vpatch.library.patch import DECLARATION
from vpatch.planning.state import State
from vpatch.source.tree import LOCK_FILE
from vpatch.util.plural import counted
from vpatch.workspace import selection
from vpatch.workspace.unsettled_recipe import edit_command, refuse_unsettled

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vpatch.commands.bump.verdict import PatchBump, PatchProposal
    from vpatch.git.command import FoundRepository
    from vpatch.workspace.context import Context

_GONE = frozenset([Verdict.RETIRE, Verdict.NOT_NEEDED])


@dataclass(frozen=True)
class UnsettledPatch:
    """A patch that waits for a person: why, and the command that begins to make it fit."""

    patch: str
    reason: str
    next: str


@dataclass(frozen=True)
class UnsettledRecipe:
    """A recipe of the branch that waits for a person, by its new name."""

    recipe: str
    release: str
    patches: tuple[UnsettledPatch, ...]


class BumpCommits:
    """The commits of one report on one commit of the user's repository."""

    def __init__(
        self, context: Context, report: BumpReport, repo: FoundRepository, parent: str
    ) -> None:
        self._context = context
        self._report = report
        self._repo = repo
        self._parent = parent
        # Why patches stay in a recipe, or their folders in the project.
        self.stays: list[str] = []
        self.recipes: dict[str, StagedRecipe] = {}
        # The new name of each recipe.
        self.names: dict[str, str] = {}
        # Why patches are left to a person.
        self._left: dict[str, str] = {}
        self.proposed = dict(self._proposals())
        self.unsettled: list[UnsettledRecipe] = []

    def commits(self, *, prune: bool) -> list[NewCommit]:
        """The commits: pins, lists of patches, proposals, folders of patches, then locks.

        Raises:
            UsageError: the repository or a recipe is not fit for it.
            UnsettledRecipeError: a recipe is unsettled.
        """
        paths = {one.recipe: self._paths(one) for one in self._report.recipes}
        self._refuse_uncommitted()
        releases = ", ".join(dict.fromkeys(release(one.new) for one in self._report.recipes))
        pinned: dict[str, bytes | None] = {}
        retired: dict[str, bytes | None] = {}
        gone: dict[str, PatchBump] = {}
        for one in self._report.recipes:
            going = {patch.id: patch for patch in self.going(one)}
            path, new = paths[one.recipe]
            recipe, positions = self._context.library.read_recipe(path)
            new_path = self._in_repo(new)
            refuse_unsettled(path, self._context.library)
            open_ones = self._add_unsettled(one)
            pinned[new_path] = bumped_recipe(recipe, positions, one.old, one.new, (), open_ones)
            text = bumped_recipe(recipe, positions, one.old, one.new, going, open_ones)
            if text != pinned[new_path]:
                retired[new_path] = text
                gone |= going
            self.recipes[self.names[one.recipe]] = StagedRecipe(text, new, path)
        report = markdown(self._report, with_diffs=False)
        commits = [NewCommit(f"recipes: pin vLLM {releases}\n\n{report}", pinned)]
        if retired:
            number = counted(len(gone), "patch")
            facts = "\n".join(_describe(patch) for patch in gone.values())
            commits.append(NewCommit(f"recipes: retire {number}\n\n{facts}\n", retired))
        if self.proposed:
            commits.append(self._proposal_commit())
        pruned = self._files_to_prune(gone) if prune else {}
        if pruned:
            what = f"patches: remove what vLLM {releases} does not need\n"
            commits.append(NewCommit(what, pruned))
        with self.staged() as changed:
            locks = dict(self._locks(changed))
        if locks:
            commits.append(NewCommit(f"lock: take vLLM {releases}\n", locks))
        return commits

    def staged(self) -> AbstractContextManager[Context]:
        """A context with the new recipes and with the proposed patches; after `commits`."""
        texts = {patch: one.text for patch, one in self.proposed.items()}
        return staged(self._context, self.recipes, texts)

    def _add_unsettled(self, one: RecipeBump) -> list[str]:
        """The patches of a recipe that are left to a person."""
        version = one.new.version or ""
        patches = tuple(
            UnsettledPatch(p.id, self._left[p.id], edit_command(p.id, version))
            for p in one.patches
            if p.id in self._left
        )
        if patches:
            self.unsettled.append(UnsettledRecipe(self.names[one.recipe], version, patches))
        return [each.patch for each in patches]

    def proof_request(self, engine: str | None) -> BumpProof:
        """What to test before the branch is written; after `commits`."""
        changed = {
            one.id: one
            for one in self._report.patches
            if one.verdict is not Verdict.KEEP and one.id not in self._left
        }
        unsettled = tuple(one.recipe for one in self.unsettled)
        return BumpProof(
            self._report.recipes[0].new.version or "",
            tuple(changed),
            frozenset(patch for patch, one in changed.items() if one.verdict in _GONE),
            tuple(name for name in self.names.values() if name not in unsettled),
            unsettled,
            engine,
        )

    def _proposals(self) -> Iterator[tuple[str, PatchProposal]]:
        """The proposals for patches of the repository, by id.

        Raises:
            UsageError: only code of a patch can tell, and it is not trusted.
        """
        untrusted: list[str] = []
        proposals: dict[str, PatchProposal] = {}
        for one in self._report.patches:
            if one.verdict is not Verdict.NEEDS_A_PERSON:
                continue
            folder = one.new.patch.folder
            if one.new.state is State.UNTRUSTED:
                untrusted.append(one.id)
            elif one.proposal is None:
                self._left[one.id] = one.reason
            elif is_installed(folder) or self._in_repo(folder).startswith(".."):
                self._left[one.id] = "the patch is not in this repository"
            elif proposals.setdefault(one.id, one.proposal).text != one.proposal.text:
                self._left[one.id] = "it needs another change for each recipe"
        if untrusted:
            raise UsageError(
                f"nothing is written: only code of {', '.join(untrusted)} can tell what to do",
                hint="read it, and run vpatch trust; or name recipes without it",
                code="bump.needs-a-person",
            )
        for patch_id in self._left:
            proposals.pop(patch_id, None)
        yield from proposals.items()

    def _proposal_commit(self) -> NewCommit:
        what = ", ".join(self.proposed)
        changes = "\n".join(f"{patch}: {one.said}" for patch, one in self.proposed.items())
        files: dict[str, bytes | None] = {
            self._in_repo(self._context.library.patches[patch] / DECLARATION): one.text.encode()
            for patch, one in self.proposed.items()
        }
        return NewCommit(
            f"patches: propose a change of {what}\n\n{changes}\n\n"
            "This is a proposal. It fits both releases, but vpatch does not know what the code\n"
            "means. Read it before you merge it.\n",
            files,
        )

    def _refuse_uncommitted(self) -> None:
        """Refuse changes of patches and recipes that the branch would not have."""
        folders = [self._in_repo(path) for path in self._context.library.code]
        changed = [
            path
            for path in changed_files(self._repo)
            if any(path == folder or path.startswith(f"{folder}/") for folder in folders)
        ]
        for one in self._report.recipes:
            path = self._context.library.recipe(one.recipe)
            committed = git.content_at(self._repo, self._parent, self._in_repo(path))
            if committed != path.read_bytes():
                changed.append(self._in_repo(path))
        if changed:
            raise UsageError(
                f"{', '.join(sorted(set(changed)))} differs from what is committed",
                hint="commit it first: the branch begins at the commit that is checked out",
                code="bump.uncommitted",
            )

    def _in_repo(self, path: Path) -> str:
        """A path as git has it."""
        root = self._repo.work_tree
        return os.path.relpath(path.resolve(), root.resolve()) if root else str(path)

    def going(self, one: RecipeBump) -> Iterator[PatchBump]:
        """The patches that leave a recipe; what a patch that stays requires stays with it."""
        recipe = selection.read_recipe(
            self._context.library.recipe(one.recipe), self._context.library
        )
        verdicts = {patch.id: patch for patch in one.patches}
        going = {p for p in recipe.patches if p in verdicts and verdicts[p].verdict in _GONE}
        # A plugin that the recipe also builds may need it still.
        staying = {
            p: "it is for other trees, too"
            for p in going
            if set(one.kept_trees) & verdicts[p].new.patch.relations.needed_in.keys()
        }
        while True:
            going -= staying.keys()
            reasons = sorted(staying.items())
            self.stays += [f"{p} stays in {one.recipe}: {reason}" for p, reason in reasons]
            staying = {
                required: f"{patch} requires it"
                for patch in recipe.patches
                if patch not in going
                for required in self._context.library.patch(patch).relations.requires
                if required in going
            }
            if not staying:
                break
        yield from (verdicts[p] for p in recipe.patches if p in going)

    def _paths(self, one: RecipeBump) -> tuple[Path, Path]:
        """Where a recipe is, and where the new one goes."""
        path = self._context.library.recipe(one.recipe)
        if is_installed(path) or self._in_repo(path).startswith(".."):
            raise UsageError(
                "the recipe is not in the project's repository",
                where=str(path),
                hint="copy it to recipes/ of the project, and commit it",
                code="bump.foreign-recipe",
            )
        name = renamed_recipe(path.stem, one.old.version or "", one.new.version or "")
        if name is None:
            self.names[one.recipe] = path.stem
            return path, path
        new = path.with_name(f"{name}{path.suffix}")
        if new.exists():
            raise UsageError(
                f"there is a recipe {name} already",
                where=str(new),
                hint=f"bump others, or remove it; {path.stem} is named by its version",
                code="bump.recipe-exists",
            )
        self.names[one.recipe] = name
        return path, new

    def _files_to_prune(self, gone: Mapping[str, PatchBump]) -> dict[str, bytes | None]:
        """The files of patches that no recipe lists and no patch names any more."""
        library = self._context.library
        bumped = {
            one.recipe for one in self._report.recipes if self.names[one.recipe] == one.recipe
        }
        listed = {
            patch: name
            for name, path in library.recipes.items()
            if name not in bumped
            for patch in library.recipe_selection(path).patches
        }
        pruned: dict[str, bytes | None] = {}
        for patch_id in sorted(gone):
            folder = library.patches[patch_id]
            by = listed.get(patch_id) or self._named_by(patch_id, gone)
            if by is not None:
                self.stays.append(f"{self._in_repo(folder)} stays: {by} names it")
            elif is_installed(folder):
                self.stays.append(f"{patch_id} stays: it came with vpatch")
            else:
                files = git.files_below(self._repo, self._parent, self._in_repo(folder))
                pruned |= dict.fromkeys(files)
        return pruned

    def _named_by(self, patch_id: str, gone: Mapping[str, PatchBump]) -> str | None:
        for other in self._context.library.load_all():
            relations = other.relations
            if other.id not in gone and patch_id in (*relations.requires, *relations.conflicts):
                return other.id
        return None

    def _locks(self, changed: Context) -> Iterator[tuple[str, bytes]]:
        """The locks that are committed, each as an apply of the new recipe would write it."""
        library = self._context.library
        by_name = {library.recipe(one.recipe).stem: one for one in self._report.recipes}
        for path in git.files_below(self._repo, self._parent, ""):
            if path.rpartition("/")[2] != LOCK_FILE or self._repo.work_tree is None:
                continue
            lock = read_lock(self._repo.work_tree / path)
            one = by_name.get(lock.recipe or "")
            if one is None or lock.source.tree != one.new.tree:
                continue
            if any(each.recipe == self.names[one.recipe] for each in self.unsettled):
                self.stays.append(f"{path} stays: {self.names[one.recipe]} is unsettled")
                continue
            going = {patch.id for patch in self.going(one)}
            chosen = tuple(patch for patch in lock.chosen if patch not in going)
            if lock.chosen and not chosen:
                self.stays.append(
                    f"{path} stays: vLLM {release(one.new)} needs none of its patches"
                )
                continue
            request = selection.Request(
                recipe=self.names[one.recipe], patches=chosen, security=lock.security
            )
            yield path, lock_text(changed, request, one.new.tree)


def _describe(patch: PatchBump) -> str:
    lines = patch.facts or (patch.reason,)
    return "\n".join([f"{patch.id}: {patch.verdict}", *(f"  {line}" for line in lines)])
