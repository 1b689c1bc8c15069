"""What GitHub says of the threads that patches name, kept for when there is no network."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from vpatch.errors import UnavailableError
from vpatch.github.client import GitHub, Thread
from vpatch.github.errors import UnreachableError
from vpatch.util.plain_records import as_record
from vpatch.util.plural import age_in_words
from vpatch.util.record_store import RecordStore
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from packaging.version import Version

    from vpatch.declare.patch import Upstream

_VERSION = "{version}"


class UnknownThreadError(UnavailableError):
    """GitHub is out of reach, and was not asked before."""

    code = "upstream.unknown-thread"


@dataclass(frozen=True)
class Answer:
    """What is known of a thread; `release` is the first that has what was merged, None for none.

    `asked` is None where GitHub was never asked, and the declaration is taken for the answer.
    """

    thread: Thread
    asked: datetime | None
    live: bool
    release: str | None = None


@dataclass
class Threads:
    """Threads of GitHub, asked for once a run, or read from `folder` where GitHub is out of reach.

    `open_api` opens the API that knows a repository, and `tag_of` says how that tags its releases.
    """

    folder: Path
    open_api: Callable[[str], GitHub] | None
    tag_of: Callable[[str], str]
    unreachable: UnreachableError | None = None
    _tags: dict[str, list[tuple[Version, str]]] = field(default_factory=dict)

    def answer(self, ref: str) -> Answer:
        """Return what is known of a thread, such as vllm-project/vllm#1.

        Raises:
            UnknownThreadError: GitHub is out of reach, and was not asked before.
            GitHubError: it refuses.
        """
        repository, _, number = ref.partition("#")
        store = self._store(repository)
        if self.open_api is not None and self.unreachable is None:
            try:
                github = self.open_api(repository)
                thread = github.thread(repository, int(number))
                asked, release = datetime.now(UTC), None
                if thread.merged_as:
                    release = self._first_release(github, repository, thread.merged_as)
            except UnreachableError as error:
                self.unreachable = error  # once is enough: each takes its time-out
            else:
                record = {"asked": asked.isoformat(), "thread": asdict(thread), "release": release}
                store.put(number, record)
                return Answer(thread, asked, live=True, release=release)
        return store.get(number, _answer) or self._refuse(ref)

    def _first_release(self, github: GitHub, repository: str, commit: str) -> str | None:
        """Halve the releases: whatever branches off later than a merge has it."""
        releases = self._releases(github, repository)
        store = self._store(repository)
        known: dict[str, dict[str, bool]] = store.get("contains", dict) or {}
        answers = known.setdefault(commit, {})

        def has(tag: str) -> bool:
            if tag not in answers:
                answers[tag] = github.contains(repository, tag, commit)
            return answers[tag]

        low, high = 0, len(releases)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if has(releases[middle][1]) else (middle + 1, high)
        store.put("contains", known)
        return str(releases[low][0]) if low < len(releases) else None

    def _releases(self, github: GitHub, repository: str) -> list[tuple[Version, str]]:
        if repository not in self._tags:
            before, _, after = self.tag_of(repository).partition(_VERSION)
            releases = []
            for tag in github.tags(repository):
                if tag.startswith(before) and tag.endswith(after):
                    text = tag.removeprefix(before)
                    version = read_version(text.removesuffix(after) if after else text)
                    if version is not None and not version.is_prerelease:
                        releases.append((version, tag))
            self._tags[repository] = sorted(releases)
        return self._tags[repository]

    def _store(self, repository: str) -> RecordStore:
        return RecordStore(self.folder / repository.replace("/", "__"), is_private=False)

    def _refuse(self, ref: str) -> NoReturn:
        if self.unreachable is None:
            raise UnknownThreadError(
                "GitHub was never asked about it, and --offline forbids to ask",
                where=ref,
                hint="run it once without --offline",
            )
        error = self.unreachable
        what = f"{error.what}, and was never asked about it"
        raise UnknownThreadError(what, where=ref, hint=error.hint)


def answer_as_declared(declared: Upstream) -> Answer | None:
    """Return what a declaration says of a thread; None where it does not say its state."""
    if declared.state is None:
        return None
    repository, _, number = declared.ref.partition("#")
    page = "pull" if declared.is_ == "pull request" else "issues"
    thread = Thread(
        repository=repository,
        number=int(number),
        kind=declared.is_,
        state=declared.state,
        title="",
        author="",
        url=f"https://github.com/{repository}/{page}/{number}",
    )
    return Answer(thread, None, live=False, release=declared.release)


def _answer(record: Any) -> Answer | None:
    asked, release = datetime.fromisoformat(record["asked"]), record["release"]
    if asked.tzinfo is None or not (release is None or isinstance(release, str)):
        return None
    return Answer(as_record(Thread, record["thread"]), asked, live=False, release=release)


def age(asked: datetime, now: datetime) -> str:
    """Return in words how old an answer is."""
    return age_in_words((now - asked).total_seconds())
