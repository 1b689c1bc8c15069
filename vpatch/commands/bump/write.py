"""A bump becomes a branch in the user's own repository, a commit for each phase."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vpatch.commands.bump.commits import BumpCommits
from vpatch.commands.bump.proof import ProofStep, prove, refuse_failed
from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.fork import Person
from vpatch.git.found import opened_source
from vpatch.git.origin import identity

if TYPE_CHECKING:
    from vpatch.commands.bump.report import BumpReport
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class WrittenBump:
    """The branch, its last commit, and the subjects of its commits.

    `kept` says for each patch that stays although vLLM does not need it, why. `proof` says what was
    tested, and what was not; it is empty if nobody wanted a proof.
    """

    branch: str
    commit: str
    subjects: tuple[str, ...]
    kept: tuple[str, ...]
    proof: tuple[ProofStep, ...] = ()


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

    The work tree stays as it is. The evidence of a smoke plan goes to the project's `evidence`.
    `prune`, `proof` and `engine` are as in `BumpOptions`.

    Raises:
        UsageError: a patch needs a person, or the repository or a recipe is not fit for it.
        VpatchError: a proof failed, or something cannot be read or written.
    """
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
                steps = prove(changed, report, writer.names, engine)
            refuse_failed(steps)
        if tip is None:
            now = datetime.now(UTC)
            tip = git.add_branch(repo, branch, parent, commits, Person(*who), now)
    subjects = tuple(commit.message.partition("\n")[0] for commit in commits)
    return WrittenBump(branch, tip, subjects, tuple(dict.fromkeys(writer.stays)), tuple(steps))
