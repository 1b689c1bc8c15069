"""The commits of a clone between two releases, and what each makes of a file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.errors import UsageError
from vpatch.git.command import run
from vpatch.git.errors import GitError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vpatch.git.command import FoundRepository

_NOTHING = "0" * 40
_FORMAT = "--format=%H%x00%P%x00%ct%x00%s"


@dataclass(frozen=True)
class FileRevision:
    """What a commit makes of a file; None where there is no such file.

    `when` is in seconds since 1970. `subject` is the first line of the commit's message.
    """

    commit: str
    subject: str
    when: int
    before: bytes | None
    after: bytes | None


@dataclass(frozen=True)
class ClonedHistory:
    """The commits of a clone from one release to a later one, by their tags or commits."""

    repo: FoundRepository
    description: str
    old: str
    new: str

    def refuse_missing(self) -> None:
        """Refuse a clone that lacks one of the releases.

        Raises:
            UsageError: it does.
        """
        for revision in (self.old, self.new):
            name = f"{revision}^{{commit}}"
            try:
                run(self.repo, "rev-parse", "--quiet", "--verify", "--end-of-options", name)
            except GitError as error:
                raise UsageError(
                    f"the clone has no {revision}",
                    where=self.description,
                    hint="fetch it there: git fetch --tags",
                    code="git.no-such-ref",
                ) from error

    def changes(self, path: str) -> list[FileRevision]:
        """Return what commits make of a file, the oldest first; no merges.

        Raises:
            UsageError: the clone was made without the contents of files.
        """
        between = ("--end-of-options", f"{self.old}..{self.new}", "--", path)
        listed = run(self.repo, "log", "--reverse", "--no-merges", _FORMAT, *between)
        rows = [line.split("\0", 3) for line in listed.decode(errors="replace").splitlines()]
        # The first commit has no parent.
        parents = [row[1].partition(" ")[0] or _NOTHING for row in rows]
        befores = _contents(self.repo, [f"{parent}:{path}" for parent in parents])
        afters = _contents(self.repo, [f"{row[0]}:{path}" for row in rows])
        revisions = [
            FileRevision(commit, subject, int(when), before, after)
            for (commit, _, when, subject), before, after in zip(rows, befores, afters, strict=True)
        ]
        # A commit that changes a file has it before or after: here git has not fetched it.
        if any(one.before is None and one.after is None for one in revisions):
            raise UsageError(
                f"the clone lacks contents of {path}",
                where=self.description,
                hint="fetch them there: git fetch --refetch --no-filter --tags, "
                "or give a clone that was made without --filter",
                code="git.partial-clone",
            )
        return revisions


def _contents(repo: FoundRepository, names: Sequence[str]) -> Iterator[bytes | None]:
    """The blobs that are named; None for what is not there, such as before the first commit."""
    stdin = "".join(f"{name}\n" for name in names).encode(errors="surrogateescape")
    output = run(repo, "cat-file", "--batch", "--buffer", stdin=stdin)
    at = 0
    for name in names:
        head, _, _ = output[at : at + len(name) + 200].partition(b"\n")
        at += len(head) + 1
        if head.endswith(b" missing"):
            yield None
            continue
        size = int(head.split()[-1])
        yield output[at : at + size]
        at += size + 1
