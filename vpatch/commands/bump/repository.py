"""The git repository of a project, in which a bump commits."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.git import branch as git
from vpatch.git.fork import Person
from vpatch.git.found import opened_source
from vpatch.git.origin import identity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vpatch.git.command import FoundRepository
    from vpatch.workspace.context import Context


@dataclass(frozen=True)
class OwnRepository:
    """The user's repository, the commit that is checked out, and who commits."""

    repo: FoundRepository
    parent: str
    who: Person


@contextmanager
def own_repository(context: Context) -> Iterator[OwnRepository]:
    """Open the repository that a project lies in.

    Raises:
        UsageError: there is none, or nobody can commit there.
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
        yield OwnRepository(repo, parent, Person(*who))
