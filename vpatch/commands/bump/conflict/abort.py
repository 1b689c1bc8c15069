"""`vpatch bump --abort`: the branch of a bump goes, and what was there before comes back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.commands.bump.conflict.commits import Settling
from vpatch.commands.bump.conflict.record import ended_record, open_bumps
from vpatch.commands.bump.repository import own_repository
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.checkout import NEW, changed_paths, current_branch
from vpatch.git.errors import GitError
from vpatch.git.found import other_work_tree
from vpatch.util.plural import counted, listed

if TYPE_CHECKING:
    from vpatch.commands.bump.conflict.record import OpenBump
    from vpatch.commands.bump.repository import OwnRepository
    from vpatch.git.command import FoundRepository
    from vpatch.workspace.context import Context

_SHOWN = 4


@dataclass(frozen=True)
class AbortedBump:
    """The branch that is gone, its last commit, and what is checked out; None if that is a commit.

    The commit stays in the repository until git removes what nothing names.
    """

    branch: str
    commit: str
    checked_out: str | None


def abort_bump(context: Context) -> AbortedBump:
    """Remove the branch of a bump that waits, and check out what was there before.

    Raises:
        UsageError: no bump waits, several do, or somebody changed something on the branch.
    """
    with own_repository(context) as own:
        repo, current = own.repo, current_branch(own.repo)
        bump = _chosen(context, own, current)
        _refuse_own_commits(repo, bump)
        elsewhere = other_work_tree(repo, bump.branch)
        if elsewhere is not None:
            raise UsageError(
                f"the branch {bump.branch} is checked out in another work tree",
                where=str(elsewhere),
                hint="run vpatch bump --abort there",
                code="bump.other-work-tree",
            )
        if current == bump.branch:
            current = bump.base
            if current is not None and other_work_tree(repo, current) is not None:
                current = None  # git checks out a branch in one work tree
            _go_back(own, bump, current)
        ended = ended_record(repo, bump.branch)
        git.set_refs(repo, {f"refs/heads/{bump.branch}": (bump.tip, None), **ended})
    return AbortedBump(bump.branch, bump.tip, current)


def _chosen(context: Context, own: OwnRepository, current: str | None) -> OpenBump:
    """The bump of the branch that is checked out, or else the only one."""
    bumps = open_bumps(own.repo)
    here = [one for one in bumps if one.branch == current] or bumps
    if len(here) == 1:
        return here[0]
    where = str(context.project.folder)
    if not here and current is not None and Settling(context, own).recipes:
        raise UsageError(
            f"it is not known where the bump on {current} began: another clone made this branch",
            where=where,
            hint="check out the branch that you want, and remove this one: "
            f"git branch -D {current}",
            code="bump.other-clone",
        )
    if not here:
        raise UsageError(
            "no bump of this repository waits for a person",
            where=where,
            hint="a branch without conflicts is yours: git branch -D removes it",
            code="bump.none-open",
        )
    raise UsageError(
        f"several bumps wait: {listed([one.branch for one in here], _SHOWN)}",
        where=where,
        hint=f"check out the one that is to go: git switch {here[0].branch}",
        code="bump.several-open",
    )


def _refuse_own_commits(repo: FoundRepository, bump: OpenBump) -> None:
    if git.object_at(repo, f"refs/heads/{bump.branch}") == bump.tip:
        return
    number = git.count_commits(repo, bump.tip, bump.branch)
    what = f"has {counted(number, 'commit')}" if number else "was changed by a commit"
    raise UsageError(
        f"the branch {bump.branch} {what} that vpatch bump did not make",
        hint=f"git switch {bump.base or bump.parent[:12]} keeps the branch, and git branch -D "
        f"{bump.branch} removes it with these commits",
        code="bump.own-commits",
    )


def _go_back(own: OwnRepository, bump: OpenBump, base: str | None) -> None:
    """Check out what was there before, with the files as they were.

    `base` is its branch; None checks out its commit.

    Raises:
        UsageError: a file was changed, or the old branch moved on.
    """
    repo = own.repo
    if base is not None and git.object_at(repo, f"refs/heads/{base}") != bump.parent:
        raise UsageError(
            f"the branch {base} is not where it was when the bump began",
            hint=f"check out the branch that you want, such as git switch {base}, and run the "
            "command again",
            code="bump.base-moved",
        )
    before = {one.path for one in changed_paths(repo, bump.parent) if one.after != NEW}
    changes = changed_paths(repo, bump.tip)
    changed = [one.path for one in changes if one.after != NEW]
    # A run that was killed may have put the files back, and not what is checked out.
    if not before:
        changed = []
    old = {*git.files_below(repo, bump.parent, "")}
    changed += [one.path for one in changes if one.after == NEW and before and one.path in old]
    if changed:
        raise UsageError(
            f"{listed(changed, _SHOWN)} {'has' if len(changed) == 1 else 'have'} changes that "
            "would be lost",
            where=str(repo.work_tree),
            hint="keep them with git stash or a commit, or take them back with git restore; then "
            "run the command again",
            code="bump.own-changes",
        )
    try:
        git.go_back(repo, bump.tip, bump.parent, base)
    except GitError as error:
        raise UsageError(
            f"the files of {base or bump.parent[:12]} cannot be put back: {error.gist}",
            where=str(repo.work_tree),
            hint="move the file away that is in the way, and run the command again",
            code="bump.own-changes",
        ) from error
