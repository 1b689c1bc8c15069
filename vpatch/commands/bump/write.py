"""A bump becomes a branch in the user's own repository, a commit for each phase."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.commands.bump.commits import BumpCommits
from vpatch.commands.bump.conflict.record import begin_bump
from vpatch.commands.bump.proof import ProofStep, prove, refuse_failed
from vpatch.commands.bump.repository import own_repository
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.checkout import current_branch

if TYPE_CHECKING:
    from vpatch.commands.bump.commits import UnsettledRecipe
    from vpatch.commands.bump.report import BumpReport
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class WrittenBump:
    """The branch, its last commit, and the subjects of its commits.

    `kept` says for each patch that stays although vLLM does not need it, why. `proof` says what was
    tested, and what was not; it is empty if nobody wanted a proof. `unsettled` are the recipes that
    wait for a person.
    """

    branch: str
    commit: str
    subjects: tuple[str, ...]
    kept: tuple[str, ...]
    proof: tuple[ProofStep, ...] = ()
    unsettled: tuple[UnsettledRecipe, ...] = ()


def write_bump(
    context: Context,
    report: BumpReport,
    branch: str,
    *,
    prune: bool,
    proof: bool,
    engine: str | None,
) -> WrittenBump:
    """Write what a report says to a new branch, and what it proposes: all of it, or nothing.

    A recipe whose patches need a person says so there, and nothing is made of it until they fit.

    The work tree stays as it is. The evidence of a smoke plan goes to the project's `evidence`.
    `prune`, `proof` and `engine` are as in `BumpOptions`.

    Raises:
        UsageError: only code of a patch can tell and it is not trusted, or the repository or a
            recipe is not fit for it.
        VpatchError: a proof failed, or something cannot be read or written.
    """
    folder = context.project.folder
    with own_repository(context) as own:
        repo, parent = own.repo, own.parent
        git.refuse_branch_name(repo, branch)
        writer = BumpCommits(context, report, repo, parent)
        commits = writer.commits(prune=prune)
        tip = None
        if git.has_branch(repo, branch):
            # It may be of a run that was killed once the branch was there.
            tip = git.branch_with(repo, branch, parent, commits)
            if tip is None:
                raise UsageError(
                    f"there is a branch {branch} already",
                    where=str(folder),
                    hint=f"remove it (git branch -D {branch}), or name another with --branch",
                    code="bump.branch-exists",
                )
        steps: list[ProofStep] = []
        if proof:
            with writer.staged() as changed:
                steps = prove(changed, writer.proof_request(engine))
            refuse_failed(steps)
        if tip is None:
            now = datetime.now(UTC)
            if writer.unsettled:
                tip = begin_bump(own, branch, current_branch(repo), commits, now)
            else:
                tip = git.add_branch(repo, branch, parent, commits, own.who, now)
    return WrittenBump(
        branch,
        tip,
        tuple(commit.subject for commit in commits),
        tuple(dict.fromkeys(writer.stays)),
        tuple(steps),
        tuple(writer.unsettled),
    )
