"""Where upstream's commits between two releases are read: a clone, or GitHub."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vpatch.errors import UnusedOptionError, UsageError
from vpatch.git.file_history import ClonedHistory
from vpatch.git.found import opened_source
from vpatch.util.extras import require

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from vpatch.declare.target import Target
    from vpatch.git.file_history import FileRevision
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context


class UpstreamHistory(Protocol):
    """The commits between two releases. `description` names the place that they are read from."""

    @property
    def description(self) -> str: ...

    def changes(self, path: str) -> Sequence[FileRevision]:
        """Return what commits make of a file, the oldest first."""


@dataclass(frozen=True)
class CommitsFrom:
    """What to ask for upstream's commits: a clone, GitHub, or nobody."""

    clone: Path | None = None
    github: bool = False

    def refuse(self, context: Context) -> None:
        """Refuse what cannot be asked, before anything takes time.

        Raises:
            UsageError: the options contradict each other.
            UnavailableError: a package is missing.
        """
        if self.github and self.clone is not None:
            raise UnusedOptionError(
                "--github would have no effect with --clone", hint="leave one of the two out"
            )
        if self.github and context.offline:
            raise UnusedOptionError(
                "--github asks GitHub, and --offline forbids it",
                hint="leave one of the two out, or give --clone",
            )
        if self.github:
            require("upstream", "--github")


def opened_history(
    context: Context, asked: CommitsFrom, old: Pin, new: Pin, stack: ExitStack
) -> UpstreamHistory | None:
    """Open what knows the commits between two pins; None if nobody is to be asked.

    Raises:
        UsageError: a pin is a folder, or the clone lacks one of the two.
        GitHubError: GitHub lacks one of the two, refuses, or fails.
    """
    if asked.clone is None and not asked.github:
        return None
    target = context.target(old.tree)
    before, after = (_revision(target, pin) for pin in (old, new))
    if asked.clone is not None:
        repo = stack.enter_context(opened_source(asked.clone))
        if repo is None:
            raise UsageError(
                "is not a git repository",
                where=str(asked.clone),
                hint=f"clone {target.repository} there, or give --github",
                code="bump.no-clone",
            )
        cloned = ClonedHistory(repo, f"{asked.clone}, {before}..{after}", before, after)
        cloned.refuse_missing()
        return cloned
    # Only few commands need it, and PyGithub takes its time.
    from vpatch.github.file_history import GitHubHistory  # noqa: PLC0415

    github = context.github(stack, target)
    if github.token is None:
        raise UsageError(
            f"{github.host} tells this only with a token, and vpatch found none",
            hint="gh auth login, set GH_TOKEN, or give --clone",
            code="bump.no-token",
        )
    return GitHubHistory.between(github, target.repository, before, after)


def _revision(target: Target, pin: Pin) -> str:
    """The tag of a release, or the commit of a repository."""
    if pin.kind == "pypi" and pin.version:
        return target.tag.replace("{version}", pin.version)
    if pin.kind == "git":
        return pin.digest.partition(":")[2]
    raise UsageError(
        f"{pin.label} is a folder, and has no commits",
        hint="leave out --clone and --github, or name a release",
        code="bump.no-commits",
    )
