"""Whether somebody else proposes the same: by issue, by keywords, by the code that is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vpatch.definitions import changed_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.patch import Proposal, Upstream
    from vpatch.github.client import GitHub, OpenPull, Thread
    from vpatch.outcome import Change
    from vpatch.progress import Progress


@dataclass(frozen=True)
class Hit:
    """An open thread that may be about the same, and why it was found."""

    thread: Thread
    why: str


@dataclass(frozen=True)
class Searched:
    """What was asked, what it found that is not explained, and what only touches the same files."""

    asked: tuple[str, ...]
    same: tuple[Hit, ...]
    near: tuple[Hit, ...]


def search(
    github: GitHub,
    repository: str,
    proposal: Proposal,
    declared: Sequence[Upstream],
    changes: Mapping[str, Change],
    ours: int | None,
    progress: Progress,
) -> Searched:
    """Search upstream's open threads for the same change.

    Left out are our own pull request (`ours`), the issues that the patch declares, and what the
    proposal says is something else.

    Raises:
        GitHubError: it cannot be searched.
    """
    known = {one.ref for one in declared if one.is_ == "issue"} | set(proposal.differs)
    asked: list[str] = []
    found: dict[str, Hit] = {}

    def note(thread: Thread, why: str) -> None:
        if thread.ref not in known and thread.ref != f"{repository}#{ours}":
            found.setdefault(thread.ref, Hit(thread, why))

    for query, why in _queries(repository, proposal, declared):
        asked.append(why)
        for thread in github.search(query):
            note(thread, why)
    near: list[Hit] = []
    task = progress.start("Looking at upstream's open pull requests")
    for pull in github.open_pulls(repository):
        shared = sorted(pull.files & changes.keys())
        if not shared and pull.whole:
            continue
        if pull.thread.ref in known or pull.thread.ref in found or pull.thread.number == ours:
            continue
        touched = _touched(github, pull, changes)
        if touched:
            note(pull.thread, f"it touches {touched}")
        elif shared:
            near.append(Hit(pull.thread, f"it touches {', '.join(shared)}"))
    task.done()
    asked.append("every open pull request that touches the same files")
    return Searched(tuple(asked), tuple(found.values()), tuple(near))


def _queries(
    repository: str, proposal: Proposal, declared: Sequence[Upstream]
) -> Iterator[tuple[str, str]]:
    """GitHub's search syntax, and the same in words."""
    for thread in declared:
        there, _, number = thread.ref.partition("#")
        if thread.is_ == "issue" and there == repository:
            yield (
                f"repo:{repository} is:pr is:open {number} in:body",
                f"pull requests for #{number}",
            )
    for keyword in proposal.keywords:
        phrase = keyword.replace('"', " ")
        yield f'repo:{repository} is:pr is:open "{phrase}"', f"pull requests with {keyword!r}"
        yield f'repo:{repository} is:issue is:open "{phrase}"', f"issues with {keyword!r}"


def _touched(github: GitHub, pull: OpenPull, changes: Mapping[str, Change]) -> str | None:
    """Name what a pull request touches of ours; a file without names counts as a whole."""
    hunks = github.hunks(pull.thread.repository, pull.thread.number)
    for path, change in changes.items():
        if path not in hunks:
            continue
        names: set[str] = set()
        if path.endswith(".py"):
            names = {name.rpartition(".")[2] for name, _ in changed_names(change)}
        text = hunks[path]
        if not names or text is None:
            return path
        for name in sorted(names):
            if re.search(rf"\b{re.escape(name)}\b", text):
                return f"{name} in {path}"
    return None
