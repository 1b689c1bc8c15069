"""What GitHub says of the threads that patches name, kept for when there is no network."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vpatch.errors import UnavailableError
from vpatch.github.client import GitHub, Thread
from vpatch.github.errors import UnreachableError
from vpatch.util.files import replace_file
from vpatch.util.plain_records import as_record
from vpatch.util.untrusted import LARGEST_BESIDE, parse_json, read_file
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
        file = self._file(repository, f"{number}.json")
        if self.open_api is not None and self.unreachable is None:
            try:
                github = self.open_api(repository)
                thread = github.thread(repository, int(number))
                found = Answer(thread, datetime.now(UTC), live=True)
                if thread.merged_as:
                    release = self._first_release(github, repository, thread.merged_as)
                    found = Answer(thread, found.asked, live=True, release=release)
            except UnreachableError as error:
                self.unreachable = error  # once is enough: each takes its time-out
            else:
                self._keep(file, found)
                return found
        return self._recalled(ref, file)

    def _first_release(self, github: GitHub, repository: str, commit: str) -> str | None:
        """Halve the releases: whatever branches off later than a merge has it."""
        releases = self._releases(github, repository)
        file = self._file(repository, "contains.json")
        known: dict[str, dict[str, bool]] = _read(file) or {}
        answers = known.setdefault(commit, {})

        def has(tag: str) -> bool:
            if tag not in answers:
                answers[tag] = github.contains(repository, tag, commit)
            return answers[tag]

        low, high = 0, len(releases)
        while low < high:
            middle = (low + high) // 2
            low, high = (low, middle) if has(releases[middle][1]) else (middle + 1, high)
        self._write(file, known)
        return str(releases[low][0]) if low < len(releases) else None

    def _releases(self, github: GitHub, repository: str) -> list[tuple[Version, str]]:
        if repository not in self._tags:
            before, _, after = self.tag_of(repository).partition(_VERSION)
            found = []
            for tag in github.tags(repository):
                if tag.startswith(before) and tag.endswith(after):
                    text = tag.removeprefix(before)
                    version = read_version(text.removesuffix(after) if after else text)
                    if version is not None and not version.is_prerelease:
                        found.append((version, tag))
            self._tags[repository] = sorted(found)
        return self._tags[repository]

    def _file(self, repository: str, name: str) -> Path:
        return self.folder / repository.replace("/", "__") / name

    def _keep(self, file: Path, answer: Answer) -> None:
        document = {
            "asked": answer.asked and answer.asked.isoformat(),
            "thread": asdict(answer.thread),
            "release": answer.release,
        }
        self._write(file, document)

    def _write(self, file: Path, document: object) -> None:
        # Where nothing can be kept, the next run asks again.
        with suppress(OSError):
            file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(file, json.dumps(document))

    def _recalled(self, ref: str, file: Path) -> Answer:
        known = _read(file)
        if known is not None:
            try:
                asked = datetime.fromisoformat(known["asked"])
                thread, release = as_record(Thread, known["thread"]), known["release"]
                if asked.tzinfo is not None and (release is None or isinstance(release, str)):
                    return Answer(thread, asked, live=False, release=release)
            except (LookupError, TypeError, ValueError):
                pass  # of another vpatch, or damaged: as if it were not there
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


def _read(file: Path) -> Any:
    try:
        return parse_json(read_file(file, LARGEST_BESIDE))
    except (OSError, ValueError):
        return None  # not there, or damaged: asked for anew


def age(asked: datetime, now: datetime) -> str:
    """Return in words how old an answer is."""
    seconds = max(0, int((now - asked).total_seconds()))
    for size, name in ((86400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size:
            count = seconds // size
            return f"{count} {name}{'' if count == 1 else 's'} old"
    return "less than a minute old"
