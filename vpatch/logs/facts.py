"""What a log says of the vLLM that wrote it: version, platform, model, errors, metrics, waiting."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from vpatch.logs.scanner import LogProbe
from vpatch.logs.vllm_format import printed_version, quotes_client, release_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vpatch.logs.known_issues import Platform
    from vpatch.logs.scanner import LogHit

# More than these are not told apart: they would take time and memory without end.
_VERSIONS = 20
_LONGEST_VERSION = 100
_LONGEST = 300
_SHOWN_FRAMES = 8
_POINTS = 512
# An acceptance of less than this is as good as none.
_NONE = 1.0
# What a draft costs is mostly more than so few accepted tokens win.
_LOW = 20.0
# Fewer reports do not show a course.
_FEWEST = 4
_ARCHITECTURES = 4


@dataclass
class LoggedError:
    """An exception in a log, with the frames above it, the innermost last."""

    log: str
    line: int
    kind: str
    message: str
    frames: tuple[str, ...]
    process: str


@dataclass(frozen=True)
class Observation:
    """What metrics or repeated messages show. The log alone does not tell the cause."""

    log: str
    kind: str
    line: int
    count: int
    what: str
    next: str


@dataclass
class Waiting:
    """A message that a process waits for others, again and again."""

    log: str
    line: int
    since: str
    count: int = 0
    processes: set[str] = field(default_factory=set)


@dataclass
class DraftAcceptance:
    """The acceptance of drafts over time, in a bounded number of points of equal weight."""

    log: str
    first_line: int
    last_line: int = 0
    count: int = 0
    accepted: int = 0
    drafted: int = 0
    # Accepted and drafted tokens of each stretch of the log.
    points: list[tuple[int, int]] = field(default_factory=list)
    each: int = 1

    def add(self, line: int, accepted: int, drafted: int) -> None:
        self.last_line = line
        if self.count % self.each:
            one, all_ = self.points[-1]
            self.points[-1] = one + accepted, all_ + drafted
        else:
            self.points.append((accepted, drafted))
        self.count += 1
        self.accepted += accepted
        self.drafted += drafted
        if len(self.points) > _POINTS and not self.count % (self.each * 2):
            pairs = zip(self.points[::2], self.points[1::2], strict=True)
            self.points = [(a + c, b + d) for (a, b), (c, d) in pairs]
            self.each *= 2

    @property
    def level(self) -> float:
        return _percent(self.accepted, self.drafted)

    @property
    def course(self) -> tuple[float, float]:
        """The level of the first and of the last quarter."""
        quarter = max(1, len(self.points) // 4)
        first, last = self.points[:quarter], self.points[-quarter:]
        return _level(first), _level(last)


def _level(points: list[tuple[int, int]]) -> float:
    return _percent(sum(one for one, _ in points), sum(all_ for _, all_ in points))


def _percent(part: int, whole: int) -> float:
    return 100 * part / whole if whole else 0.0


@dataclass
class Facts:
    """What all logs of a vLLM say of it. What they do not say is None or empty."""

    versions: list[str] = field(default_factory=list)
    platform: Platform | None = None
    model: str | None = None
    architectures: list[str] = field(default_factory=list)
    speculation: str | None = None
    speculates: bool | None = None
    draft: str | None = None
    quantization: str | None = None
    # The CUDA versions that packages and libraries in the log are built for.
    cuda: set[str] = field(default_factory=set)
    first_error: LoggedError | None = None
    last_error: LoggedError | None = None
    acceptance: dict[str, DraftAcceptance] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)
    impossible: Observation | None = None

    def add_version(self, version: str) -> None:
        if version not in self.versions:
            self.versions.append(version[:_LONGEST_VERSION])
            del self.versions[_VERSIONS:]

    @property
    def release(self) -> str | None:
        """The one release that wrote the log, if it is of one."""
        releases = {release_of(version) or version for version in self.versions}
        return release_of(self.versions[0]) if len(releases) == 1 else None

    def observations(self) -> Iterator[Observation]:
        """What metrics and repeated messages show, in the order of the log."""
        observed = [
            *(_of_acceptance(one, self.draft or self.model) for one in self.acceptance.values()),
            *(_of_waiting(one) for one in self.waiting.values()),
            self.impossible,
        ]
        yield from sorted((one for one in observed if one), key=lambda one: one.line)


_COUNTER = (
    "do not trust the metrics of this run; the cause is not known from this alone: see whether "
    "they are so without speculation"
)
_COMPARE = (
    "the cause is not known from this alone. Rule these out: the draft's weights were not loaded "
    "(vpatch checkpoint inspect {model}), the draft is of another model, or it is quantised and "
    "read as if not"
)


def _of_acceptance(seen: DraftAcceptance, draft: str | None) -> Observation | None:
    first, last = seen.course
    level = f"{seen.level:.1f} % of the drafted tokens were accepted"
    span = f"in {seen.count} reports, lines {seen.first_line} to {seen.last_line}"
    if not seen.drafted:
        return None
    if seen.level < _NONE:
        what = f"{level} {span}: the drafts are as good as useless"
    elif first >= 2 * max(last, 0.1) and seen.count >= _FEWEST:
        what = f"{level} {span}, and fewer with time: {first:.1f} % at first, {last:.1f} % at last"
    elif seen.level < _LOW:
        what = f"{level} {span}, which is low"
    else:
        return None
    compare = _COMPARE.format(model=shlex.quote(draft or "MODEL"))
    return Observation(seen.log, "acceptance", seen.first_line, seen.count, what, compare)


def _of_waiting(seen: Waiting) -> Observation | None:
    if seen.count < 2:  # noqa: PLR2004 - one minute of waiting is usual while kernels are compiled
        return None
    who = f"{len(seen.processes)} processes" if len(seen.processes) > 1 else "a process"
    since = f" since {seen.since}" if seen.since else ""
    what = f"{who} waited{since} for another one that did not answer: {seen.count} times"
    return Observation(seen.log, "waiting", seen.line, seen.count, what, _HANGS)


_HANGS = (
    "the cause is not known from this alone: a process hangs, or compiles or loads for a long "
    "time. See the last line of each worker before it, and run py-spy dump --pid PID on the one "
    "that is busy"
)

_CONSEQUENCE = re.compile(
    r"Engine core initialization failed|EngineDeadError|EngineCore encountered an issue"
    r"|Worker failed with error|died unexpectedly|WorkerProc initialization failed"
    r"|Engine process failed to start|cancelled|^(?:KeyboardInterrupt|SystemExit|asyncio\.)"
)
_ERROR = re.compile(
    r"^\s*(?P<kind>(?:[A-Za-z_]\w*\.){0,8}[A-Z]\w*(?:Error|Exception|Interrupt|Exit|Warning|Failure))"
    r"(?::\s*(?P<message>.*))?\s*$",
    re.DOTALL,
)
# pydantic tells the class in one line, and the reason in a later one.
_COUNTED = re.compile(r"\d+ validation errors? for [\w.]+")
_INVALID = re.compile(r"^\s*(?:Value error|Assertion failed), (?P<message>.+)", re.DOTALL)
_SPEC_OBJECT = re.compile(r"speculative_config=SpeculativeConfig\(([^)]{1,400})\)")
_SPEC_ARGS = re.compile(r"'speculative_config': (\{[^}]{1,600}\})")
_DRAFT = re.compile(r"['\"]?model['\"]?[=:] ?['\"]([^'\"]{1,300})['\"]")
_METRICS = re.compile(
    r"Mean\s*acceptance\s*length:\s*(?P<length>-?[\d.]+|nan|inf).{1,200}?"
    r"Accepted:\s*(?P<accepted>-?\d{1,15})\s*tokens,\s*Drafted:\s*(?P<drafted>-?\d{1,15})\s*tokens"
    r"(?:,\s*Per-position\s*acceptance\s*rate:\s*(?P<rates>[\d.,naif\s-]*))?",
    re.DOTALL,
)
_CLOCK = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d")
_CUDA = re.compile(rb"(?<![a-z0-9])cu(1[1-9])\d?(?![a-z])|libcudart\.so\.(1[1-9])\b")

_METRICS_WORD = "SpecDecoding metrics: "
_BROADCAST = "No available shared memory broadcast block found"
_NEGATIVE = "Counters can only be incremented by non-negative amounts"
# What the lines with facts have in common; a line of each is read by the method of that name.
_TEXTS = {
    "version": (
        "LLM engine (v",
        "Launching vLLM (v",
        "vLLM API server version",
        "vLLM server version",
        "vLLM batch processing API version",
        "█ version",
        "vLLM Version",
    ),
    "config": ("with config: model=", "non-default args: {"),
    "architecture": ("Resolved architecture: ",),
    "platform": (
        "Automatically detected platform ",
        "Platform plugin ",
        "device_config=",
        "ROCM used to build PyTorch",
        "CUDA used to build PyTorch",
        "hipErrorIllegal",
        "Using ROCM_",
        "Is XPU available",
    ),
    "error": ("Error: ", "AssertionError", "Exception: ", "NotImplementedError"),
    "invalid": ("Value error, ", "Assertion failed, "),
    "metrics": (_METRICS_WORD,),
    "waiting": (_BROADCAST,),
    "negative": (_NEGATIVE,),
}
_PLATFORM_WORDS: tuple[tuple[str, Platform], ...] = (
    (r"(?:detected platform|Platform plugin) cuda", "cuda"),
    (r"(?:detected platform|Platform plugin) rocm", "rocm"),
    (r"(?:detected platform|Platform plugin) xpu", "xpu"),
    (r"(?:detected platform|Platform plugin) cpu", "cpu"),
    (r"(?:detected platform|Platform plugin) tpu", "tpu"),
    (r"Platform plugin (?:\w+_)?(?:ascend|npu)", "npu"),
    (r"ROCM used to build PyTorch *: \d|hipErrorIllegal|Using ROCM_\w+ backend", "rocm"),
    (r"Is XPU available *: True|device_config=xpu", "xpu"),
    (r"device_config=cpu", "cpu"),
    (r"device_config=npu", "npu"),
    (r"device_config=tpu", "tpu"),
    (r"CUDA used to build PyTorch *: \d|device_config=cuda", "cuda"),
)


def fact_probes() -> list[LogProbe]:
    """Return what to look for in a log to learn these facts."""
    return [
        LogProbe.of_text(f"fact:{name}", text) for name, texts in _TEXTS.items() for text in texts
    ]


class FactReader:
    """Learns the facts of one log after the other."""

    def __init__(self) -> None:
        self.facts = Facts()
        self._readers: dict[str, Callable[[LogHit, str], None]] = {
            "version": self._version,
            "config": self._config,
            "architecture": self._architecture,
            "platform": self._platform,
            "error": self._error,
            "invalid": self._invalid,
            "metrics": self._metrics,
            "waiting": self._waiting,
            "negative": self._negative,
        }

    def take_cuda(self, message: bytes) -> None:
        """Learn for which CUDA something in a line is built."""
        message = message[:_LONGEST_LINE]
        if len(self.facts.cuda) < _VERSIONS and not quotes_client(message.decode(errors="replace")):
            for match in _CUDA.finditer(message):
                self.facts.cuda.add((match[1] or match[2]).decode())

    def take(self, hit: LogHit, log: str) -> None:
        """Learn what a line says that one of the probes of facts hit."""
        self._readers[hit.probe.name.removeprefix("fact:")](hit, log)

    def _version(self, hit: LogHit, _: str) -> None:
        if (version := printed_version(hit.text[:_LONGEST_LINE])) is not None:
            self.facts.add_version(version)
            # ROCm's device is called cuda as well.
            if "+rocm" in version:
                self.facts.platform = "rocm"

    def _architecture(self, hit: LogHit, _: str) -> None:
        known = self.facts.architectures
        name = hit.text[:_LONGEST_LINE].partition("Resolved architecture: ")[2].split()
        if name and name[0] not in known and len(known) < _ARCHITECTURES:
            known.append(name[0][:_LONGEST_VERSION])

    def _platform(self, hit: LogHit, _: str) -> None:
        text = hit.text[:_LONGEST_LINE]
        platform = next((name for word, name in _PLATFORM_WORDS if re.search(word, text)), None)
        # ROCm's PyTorch calls its devices cuda.
        if platform and (self.facts.platform is None or platform == "rocm"):
            self.facts.platform = platform

    def _config(self, hit: LogHit, log: str) -> None:
        text, facts = hit.text[:_LONGEST_LINE], self.facts
        self._platform(hit, log)
        model = re.search(r"(?:with config: model=|'model(?:_tag)?': )'([^']{1,300})'", text)
        facts.model = facts.model or (model[1] if model else None)
        quantization = re.search(r"\bquantization'?[=:] ?'?([\w-]{1,60})", text)
        if quantization and quantization[1] != "None":
            facts.quantization = quantization[1]
        if "speculative_config=None" in text and facts.speculates is None:
            facts.speculates = False
        spec = _SPEC_OBJECT.search(text) or _SPEC_ARGS.search(text)
        if spec:
            facts.speculates, facts.speculation = True, spec[1]
            draft = _DRAFT.search(spec[1])
            facts.draft = draft[1] if draft else facts.draft

    def _error(self, hit: LogHit, log: str) -> None:
        match = _ERROR.match(hit.text[:_LONGEST_LINE])
        if match is None or hit.level == b"WARNING" or _CONSEQUENCE.search(hit.text[:_LONGEST]):
            return
        error = LoggedError(
            log,
            hit.line,
            match["kind"].rpartition(".")[2],
            (match["message"] or "").strip()[:_LONGEST],
            tuple(_frame(frame) for frame in hit.frames[-_SHOWN_FRAMES:]),
            hit.process.decode("utf-8", "replace"),
        )
        self._add(error)

    def _invalid(self, hit: LogHit, log: str) -> None:
        """Learn what pydantic writes in the line below `1 validation error for ModelConfig`."""
        match = _INVALID.match(hit.text[:_LONGEST_LINE])
        if match is None or hit.level == b"WARNING":
            return
        process = hit.process.decode("utf-8", "replace")
        message = match["message"].strip()[:_LONGEST]
        error = LoggedError(log, hit.line, "ValidationError", message, (), process)
        above = self.facts.last_error
        if above is not None and above.log == log and _COUNTED.fullmatch(above.message):
            error = replace(error, frames=above.frames)
            if self.facts.first_error is above:
                self.facts.first_error = error
            self.facts.last_error = error
        self._add(error)

    def _add(self, error: LoggedError) -> None:
        self.facts.first_error = self.facts.first_error or error
        last = self.facts.last_error
        # Other processes report the same.
        if last is None or (last.kind, last.message) != (error.kind, error.message):
            self.facts.last_error = error

    def _metrics(self, hit: LogHit, log: str) -> None:
        match = _METRICS.search(hit.text)
        if match is None:
            return
        accepted, drafted = int(match["accepted"]), int(match["drafted"])
        seen = self.facts.acceptance.setdefault(log, DraftAcceptance(log, hit.line))
        if accepted < 0 or drafted < 0 or accepted > drafted:
            what = f"{accepted} of {drafted} drafted tokens were accepted, which cannot be"
            self._impossible(hit, log, what)
            return
        # A line that was cut ends within a number.
        rates = [float(one) for one in _RATE.findall(match["rates"] or "")]
        # Each position is only asked about where the one before it was accepted.
        rising = any(later > before + 0.002 for before, later in pairwise(rates))
        if rising or any(not 0 <= rate <= 1 for rate in rates):
            what = "a later position of the drafts was accepted more often than an earlier one"
            self._impossible(hit, log, what if rising else "an acceptance is not between 0 and 1")
        seen.add(hit.line, accepted, drafted)

    def _waiting(self, hit: LogHit, log: str) -> None:
        clock = _CLOCK.search(hit.before)
        since = clock[0] if clock else ""
        seen = self.facts.waiting.setdefault(log, Waiting(log, hit.line, since))
        seen.count += 1
        if len(seen.processes) < _VERSIONS:
            seen.processes.add(hit.process.decode("utf-8", "replace"))

    def _negative(self, hit: LogHit, log: str) -> None:
        self._impossible(hit, log, "a counter was to be incremented by a negative amount")

    def _impossible(self, hit: LogHit, log: str, what: str) -> None:
        seen = self.facts.impossible or Observation(log, "counter", hit.line, 0, what, _COUNTER)
        self.facts.impossible = replace(seen, count=seen.count + 1)


_RATE = re.compile(r"(?<![\d.])-?\d{1,9}\.\d{1,9}(?![\d.])")
_LONGEST_LINE = 20_000
_FRAME = re.compile(r'File "([^"]+)", line (\d+)(?:, in (\S+))?')


def _frame(text: str) -> str:
    """Return a frame in short: vllm/v1/worker/worker.py:12 load_model."""
    match = _FRAME.search(text)
    if match is None:
        return text
    path = re.sub(r"^.*/(?:site|dist)-packages/", "", match[1])
    return f"{path}:{match[2]}{f' {match[3]}' if match[3] else ''}"
