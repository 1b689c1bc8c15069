"""A bump becomes a branch in the user's own repository, a commit for each phase."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from vpatch.app import selection
from vpatch.app.planned import planned
from vpatch.bump.markdown import markdown
from vpatch.bump.recipe_edit import bumped_recipe, renamed_recipe
from vpatch.bump.report import BumpReport, RecipeBump, release
from vpatch.bump.verdict import Verdict
from vpatch.checkout.apply import ApplyRequest, apply
from vpatch.checkout.lockfile import read_lock
from vpatch.checkout.transaction import CheckoutTransaction
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.branch import BranchCommit
from vpatch.git.checkout import changed_files
from vpatch.git.command import identity
from vpatch.git.fork import Person
from vpatch.git.found import opened_source
from vpatch.library.catalog import is_installed
from vpatch.source.spec import PypiSpec
from vpatch.source.tree import LOCK_FILE
from vpatch.util.plural import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from vpatch.app.context import Context
    from vpatch.bump.verdict import PatchBump
    from vpatch.git.command import FoundRepository

_GONE = frozenset([Verdict.RETIRE, Verdict.NOT_NEEDED])


@dataclass(frozen=True)
class WrittenBump:
    """The branch, its last commit, and the subjects of its commits.

    `kept` says for each patch that stays although vLLM does not need it, why.
    """

    branch: str
    commit: str
    subjects: tuple[str, ...]
    kept: tuple[str, ...]


def write_bump(context: Context, report: BumpReport, branch: str, *, prune: bool) -> WrittenBump:
    """Write what a report says to a new branch: all of it, or nothing.

    The work tree stays as it is. With `prune`, the folders of patches that nothing needs go, too.

    Raises:
        UsageError: a patch needs a person, or the repository or a recipe is not fit for it.
        VpatchError: something cannot be read or written.
    """
    _refuse_stopping(report)
    folder = context.project.folder
    with opened_source(folder) as repo:
        if repo is None or repo.work_tree is None:
            raise UsageError(
                "the project is not in a git repository",
                where=str(folder),
                hint="run git init and commit the project, or leave out --write",
                code="bump.no-repository",
            )
        parent = git.head_of(repo)
        who = identity(folder)
        if parent is None or who is None:
            raise UsageError(
                "git has no commit here" if parent is None else "git does not know who commits",
                where=str(folder),
                hint="commit the project"
                if parent is None
                else "set user.name and user.email with git config",
                code="bump.not-committable",
            )
        if git.has_branch(repo, branch):
            raise UsageError(
                f"there is a branch {branch} already",
                where=str(folder),
                hint=f"remove it (git branch -D {branch}), or name another with --branch",
                code="bump.branch-exists",
            )
        writer = _BranchWriter(context, report, repo, parent)
        commits = list(writer.commits(prune=prune))
        tip = git.add_branch(repo, branch, parent, commits, Person(*who), datetime.now(UTC))
    subjects = tuple(commit.message.partition("\n")[0] for commit in commits)
    return WrittenBump(branch, tip, subjects, tuple(dict.fromkeys(writer.kept)))


def _refuse_stopping(report: BumpReport) -> None:
    stopping = [one.id for one in report.patches if one.verdict is Verdict.NEEDS_A_PERSON]
    if stopping:
        raise UsageError(
            f"nothing is written: {', '.join(dict.fromkeys(stopping))} needs a person",
            hint="correct the patch, or name recipes without it",
            code="bump.needs-a-person",
        )


class _BranchWriter:
    """The commits of one report on one commit of the user's repository."""

    def __init__(
        self, context: Context, report: BumpReport, repo: FoundRepository, parent: str
    ) -> None:
        self._context = context
        self._report = report
        self._repo = repo
        self._parent = parent
        # Why patches stay in a recipe, or their folders in the project.
        self.kept: list[str] = []
        self._names: dict[str, str] = {}

    def commits(self, *, prune: bool) -> Iterator[BranchCommit]:
        """The commits: pins, then lists of patches, then folders of patches, then locks."""
        paths = {one.recipe: self._paths(one) for one in self._report.recipes}
        self._refuse_uncommitted()
        releases = ", ".join(dict.fromkeys(release(one.new) for one in self._report.recipes))
        pinned: dict[str, bytes | None] = {}
        retired: dict[str, bytes | None] = {}
        gone: dict[str, PatchBump] = {}
        for one in self._report.recipes:
            going = {patch.id: patch for patch in self._going(one)}
            path, new_path = paths[one.recipe]
            recipe, positions = self._context.library.read_recipe(path)
            pinned[new_path] = bumped_recipe(recipe, positions, one.old, one.new, ())
            text = bumped_recipe(recipe, positions, one.old, one.new, going)
            if text != pinned[new_path]:
                retired[new_path] = text
                gone |= going
        report = markdown(self._report, with_diffs=False)
        yield BranchCommit(f"recipes: pin vLLM {releases}\n\n{report}", pinned)
        if retired:
            number = counted(len(gone), "patch")
            facts = "\n".join(_said(patch) for patch in gone.values())
            yield BranchCommit(f"recipes: retire {number}\n\n{facts}\n", retired)
        pruned = self._pruned(gone) if prune else {}
        if pruned:
            yield BranchCommit(f"patches: remove what vLLM {releases} does not need\n", pruned)
        locks = dict(self._locks())
        if locks:
            yield BranchCommit(f"lock: take vLLM {releases}\n", locks)

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

    def _going(self, one: RecipeBump) -> Iterator[PatchBump]:
        """The patches that leave a recipe; what a patch that stays requires stays with it."""
        recipe = selection.read_recipe(
            self._context.library.recipe(one.recipe), self._context.library
        )
        verdicts = {patch.id: patch for patch in one.patches}
        going = {p for p in recipe.patches if p in verdicts and verdicts[p].verdict in _GONE}
        # A plugin that the recipe also builds may need it still.
        others = {
            p
            for p in going
            if set(one.kept_trees) & verdicts[p].new.patch.relations.needed_in.keys()
        }
        going -= others
        self.kept += [
            f"{p} stays in {one.recipe}: it is for other trees, too" for p in sorted(others)
        ]
        while True:
            needed = {
                required: patch
                for patch in recipe.patches
                if patch not in going
                for required in self._context.library.patch(patch).relations.requires
                if required in going
            }
            if not needed:
                break
            going -= needed.keys()
            self.kept += [
                f"{p} stays in {one.recipe}: {by} requires it" for p, by in sorted(needed.items())
            ]
        yield from (verdicts[p] for p in recipe.patches if p in going)

    def _paths(self, one: RecipeBump) -> tuple[Path, str]:
        """Where a recipe is, and where the new one goes, as git has it."""
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
            self._names[one.recipe] = path.stem
            return path, self._in_repo(path)
        new = path.with_name(f"{name}{path.suffix}")
        if new.exists():
            raise UsageError(
                f"there is a recipe {name} already",
                where=str(new),
                hint=f"bump others, or remove it; {path.stem} is named by its version",
                code="bump.recipe-exists",
            )
        self._names[one.recipe] = name
        return path, self._in_repo(new)

    def _pruned(self, gone: Mapping[str, PatchBump]) -> dict[str, bytes | None]:
        """The files of patches that no recipe lists and no patch names any more."""
        library = self._context.library
        bumped = {
            one.recipe for one in self._report.recipes if self._names[one.recipe] == one.recipe
        }
        listed = {
            patch: name
            for name, path in library.recipes.items()
            if name not in bumped
            for patch in library.recipe_selection(path).patches
        }
        found: dict[str, bytes | None] = {}
        for patch_id in sorted(gone):
            folder = library.patches[patch_id]
            by = listed.get(patch_id) or self._named_by(patch_id, gone)
            if by is not None:
                self.kept.append(f"{self._in_repo(folder)} stays: {by} names it")
            elif is_installed(folder):
                self.kept.append(f"{patch_id} stays: it came with vpatch")
            else:
                files = git.files_below(self._repo, self._parent, self._in_repo(folder))
                found |= dict.fromkeys(files)
        return found

    def _named_by(self, patch_id: str, gone: Mapping[str, PatchBump]) -> str | None:
        for other in self._context.library.load_all():
            relations = other.relations
            if other.id not in gone and patch_id in (*relations.requires, *relations.conflicts):
                return other.id
        return None

    def _locks(self) -> Iterator[tuple[str, bytes]]:
        """The locks that are committed, each as an apply of the new recipe would write it."""
        library = self._context.library
        by_name = {library.recipe(one.recipe).stem: one for one in self._report.recipes}
        for path in git.files_below(self._repo, self._parent, ""):
            if path.rpartition("/")[2] != LOCK_FILE or self._repo.work_tree is None:
                continue
            lock = read_lock(self._repo.work_tree / path)
            one = by_name.get(lock.recipe or "")
            if one is not None and lock.source.tree == one.new.tree:
                yield path, self._locked(one, lock.chosen)

    def _locked(self, one: RecipeBump, chosen: Iterable[str]) -> bytes:
        going = {patch.id for patch in self._going(one)}
        left = tuple(patch.new.patch for patch in one.patches if patch.id not in going)
        version = one.new.version or ""
        with ExitStack() as stack:
            place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="vpatch-")))
            spec = PypiSpec(one.new.tree, version)
            tree = stack.enter_context(self._context.tree(spec, one.new.digest))
            progress = self._context.progress
            workplace = stack.enter_context(CheckoutTransaction(place / "checkout", tree, progress))
            plan = planned(self._context, left, tree, to_write=True, before=workplace.begin)
            recipe = selection.read_recipe(
                self._context.library.recipe(one.recipe), self._context.library
            )
            named = tuple(patch for patch in chosen if patch not in going)
            request = ApplyRequest(plan, self._names[one.recipe], workplace, named, recipe.security)
            apply([request], force=False, progress=progress)
            return (place / "checkout" / LOCK_FILE).read_bytes()


def _said(patch: PatchBump) -> str:
    lines = patch.facts or (patch.reason,)
    return "\n".join([f"{patch.id}: {patch.verdict}", *(f"  {line}" for line in lines)])
