"""Search a log for many messages at once, in one pass and in bounded memory.

A line costs a look at the letters that are left of it without digits and white space: logs repeat
themselves, and then they are the same letters. Only a line that has the anchor of a message, which
is the longest plain text in its expression, is searched with the expression itself.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vpatch.logs.known_issues import anchor_of, squeeze
from vpatch.logs.vllm_format import read_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vpatch.logs.vllm_format import LogLine

# Numbers and ids change from line to line, and white space from terminal to terminal.
_DROPPED = b"0123456789abcdef- \t\r\n\v\f"
# What the letters of logs have more rarely than all else, the rarest last.
_RARE = b".,=:/_[]()'\"IENSVRTPODALCGMFBUWKHQYXJZ{}<>|%*+!?;@#$^&`~"
_REPORT = re.compile(rb"(?:\([^()\n]{1,80}\) )?(?:INFO|DEBUG)[ :]")
_DROPPED_IN_BLOCKS = _DROPPED.replace(b"\n", b"")
# What the lines that have a prefix begin with: levels, processes, times.
_BEGINS = frozenset(bytes([code]) for code in b"DIWEC(20[{")
# A server that is started again and again writes as ever new processes.
_PROCESSES = 256
# How many lines a message may be broken into.
_BROKEN = 6
_LONGEST_ANCHOR = 40
_SHORTEST_ANCHOR = 4
_CACHED = 20_000
# What is remembered of a line in case that the message goes on in the next one.
_LONGEST_TAIL = 4000
_NONE: frozenset[int] = frozenset()
_QUIET = frozenset([b"DEBUG", b"INFO"])
_FRAMES = 60
_LONGEST_FRAME = 400


def letters_of(text: bytes) -> bytes:
    """Return what is left of a text without what changes from line to line."""
    return text.translate(None, _DROPPED)


_FRAME = letters_of(b'File "')
_FRAME_LINE = re.compile(rb'\s*File "[^"\n]{1,300}", line \d+')
_TRACEBACK = letters_of(b"Traceback (most recent call last)")


@dataclass(frozen=True)
class LogProbe:
    """A message to look for; `name` is what its hits are known by.

    `quiet` says that it also counts where it is merely reported: in a record of DEBUG or INFO.
    """

    name: str
    pattern: re.Pattern[str]
    anchor: bytes
    quiet: bool
    # The text itself, where it is one: most lines are not broken, and then it is quick to find.
    text: bytes = b""

    @classmethod
    def of_pattern(cls, name: str, pattern: re.Pattern[str], *, quiet: bool) -> LogProbe:
        return cls(name, pattern, _anchor(anchor_of(pattern.pattern)), quiet)

    @classmethod
    def of_text(cls, name: str, text: str, *, quiet: bool = True) -> LogProbe:
        squeezed = squeeze(text)
        pattern = re.compile(re.escape(squeezed))
        return cls(name, pattern, _anchor(squeezed), quiet, text.encode())


def _anchor(text: str) -> bytes:
    anchor = letters_of(text.encode())[:_LONGEST_ANCHOR]
    # Without one, each line is searched.
    return anchor if len(anchor) >= _SHORTEST_ANCHOR else b""


@dataclass
class LogHit:
    """A line that has a message: `line` is where it begins, and `before` its prefixes there.

    `frames` is the traceback above it.
    """

    probe: LogProbe
    line: int
    message: str
    process: bytes
    level: bytes
    frames: tuple[str, ...]
    before: str

    @property
    def text(self) -> str:
        return self.message.strip()

    @property
    def whole(self) -> str:
        return f"{self.before}{self.message}".strip()


def _from_its_rarest(anchor: bytes) -> bytes:
    """Return the rest of an anchor from its rarest byte on, which is not its end."""
    start = max(range(len(anchor) - _SHORTEST_ANCHOR + 1), key=lambda n: _RARE.find(anchor[n]))
    return anchor[start:]


def _any_of(texts: Iterable[bytes]) -> bytes:
    """Return an expression for any of the texts, with each first byte once."""
    by_first: dict[bytes, list[bytes]] = {}
    for text in sorted(set(texts)):
        by_first.setdefault(text[:1], []).append(re.escape(text[1:]))
    branches = (re.escape(a) + b"(?:" + b"|".join(rest) + b")" for a, rest in by_first.items())
    # Without an anchor, it matches nothing.
    return b"|".join(branches) or b"(?!)"


class _Anchors:
    """Which anchors a text has; texts that come again are not searched again."""

    def __init__(self, by_anchor: Mapping[bytes, Sequence[int]]) -> None:
        self._anchors = tuple(by_anchor.items())
        self._cache: dict[bytes, frozenset[int]] = {}
        # One expression for all is quick where they begin with bytes that are rare.
        self.search = re.compile(_any_of(map(_from_its_rarest, by_anchor))).search

    def in_text(self, letters: bytes) -> frozenset[int]:
        cached = self._cache.get(letters)
        if cached is None:
            cached = self._looked_up(letters) if self.search(letters) else _NONE
            if len(self._cache) > _CACHED:
                self._cache.clear()
            self._cache[letters] = cached
        return cached

    def _looked_up(self, letters: bytes) -> frozenset[int]:
        return frozenset(
            n for anchor, numbers in self._anchors if anchor in letters for n in numbers
        )


@dataclass
class _Process:
    """What is remembered of a process: its last lines, and the traceback that it is writing."""

    name: bytes
    letters: bytes = b""
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=_BROKEN))
    # The record of DEBUG or INFO before these lines.
    record: LogLine | None = None
    frames: deque[bytes] = field(default_factory=lambda: deque(maxlen=_FRAMES))
    # The record that the traceback is in: it is not above the messages of another one.
    traceback_record: bytes = b""
    # Probes whose anchor was there, for how many lines more.
    waiting: dict[int, int] = field(default_factory=dict)
    counted: dict[int, tuple[int, int]] = field(default_factory=dict)


class Scanner:
    """Looks for probes in a log."""

    def __init__(
        self, probes: Iterable[LogProbe], on_cuda: Callable[[bytes], None] = lambda _: None
    ) -> None:
        self._on_cuda = on_cuda
        self._probes = tuple(probes)
        self._unanchored = frozenset(n for n, probe in enumerate(self._probes) if not probe.anchor)
        self._by_anchor: dict[bytes, list[int]] = {}
        for n, probe in enumerate(self._probes):
            if probe.anchor:
                self._by_anchor.setdefault(probe.anchor, []).append(n)
        self._quiet = frozenset(n for n, probe in enumerate(self._probes) if probe.quiet)
        self._all = _Anchors(self._by_anchor)
        self._reported = _Anchors(
            {
                anchor: quiet
                for anchor, numbers in self._by_anchor.items()
                if (quiet := [n for n in numbers if n in self._quiet])
            }
        )
        self._reach = max((len(anchor) for anchor in self._by_anchor), default=1)
        # The letters of lines that report nothing of interest, and those of the current line.
        self._unremarkable: set[bytes] = set()
        self._key: bytes | None = None
        self._processes: dict[bytes, _Process] = {}
        self._last = self._switch(b"")

    def scan_blocks(self, blocks: Iterable[tuple[int, list[bytes]]]) -> Iterator[LogHit]:
        """Do the same with lines as they come, without those that are known to have nothing."""
        parts: dict[bytes, tuple[int, bytes]] = {}
        return self.scan(read_lines(self._remarkable(blocks, parts), parts))

    def _remarkable(
        self, blocks: Iterable[tuple[int, list[bytes]]], parts: Mapping[bytes, object]
    ) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not mere reports of a kind that had nothing before."""
        unremarkable, report, reported = self._unremarkable, _REPORT.match, self._reported.search
        plain = not self._unanchored & self._quiet
        before = None
        for first, lines in blocks:
            letters = b"\n".join(lines).translate(None, _DROPPED_IN_BLOCKS).split(b"\n")
            for number, (line, key) in enumerate(zip(lines, letters, strict=False), first):
                if not parts and (
                    key in unremarkable
                    or (plain and report(line) and not reported(key) and b"cu1" not in line)
                ):
                    before = number, line
                    continue
                # A line without a prefix may go on with the one that was passed over.
                if before is not None and line[:1] not in _BEGINS:
                    yield before
                before, self._key = None, key
                yield number, line

    def scan(self, lines: Iterable[LogLine]) -> Iterator[LogHit]:
        """Yield the hits in the order in which the messages end."""
        reach, reported = self._reach, self._reported
        unanchored = self._unanchored & self._quiet
        for line in lines:
            if b"cu1" in line.message or b"libcudart" in line.message:
                self._on_cuda(line.message)
            last = self._last
            process = last if line.process == last.name else self._switch(line.process)
            if line.level in _QUIET:
                # Such a record begins a message: it goes on with no other one.
                letters = line.message.translate(None, _DROPPED)
                wanted = reported.in_text(letters)
                process.letters = letters[-reach:]
                if process.lines:
                    process.lines.clear()
                process.record = None
                if wanted or unanchored:
                    yield from self._reports(process, line, wanted | unanchored)
                elif self._key is not None and b"cu1" not in line.message:
                    if len(self._unremarkable) > _CACHED:
                        self._unremarkable.clear()
                    self._unremarkable.add(self._key)
                process.record = line
                continue
            yield from self._line(process, line, reach)
            # Without a prefix, it may be the rest of a line of another process.
            if not line.prefixed and last is not process and last.name:
                yield from self._line(last, line, reach, rest=True)
                self._last = last

    def _switch(self, name: bytes) -> _Process:
        process = self._processes.pop(name, None) or _Process(name)
        self._processes[name] = self._last = process
        if len(self._processes) > _PROCESSES:
            del self._processes[next(iter(self._processes))]
        return process

    def _reports(
        self, process: _Process, line: LogLine, wanted: frozenset[int]
    ) -> Iterator[LogHit]:
        """Yield the hits in a record of INFO or DEBUG."""
        process.waiting.clear()
        plain = frozenset(
            n for n in wanted if (text := self._probes[n].text) and text in line.message
        )
        for n in sorted(plain):
            process.counted[n] = line.number, -1
            yield _hit(self._probes[n], line, process)
        if wanted - plain:
            yield from self._search(process, line, wanted - plain, rest=False)

    def _line(
        self, process: _Process, line: LogLine, reach: int, *, rest: bool = False
    ) -> Iterable[LogHit]:
        message = line.message
        letters = message.translate(None, _DROPPED)
        before = process.letters
        wanted = _NONE if rest else self._all.in_text(letters)
        if before:
            wanted = wanted | self._all.in_text(before + letters[:reach])
        if process.waiting:
            wanted |= frozenset(process.waiting)
        process.letters = letters[-reach:] if len(letters) >= reach else (before + letters)[-reach:]
        wanted |= self._unanchored
        hits = list(self._search(process, line, wanted, rest=rest)) if wanted else ()
        process.lines.append(line)
        if not rest and _FRAME in letters and _FRAME_LINE.match(message):
            if line.record != process.traceback_record:
                process.frames.clear()
                process.traceback_record = line.record
            process.frames.append(message[:_LONGEST_FRAME])
        elif not rest and _TRACEBACK in letters:
            process.frames.clear()
        return hits

    def _search(
        self, process: _Process, line: LogLine, wanted: frozenset[int], *, rest: bool
    ) -> Iterator[LogHit]:
        record = [process.record] if process.record and len(process.lines) < _BROKEN else []
        parts = [*record, *process.lines, line]
        texts = [
            *(squeeze(p.message[-_LONGEST_TAIL:].decode("utf-8", "replace")) for p in parts[:-1]),
            squeeze(line.message.decode("utf-8", "replace")),
        ]
        starts = [0]
        for text in texts:
            starts.append(starts[-1] + len(text))
        joined, own = "".join(texts), starts[-2]
        for n in sorted(wanted):
            probe = self._probes[n]
            matched = False
            for match in probe.pattern.finditer(joined, max(0, own - _LONGEST_TAIL)):
                # It was there before this line, or this line has it alone.
                if match.end() <= own or (rest and match.start() >= own) or not match[0]:
                    continue
                at = next(k for k in range(len(texts)) if match.start() < starts[k + 1])
                place = parts[at].number, match.start() - starts[at]
                matched = True
                if process.counted.get(n) == place:
                    continue  # It is longer than it seemed.
                process.counted[n] = place
                yield _hit(probe, parts[at], process)
            if matched or n in self._unanchored:
                process.waiting.pop(n, None)
            elif n in process.waiting:
                process.waiting[n] -= 1
                if not process.waiting[n]:
                    del process.waiting[n]
            else:
                process.waiting[n] = _BROKEN - 1


def _hit(probe: LogProbe, line: LogLine, process: _Process) -> LogHit:
    frames = process.frames if line.record == process.traceback_record else ()
    return LogHit(
        probe,
        line.number,
        line.message.decode("utf-8", "replace"),
        process.name,
        line.level,
        tuple(frame.decode("utf-8", "replace").strip() for frame in frames),
        line.prefix.decode("utf-8", "replace"),
    )
