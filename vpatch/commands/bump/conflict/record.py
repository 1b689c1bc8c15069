"""A bump that waits for a person: its branch, and where it began, on record in the repository."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from vpatch.errors import VpatchError
from vpatch.git import branch as git
from vpatch.git.command import text_from
from vpatch.util.validation import first_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from vpatch.commands.bump.repository import OwnRepository
    from vpatch.git.checkout import NewCommit
    from vpatch.git.command import FoundRepository

_REFS = "refs/vpatch/bump/"
_Commit = Annotated[str, Field(pattern=r"\A[0-9a-f]{40,64}\z")]


class OpenBump(BaseModel):
    """What `--abort` goes back to.

    Attributes:
        branch: the branch that vpatch made.
        tip: the last commit that vpatch made there.
        base: the branch that was checked out; None where none was.
        parent: the commit that was.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    branch: str
    tip: _Commit
    base: str | None
    parent: _Commit


def ref_of(branch: str) -> str:
    """The ref that names the record of a branch."""
    return f"{_REFS}{branch}"


def begin_bump(
    own: OwnRepository,
    branch: str,
    base: str | None,
    commits: Sequence[NewCommit],
    when: datetime,
) -> str:
    """Make a branch and its record, both or none, and return the last commit.

    Raises:
        UnavailableError: it cannot be written.
        GitError: somebody made the branch meanwhile.
    """
    tip = git.write_commits(own.repo, own.parent, commits, own.who, when)
    record = OpenBump(branch=branch, tip=tip, base=base, parent=own.parent)
    blob = git.write_blob(own.repo, record.model_dump_json(indent=2).encode() + b"\n")
    old = git.object_at(own.repo, ref_of(branch))
    git.set_refs(own.repo, {f"refs/heads/{branch}": (None, tip), ref_of(branch): (old, blob)})
    return tip


def ended_record(repo: FoundRepository, branch: str) -> dict[str, tuple[str | None, str | None]]:
    """What `set_refs` takes to remove the record of a branch; empty where there is none."""
    ref = ref_of(branch)
    record = git.object_at(repo, ref)
    return {} if record is None else {ref: (record, None)}


def open_bumps(repo: FoundRepository) -> list[OpenBump]:
    """The bumps on record whose branch is there.

    Raises:
        VpatchError: a record is damaged.
    """
    bumps: list[OpenBump] = []
    for line in text_from(repo, "for-each-ref", "--format=%(refname)", _REFS).splitlines():
        try:
            bump = OpenBump.model_validate_json(git.read_blob(repo, line))
        except ValidationError as error:
            raise VpatchError(
                f"the record of a bump is damaged: {first_of(error)}",
                where=line,
                hint=f"remove it: git update-ref -d {line}",
                code="bump.damaged-record",
            ) from error
        if git.has_branch(repo, bump.branch):
            bumps.append(bump)
    return bumps
