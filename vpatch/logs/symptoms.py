"""What a log shows: symptoms of patches, known issues, explained messages, and facts.

Which symptoms a patch cures is what its declaration says. For the library's patches, the data in
`known-issues/` says how a log has them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, TypeVar

from vpatch.logs.explanations import BY_MESSAGE, Explanation, explanation_probes, in_context
from vpatch.logs.facts import FactReader, Facts, fact_probes
from vpatch.logs.known_issues import Near, patch_symptoms, squeeze, squeezed_pattern
from vpatch.logs.scanner import LogProbe, Scanner
from vpatch.logs.vllm_format import quotes_client, read_blocks, read_lines
from vpatch.util.versions import read_version

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from packaging.version import Version

    from vpatch.library.patch import Patch
    from vpatch.logs.known_issues import KnownIssue, PatchSymptom
    from vpatch.logs.scanner import LogHit

# What PyTorch and Python say for many reasons: such a message has no cause of its own.
_GENERAL = re.compile(
    r"index out of range|expected scalar type \w+ but found \w+|illegal memory access"
    r"|device-side assert|out of memory|unspecified launch failure|EngineDeadError"
    r"|'NoneType' object|file size exceeded|(?:list|string) index|division by zero"
    r"|Connection (?:refused|reset)|timed? ?out|broken pipe|Killed$|Segmentation fault"
    r"|(?:shape|size) mismatch|must match the size|is not contiguous",
    re.IGNORECASE,
)
# A log of a file, where the caller names none.
_UNNAMED = ""


@dataclass(frozen=True)
class Sighting:
    """A symptom in a log: the line where it first begins, and how often it is there.

    `alone` says that the message has no other cause, as far as the log tells.
    """

    patch: Patch
    symptom: str
    line: int
    text: str
    count: int
    log: str = _UNNAMED
    alone: bool = True


@dataclass(frozen=True)
class IssueSighting:
    """A known issue in a log: the same, for a symptom that people reported."""

    issue: KnownIssue
    line: int
    text: str
    count: int
    log: str = _UNNAMED
    alone: bool = True
    # Whether warnings alone have it, and people reported it as an error.
    warned: bool = False


class ExplainedLine(NamedTuple):
    """A message whose cause is known, and which no patch cures."""

    explanation: Explanation
    log: str
    line: int


class LogReading(NamedTuple):
    """What logs show, each part in their order."""

    sightings: list[Sighting]
    issues: list[IssueSighting]
    explained: list[ExplainedLine]
    facts: Facts


def declared_symptoms(patch: Patch) -> Iterator[tuple[str, PatchSymptom | None]]:
    """Yield what a patch declares that a log can have, with what is known of it."""
    for text in patch.declaration.symptoms:
        key = patch.id, squeeze(text)
        if key not in _prose() and squeeze(text):
            yield text, _families().get(key)


@lru_cache(maxsize=1)
def _families() -> Mapping[tuple[str, str], PatchSymptom]:
    return {(one.patch, squeeze(one.declared)): one for one in patch_symptoms().symptom}


@lru_cache(maxsize=1)
def _prose() -> frozenset[tuple[str, str]]:
    return frozenset(
        (one.patch, squeeze(text)) for one in patch_symptoms().prose for text in one.declared
    )


@dataclass
class _SeenSymptom:
    """What one probe hit."""

    log: str
    line: int
    text: str
    count: int = 0
    failed: bool = False


class LogReader:
    """Reads one log after the other, all of one vLLM."""

    def __init__(self, patches: Iterable[Patch], issues: Sequence[KnownIssue] = ()) -> None:
        self._near: dict[str, Near] = {}
        self._patches: dict[str, tuple[Patch, str, bool]] = {}
        self._issues = {f"issue:{issue.id}": issue for issue in issues}
        self._seen: dict[str, _SeenSymptom] = {}
        # Symptoms that were seen without the traceback that they should be below.
        self._unframed: set[str] = set()
        self._facts = FactReader()
        self._probes = [*fact_probes(), *explanation_probes()]
        for patch in patches:
            for number, (text, family) in enumerate(declared_symptoms(patch)):
                self._want_patch(f"patch:{patch.id}:{number}", patch, text, family)
        for name, issue in self._issues.items():
            self._want(LogProbe.of_pattern(name, issue.pattern, quiet=issue.reported), issue.near)

    @property
    def symptoms(self) -> int:
        """How many symptoms of patches are looked for."""
        return len(self._patches)

    def _want_patch(self, name: str, patch: Patch, text: str, family: PatchSymptom | None) -> None:
        if family is None:
            self._patches[name] = patch, text, not _GENERAL.search(text)
            self._want(LogProbe.of_text(name, text), Near())
        else:
            self._patches[name] = patch, text, family.alone
            probe = LogProbe.of_pattern(name, family.pattern, quiet=family.reported)
            self._want(probe, family.near)

    def _want(self, probe: LogProbe, near: Near) -> None:
        self._probes.append(probe)
        self._near[probe.name] = near
        for text in (near.log, near.without):
            if text is not None:
                pattern = squeezed_pattern(text)
                self._probes.append(LogProbe.of_pattern(f"near:{text}", pattern, quiet=True))

    def read(self, stream: BinaryIO, log: str) -> int:
        """Read a log, and return how many lines it has.

        Raises:
            OSError: it cannot be read.
        """
        lines = 0

        def counted() -> Iterator[tuple[int, list[bytes]]]:
            nonlocal lines
            for number, block in read_blocks(stream):
                lines = number + len(block) - 1
                yield number, block

        self._take(Scanner(self._probes, self._facts.take_cuda).scan_blocks(counted()), log)
        return lines

    def read_pieces(self, pieces: Iterable[tuple[int, bytes]]) -> None:
        """Read a log whose lines have their numbers."""
        self._take(Scanner(self._probes).scan(read_lines(pieces)), _UNNAMED)

    def _take(self, hits: Iterable[LogHit], log: str) -> None:
        for hit in hits:
            name = hit.probe.name
            kind = name.partition(":")[0]
            # What a client writes does not fail: it may be what leads to a failure.
            if kind != "near" and quotes_client(hit.message):
                continue
            if kind == "fact":
                self._facts.take(hit, log)
            elif (kind != "explained" or hit.level != b"WARNING") and self._has_frames(hit):
                seen = self._seen.setdefault(name, _SeenSymptom(log, hit.line, hit.whole))
                seen.count += 1
                seen.failed |= hit.level != b"WARNING" or self._warns(name)

    def _warns(self, name: str) -> bool:
        issue = self._issues.get(name)
        return issue is None or issue.warns

    def _has_frames(self, hit: LogHit) -> bool:
        name = hit.probe.name
        near = self._near.get(name)
        if near is None or near.frames is None:
            return True
        if not hit.frames:
            # Without a traceback, a message that has no other cause may still be it.
            self._unframed.add(name)
            return self._alone(name)
        return bool(squeezed_pattern(near.frames).search(squeeze("".join(hit.frames))))

    def _alone(self, name: str) -> bool:
        issue = self._issues.get(name)
        return self._patches[name][2] if issue is None else issue.alone

    def result(self, asked: Version | None = None) -> LogReading:
        """Return what the logs show. `asked` is the release that wrote them, as the user says."""
        facts = self._facts.facts
        release = asked or read_version(facts.release)
        sightings = [
            Sighting(patch, text, seen.line, seen.text, seen.count, seen.log, alone and certain)
            for name, (patch, text, alone) in self._patches.items()
            if (seen := self._seen.get(name)) and (certain := self._holds(name)) is not None
        ]
        issues = [
            IssueSighting(
                issue,
                seen.line,
                seen.text,
                seen.count,
                seen.log,
                issue.alone and certain and seen.failed,
                not seen.failed,
            )
            for name, issue in self._issues.items()
            if (seen := self._seen.get(name)) and (certain := self._holds(name)) is not None
        ]
        explained = [
            ExplainedLine(in_context(one, seen.text, facts), seen.log, seen.line)
            for message, one in BY_MESSAGE.items()
            if (seen := self._seen.get(f"explained:{message}")) and one.fits(facts, release)
        ]
        return LogReading(
            in_order(sightings, self._logs),
            in_order(issues, self._logs),
            in_order(explained, self._logs),
            facts,
        )

    @property
    def _logs(self) -> list[str]:
        return list(dict.fromkeys(seen.log for seen in self._seen.values()))

    def _holds(self, name: str) -> bool | None:
        """Whether what must be near a symptom is there; None if it is not, False if unknown."""
        near, facts = self._near[name], self._facts.facts
        if near.log is not None and f"near:{near.log}" not in self._seen:
            return None
        if near.without is not None and f"near:{near.without}" in self._seen:
            return None
        certain = name not in self._unframed
        if near.platforms:
            if facts.platform is None:
                certain = False
            elif facts.platform not in near.platforms:
                return None
        if near.speculation is not None:
            if facts.speculates is None:
                certain = False
            elif facts.speculates is not near.speculation:
                return None
        return certain


Placed = TypeVar("Placed", Sighting, IssueSighting, ExplainedLine)


def in_order(placed: Iterable[Placed], logs: Sequence[str]) -> list[Placed]:
    """Sort by log and line."""
    return sorted(placed, key=lambda one: (logs.index(one.log), one.line))


def find_symptoms(log_lines: Iterable[str], patches: Iterable[Patch]) -> list[Sighting]:
    """Find what patches declare as symptoms, in the order of the log."""
    return find_in_pieces(enumerate(log_lines, start=1), patches)


def find_in_pieces(pieces: Iterable[tuple[int, str]], patches: Iterable[Patch]) -> list[Sighting]:
    """Do the same with lines that have their numbers, and may come in pieces of one number.

    White space does not count, nor do vLLM's prefixes. So a message is found that goes on in the
    next line of its process, wherever that is and wherever it was broken.
    """
    reader = LogReader(patches)
    reader.read_pieces((number, piece.encode("utf-8", "replace")) for number, piece in pieces)
    return reader.result().sightings
