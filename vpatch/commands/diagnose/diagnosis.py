"""A log becomes verdicts: which declared symptoms it shows, and what to do."""

from __future__ import annotations

import re
import shlex
import sys
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from vpatch.errors import UsageError, VpatchError
from vpatch.logs.known_issues import FIRST_READ, LAST_READ, known_issues
from vpatch.logs.symptoms import LogReader
from vpatch.logs.vllm_format import as_utf8, release_of
from vpatch.planning.state import State
from vpatch.source.spec import parse_vllm
from vpatch.util.versions import read_version
from vpatch.workspace import selection
from vpatch.workspace.plans import planned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from io import BufferedReader

    from packaging.version import Version

    from vpatch.library.patch import Patch
    from vpatch.logs.facts import Facts, Observation
    from vpatch.logs.known_issues import KnownIssue
    from vpatch.logs.symptoms import IssueSighting, LogReading, Sighting
    from vpatch.planning.state import Decision
    from vpatch.source.tree import Pin
    from vpatch.workspace.context import Context

STDIN = "-"


# gzip, bzip2, xz, zstandard, and zip.
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd", b"PK\x03\x04")
# As much of a log as tells its encoding.
_START = 4096


# Claimed for a tree that never needs a patch.
_NEVER = "<0"


# Logs of one folder.
_LOGS = 1000
_DIGITS = 15


_NEEDS = "needs it"
_HAS_DEFECT = "has the defect that it cures"
_LIKE_NO_RELEASE = "; its code is not that of a release on record, so this is not sure"
_NOT_KNOWN = "whether the vLLM of this log needs it is not known"


# Of others, nothing is known.
_READ = f"(of {FIRST_READ} to {LAST_READ})"


class _FactWords(NamedTuple):
    """How to say what the code of a release has of a known issue."""

    absent: str
    present: str
    others: str
    what: str
    without: str


_ANOTHER_CAUSE = "so the message has another cause here"
_FACT_WORDS = {
    "fix": _FactWords(
        f"has the fix in its code, {_ANOTHER_CAUSE}",
        "does not have the fix",
        "these have it",
        "the fix",
        "releases with it",
    ),
    "defect": _FactWords(
        f"does not have the defect in its code, {_ANOTHER_CAUSE}",
        "has the defect",
        "these do not have it",
        "the defect",
        "releases without it",
    ),
    "message": _FactWords(
        "does not have this message in its code, so another vLLM or a plugin wrote it",
        "has this message in its code",
        "these do not have it",
        "this message in its code",
        "releases without it",
    ),
}


class Certainty(StrEnum):
    """How sure it is that a patch or a known issue is the cause of a message."""

    SURE = "sure"
    REPORTED = "reported"
    ONE_OF_SEVERAL = "one cause among others"
    NOT_THIS = "not the cause"
    UNKNOWN = "unknown"


@dataclass
class DiagnosedLog:
    """A log while it is read. `typed` is how it was named."""

    typed: str
    lines: int = 0

    @property
    def name(self) -> str:
        return "standard input" if self.typed == STDIN else self.typed


@dataclass(frozen=True)
class SymptomVerdict:
    """What a patch means for the vLLM of a log; the state is None where that is not known."""

    patch: Patch
    says: str
    certainty: Certainty = Certainty.UNKNOWN
    state: State | None = None
    reason: str | None = None
    run: str | None = None
    sightings: tuple[Sighting, ...] = ()

    @property
    def claimed_state(self) -> State | None:
        """The state, where it says what to do: a patch for one of several causes may not be it."""
        return None if self.certainty is Certainty.ONE_OF_SEVERAL else self.state


@dataclass(frozen=True)
class IssueVerdict:
    """What a known issue means for the vLLM of a log."""

    sighting: IssueSighting
    certainty: Certainty
    says: str
    # The command to run next, if there is one.
    run: str | None = None

    @property
    def issue(self) -> KnownIssue:
        return self.sighting.issue

    @property
    def applies(self) -> bool:
        """Whether the issue may be the cause."""
        return self.certainty is not Certainty.NOT_THIS


@contextmanager
def opened_log(log: DiagnosedLog) -> Iterator[BinaryIO]:
    try:
        if log.typed == STDIN:
            yield _text(cast("BufferedReader", sys.stdin.buffer), log.name)
        else:
            with Path(log.typed).open("rb") as stream:
                yield _text(stream, log.name)
    except OSError as error:
        raise UsageError(
            f"the log cannot be read: {error.strerror or error}",
            where=log.name,
            hint="name a file with vLLM's output, or - for standard input",
            code="logs.unreadable",
        ) from error


def _text(stream: BufferedReader, name: str) -> BinaryIO:
    start = stream.peek(_START)[:_START]
    if start.startswith(_PACKED):
        raise UsageError(
            "the log is packed, so vpatch cannot search it",
            where=name,
            hint="unpack it first, such as: zcat FILE | vpatch diagnose -",
            code="logs.packed",
        )
    return as_utf8(stream, start)


class LookedFor(NamedTuple):
    """How many patches there are, how many symptoms a log can have of them, and known issues."""

    patches: int
    symptoms: int
    known_issues: int


class Diagnosis(NamedTuple):
    """What logs of one vLLM show. `note` says why a verdict is not known, if one is not.

    `next` is where to go on, if nothing that is known explains the logs.
    """

    looked_for: LookedFor
    logs: list[DiagnosedLog]
    reading: LogReading
    verdicts: list[SymptomVerdict]
    issues: list[IssueVerdict]
    note: str | None
    next: str | None

    @property
    def log(self) -> str:
        return self.logs[0].typed

    @property
    def facts(self) -> Facts:
        return self.reading.facts

    @property
    def observations(self) -> list[Observation]:
        return list(self.facts.observations())

    @property
    def lines(self) -> int:
        return sum(log.lines for log in self.logs)

    @property
    def shows_something(self) -> bool:
        """Whether a person has something to look at."""
        return bool(self.verdicts or self.issues or self.reading.explained or self.observations)


def diagnose(context: Context, logs: Sequence[str], vllm: str | None) -> Diagnosis:
    """Look in logs for the symptoms of all patches, and for known issues.

    Args:
        context: the project and its library.
        logs: files, folders with logs, or - for standard input; all of one vLLM.
        vllm: the vLLM that wrote them; by default the one that they name.

    Raises:
        UsageError: there is no such log, or no such version.
    """
    known = context.library.load_all()
    issues = known_issues()
    if vllm:
        parse_vllm(vllm)  # an error must not come after a long log
    reader = LogReader(known, issues)
    read = [DiagnosedLog(name) for name in _named(logs)]
    for log in read:
        with opened_log(log) as stream:
            task = context.progress.start(f"Reading {log.name}")
            log.lines = reader.read(stream, log.name)
            task.done()
    reading = reader.result(read_version(vllm.removeprefix("v")) if vllm else None)
    sightings, facts = reading.sightings, reading.facts
    sighted = list({sighting.patch.id: sighting.patch for sighting in sightings}.values())
    verdicts, note = symptom_verdicts(context, sighted, vllm, facts.versions)
    verdicts = [
        _graded(one, tuple(s for s in sightings if s.patch.id == one.patch.id)) for one in verdicts
    ]
    release = _release(vllm, facts)
    return Diagnosis(
        LookedFor(len(known), reader.symptoms, len(issues)),
        read,
        reading,
        verdicts,
        [_issue_verdict(sighting, release, facts) for sighting in reading.issues],
        note,
        _where_to_go_on(facts),
    )


def _named(logs: Sequence[str]) -> Iterator[str]:
    """Yield each log, and those in a folder in the order of their names."""
    for name in logs:
        folder = Path(name)
        if name == STDIN or not folder.is_dir():
            yield name
            continue
        inside = sorted(
            (p for p in folder.rglob("*") if p.is_file() and not p.name.startswith(".")),
            key=lambda path: tuple(_natural(part) for part in path.parts),
        )
        if not inside:
            raise UsageError(
                "the folder has no files",
                where=name,
                hint="name a folder with logs of vLLM, or the logs themselves",
                code="logs.unreadable",
            )
        yield from (str(path) for path in inside[:_LOGS])
        if len(inside) > _LOGS:
            raise UsageError(
                f"the folder has {len(inside)} files, and vpatch reads {_LOGS}",
                where=name,
                hint="name the logs themselves",
                code="logs.unreadable",
            )


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Sort rank10 behind rank9."""
    return tuple(
        (int(part), "") if part.isdigit() and len(part) < _DIGITS else (-1, part)
        for part in re.split(r"(\d+)", name)
    )


def _release(vllm: str | None, facts: Facts) -> Version | None:
    """The release that a known issue is judged by, if there is one."""
    if vllm is None:
        return read_version(facts.release)
    return read_version(vllm.removeprefix("v"))


def _issue_verdict(sighting: IssueSighting, release: Version | None, facts: Facts) -> IssueVerdict:
    issue, code = sighting.issue, sighting.issue.code
    run = f"vpatch checkpoint inspect {_model(facts)}" if issue.inspect else None
    if code is None or not code.fixes:
        certainty, says = _unproven(sighting, release)
        return IssueVerdict(sighting, certainty, says, run)
    words = _FACT_WORDS[code.tells]
    has_fix = None if release is None else issue.has_fix(release)
    if has_fix is True:
        return IssueVerdict(sighting, Certainty.NOT_THIS, f"vLLM {release} {words.absent}", run)
    if has_fix is False:
        certainty = Certainty.SURE if sighting.alone else Certainty.ONE_OF_SEVERAL
        fixed = f"; {words.others}: {code.releases} {_READ}" if issue.fixed_somewhere else ""
        says = f"{issue.meaning}. vLLM {release} {words.present}{fixed}"
    else:
        certainty = Certainty.ONE_OF_SEVERAL
        fixed = code.releases if issue.fixed_somewhere else "none"
        unknown = f"Whether this vLLM has {words.what} is not known; {words.without}"
        says = f"{issue.meaning}. {unknown}: {fixed} {_READ}"
    return IssueVerdict(sighting, certainty, f"{says}{_warned(sighting)}", run)


def _unproven(sighting: IssueSighting, release: Version | None) -> tuple[Certainty, str]:
    """How sure an issue is that has no fix in the code of vLLM, and what to say of it."""
    issue = sighting.issue
    certainty, says = Certainty.SURE, issue.meaning
    if not issue.was_read(release):
        name = "this vLLM" if release is None else f"vLLM {release}"
        certainty = Certainty.REPORTED
        says = f"{says}. People reported it; whether {name} has it was not read from its code"
    if not sighting.alone:
        certainty = Certainty.ONE_OF_SEVERAL
    return certainty, f"{says}{_warned(sighting)}"


def _warned(sighting: IssueSighting) -> str:
    return ". The log has it in warnings alone" if sighting.warned else ""


def _model(facts: Facts) -> str:
    return shlex.quote(facts.draft or facts.model or "") if facts.draft or facts.model else "MODEL"


# What a draft or a quantised checkpoint dies of while it is loaded.
_LOADING = re.compile(
    r"not initialized from checkpoint|There is no module or parameter named|weight_scale"
    r"|[Ss]ize of tensor|size mismatch|shape"
)
_LOADS = re.compile(r"load_weights|weight_loader|load_model|get_model|weight_utils")


def _where_to_go_on(facts: Facts) -> str | None:
    """What to run next for an error that is not known."""
    error = facts.first_error
    if error is None:
        return None
    loads = any(_LOADS.search(frame) for frame in error.frames)
    if error.kind == "KeyError" and (loads or re.search(r"\w\.\w+\.\w", error.message)):
        return f"vpatch checkpoint inspect {_model(facts)}"
    if _LOADING.search(error.message) and (
        loads or "checkpoint" in error.message or "module or" in error.message
    ):
        return f"vpatch checkpoint inspect {_model(facts)}"
    return None


def _graded(verdict: SymptomVerdict, sightings: tuple[Sighting, ...]) -> SymptomVerdict:
    """Say how sure it is that a patch cures what is in the log."""
    certainty = verdict.certainty
    says = verdict.says
    if certainty is Certainty.SURE and not any(one.alone for one in sightings):
        certainty = Certainty.ONE_OF_SEVERAL
        says = f"one cause among others: {says.replace(_NEEDS, _HAS_DEFECT, 1)}"
    return replace(verdict, certainty=certainty, says=says, sightings=sightings)


def symptom_verdicts(
    context: Context, patches: Sequence[Patch], vllm: str | None, printed: Sequence[str]
) -> tuple[list[SymptomVerdict], str | None]:
    """What each patch means for the vLLM that is asked for, or else the one that the log is of.

    The second value says why it is not known, where it is not.
    """
    ids = tuple(patch.id for patch in patches if "vllm" in patch.declaration.needed_in)
    verdicts = {
        patch.id: SymptomVerdict(
            patch, _join(_NOT_KNOWN if patch.id in ids else None, _plugins(patch))
        )
        for patch in patches
    }
    note = None if vllm else _unclear(printed)
    if note or not ids:
        return list(verdicts.values()), note
    asked = vllm or release_of(printed[0]) or ""
    try:
        (job,) = selection.resolve(
            selection.Request(asked, patches=ids), context.library, whole_library=True
        )
        with context.tree(job.spec) as tree:
            # As `vpatch apply --patch` would find each: the others do not meet it.
            plan = planned(context, job.patches, tree, to_write=False, alone=ids)
    except VpatchError as error:
        if vllm:
            raise
        # The log named this version, not the user. The user still sees what was found.
        return list(verdicts.values()), f"what vLLM {asked} needs cannot be told: {error}"
    usual = selection.resolve(selection.Request(asked), context.library, unsettled=True)[0]
    for decision in plan.decisions:
        if decision.patch.id in verdicts:
            run = _next(context, decision, usual, asked)
            says = _says(decision, plan.pin, usual, printed)
            verdicts[decision.patch.id] = SymptomVerdict(
                decision.patch, says, _certainty(decision), decision.state, decision.reason, run
            )
    return list(verdicts.values()), None


def _certainty(decision: Decision) -> Certainty:
    """How sure a state makes it that the patch cures its symptoms."""
    match decision.state:
        case State.NEEDED | State.BLOCKED:
            return Certainty.ONE_OF_SEVERAL if decision.may_be_wrong else Certainty.SURE
        case State.UPSTREAMED | State.APPLIED | State.ABSENT:
            return Certainty.NOT_THIS
        case _:
            return Certainty.UNKNOWN


def _unclear(printed: Sequence[str]) -> str | None:
    """Why the log does not tell a release, if it does not."""
    if not printed:
        return "the log does not say which vLLM wrote it: give --vllm VERSION"
    if len({release_of(version) or version for version in printed}) > 1:
        return f"several vLLM wrote this log ({', '.join(printed)}): give --vllm VERSION"
    if release_of(printed[0]) is None:
        return (
            f"vLLM {printed[0]} is a build and no release: give --vllm with the release that is "
            "nearest to it, or with its source (./FOLDER, URL@COMMIT)"
        )
    return None


def _in_recipe(decision: Decision, usual: selection.Selection) -> bool:
    return usual.recipe is not None and decision.patch.id in {patch.id for patch in usual.patches}


def _next(
    context: Context, decision: Decision, usual: selection.Selection, vllm: str
) -> str | None:
    named = [("--vllm", vllm)]
    match decision.state:
        case State.NEEDED:
            verb = "apply"
            named += [] if _in_recipe(decision, usual) else [("--patch", decision.patch.id)]
        case State.BLOCKED | State.CONFLICT | State.UNTRUSTED | State.NOT_DECLARED:
            verb = "status"
            named.append(("--why", decision.patch.id))
        case _:
            return None
    named += [("--patches-dir", str(folder)) for folder in context.patches_dirs]
    named += [("--recipes-dir", str(folder)) for folder in context.recipes_dirs]
    return f"vpatch {verb} {shlex.join(word for option in named for word in option)}"


def _says(decision: Decision, pin: Pin, usual: selection.Selection, printed: Sequence[str]) -> str:
    name = f"vLLM {pin.version or pin.ref or pin.origin}"
    if pin.version and pin.version in {release_of(version) for version in printed}:
        other = ", so the message has another cause here, or the files that ran are not its own"
    else:
        itself = f", and says {', '.join(printed)}" if printed else ""
        other = f": this log must be of another one{itself}"
    if decision.state is State.NEEDED:
        recipe = f", and the recipe {usual.recipe} has it"
        unsure = _LIKE_NO_RELEASE if decision.may_be_wrong else ""
        return f"{name} {_NEEDS}{recipe if _in_recipe(decision, usual) else ''}{unsure}"
    plugins = _plugins(decision.patch)
    says = {
        State.APPLIED: f"{name} carries the patch, as its lock says{other}",
        State.UPSTREAMED: f"{name} has the cure already{other}",
        # A plugin's message needs no further cause.
        State.ABSENT: f"{name} does not have what the patch is about{'' if plugins else other}",
        State.BLOCKED: f"{name} cannot have it yet: it {decision.reason}",
        State.NOT_DECLARED: f"the patch does not claim {name}, and does not fit it",
        State.CONFLICT: f"{name} has this code in a shape that the patch does not fit",
        State.UNTRUSTED: f"only the patch's own code can tell of {name}: {decision.reason}",
    }
    return _join(says[decision.state], plugins)


def _join(*parts: str | None) -> str:
    return "; ".join(part for part in parts if part)


def _plugins(patch: Patch) -> str | None:
    claims = patch.declaration.needed_in.items()
    trees = [tree for tree, claim in claims if tree != "vllm" and claim != _NEVER]
    if not trees:
        return None
    example = f"vpatch status --tree {trees[0]}==VERSION --patch {patch.id}"
    return f"for {' and '.join(trees)} ask {example}"
