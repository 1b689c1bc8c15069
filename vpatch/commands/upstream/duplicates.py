"""Whether somebody else proposes the same: by issue, by keywords, by the code that is touched."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from vpatch.planning.definitions import changed_names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vpatch.declare.patch import Proposal, Upstream
    from vpatch.github.client import GitHub, OpenPull, Thread
    from vpatch.planning.state import Change
    from vpatch.progress import Progress


# Letters of a line that is not found everywhere.
_TELLING = 12


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
    places: Sequence[tuple[GitHub, str]],
    proposal: Proposal | None,
    declared: Sequence[Upstream],
    changes: Mapping[str, Change],
    ours: str | None,
    progress: Progress,
) -> Searched:
    """Search the open threads of some repositories for the same change.

    Left out are our own pull request (`ours`), the issues that the patch declares, and what the
    proposal says is something else.

    Raises:
        GitHubError: it cannot be searched.
    """
    known = {one.ref for one in declared if one.is_ == "issue"}
    known |= set(proposal.differs if proposal else ())
    keywords = proposal.keywords if proposal else ()
    asked: dict[str, None] = {}
    same: dict[str, Hit] = {}
    near: list[Hit] = []

    def note(thread: Thread, why: str) -> None:
        if thread.ref not in known and thread.ref != ours:
            same.setdefault(thread.ref, Hit(thread, why))

    for github, repository in places:
        for query, why in _queries(repository, keywords, declared):
            asked[why] = None
            for thread in github.search(query):
                note(thread, why)
        task = progress.start(f"Looking at the open pull requests of {repository}")
        for pull in github.open_pulls(repository):
            if pull.thread.ref in {*known, *same, ours}:
                continue
            touched = _touched_part(github, pull, changes)
            if touched:
                note(pull.thread, f"it touches {touched}")
            elif shared := sorted(pull.files & changes.keys()):
                near.append(Hit(pull.thread, f"it touches {', '.join(shared)}"))
        task.done()
    asked["every open pull request that touches the same files"] = None
    return Searched(tuple(asked), tuple(same.values()), tuple(near))


def _queries(
    repository: str, keywords: Sequence[str], declared: Sequence[Upstream]
) -> Iterator[tuple[str, str]]:
    """GitHub's search syntax, and the same in words."""
    for thread in declared:
        there, _, number = thread.ref.partition("#")
        if thread.is_ == "issue" and there == repository:
            yield (
                f"repo:{repository} is:pr is:open {number} in:body",
                f"pull requests for #{number}",
            )
    for keyword in keywords:
        phrase = keyword.replace('"', " ")
        yield f'repo:{repository} is:pr is:open "{phrase}"', f"pull requests with {keyword!r}"
        yield f'repo:{repository} is:issue is:open "{phrase}"', f"issues with {keyword!r}"


def _touched_part(github: GitHub, pull: OpenPull, changes: Mapping[str, Change]) -> str | None:
    """Name what a pull request touches of ours: a definition, or a line that we take or touch.

    Of a file without names, or of one that GitHub does not show, it is the file as a whole.
    """
    if pull.whole and not pull.files & changes.keys():
        return None  # nothing of it need be fetched
    hunks = github.hunks(pull.thread.repository, pull.thread.number)
    for path, change in changes.items():
        if path not in hunks:
            continue
        text = hunks[path]
        if text is None or not path.endswith(".py"):
            return path
        names = {name.rpartition(".")[2] for name, _ in changed_names(change)}
        for name in sorted(names):
            if re.search(rf"\b{re.escape(name)}\b", text):
                return f"{name} in {path}"
        # A hunk within a long function does not name it.
        shown = {line[1:].strip() for line in text.splitlines() if line[:1] in {" ", "-"}}
        line = next((one for one in _lines_at(change) if one in shown), None)
        if line is not None:
            return f"the line {line!r} in {path}"
    return None


def _lines_at(change: Change) -> list[str]:
    """The lines that a change takes, or between which it puts some, if they say anything."""
    before = (change.before or b"").decode(errors="replace").splitlines()
    after = change.after.decode(errors="replace").splitlines()
    lines: list[str] = []
    for tag, i, j, _, _ in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "insert":
            lines += before[max(0, i - 1) : i + 1]
        elif tag != "equal":
            lines += before[i:j]
    return [line.strip() for line in lines if len(line.strip()) >= _TELLING]
